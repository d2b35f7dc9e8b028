"""Demo people for a local installation: one customer organization with an SSH key, and the provider's own staff."""

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from accounts import actions
from accounts.models import User
from marketplace.lib import clock

DEMO_KEY = "demo_ed25519"


class Command(BaseCommand):
    help = "Create the demo logins (development only; safe to repeat)."

    def handle(self, *args, **options) -> None:
        if not settings.DEBUG:
            raise CommandError("Demo logins have a public password; they are for DEBUG only.")
        from marketplace.local import demo_offers, demo_status  # noqa: PLC0415
        from marketplace.local.demo_data import DEMO_LOGINS, DEMO_PASSWORD  # noqa: PLC0415 - refused outside DEBUG
        from marketplace.local.demo_key import demo_public_key  # noqa: PLC0415

        actions.sync_staff_groups()
        for login in DEMO_LOGINS:
            user = self._user(login.email, DEMO_PASSWORD, is_staff=login.is_staff)
            if login.is_staff:
                user.groups.set(Group.objects.filter(name=login.role))
            elif not user.memberships.exists():
                self._open_customer(user, demo_public_key(settings.LOCAL_DIR / DEMO_KEY))
        demo_status.seed(at=clock.now())
        demo_offers.seed(at=clock.now())
        self.stdout.write(f"demo logins ready; the demo customer's SSH key is {settings.LOCAL_DIR / DEMO_KEY}")

    @transaction.atomic
    def _user(self, email: str, password: str, *, is_staff: bool) -> User:
        user = User.objects.filter(email__iexact=email).first()
        if user:
            return user
        user = User.objects.create_user(email, password, is_staff=is_staff)
        EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
        return user

    @transaction.atomic
    def _open_customer(self, user: User, public_key: str) -> None:
        at = clock.now()
        organization = actions.open_organization(owner=user, name="示例智能科技有限公司", currency="CNY", at=at)
        actions.add_ssh_key(organization=organization, name="demo", text=public_key, actor=user, at=at)
