"""The verbs of accounts: open an organization, keep SSH keys and preferences, take and give back headroom."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Greatest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from accounts.keys import KeyRefused, parse_public_key
from accounts.models import (
    CreditLine,
    Delivery,
    Membership,
    NotificationPreference,
    Organization,
    Project,
    SshKey,
    User,
)
from accounts.staff import STAFF_GROUPS
from marketplace.lib import prepared
from marketplace.lib.money import Money, format_minor
from marketplace.lib.refusals import Refusal


class NoHeadroom(Refusal):
    """The credit line cannot carry this commitment. Both amounts are minor units of the organization's currency."""

    code = "no_headroom"

    def __init__(self, *, needed_minor: int, headroom_minor: int, currency: str) -> None:
        needed, left = format_minor(needed_minor, currency), format_minor(headroom_minor, currency)
        super().__init__(
            message=_("This needs %(needed)s of credit, %(left)s is left.") % {"needed": needed, "left": left}
        )
        self.needed_minor = needed_minor
        self.headroom_minor = headroom_minor
        self.currency = currency

    @property
    def missing(self) -> Money:
        return Money(self.needed_minor - self.headroom_minor, self.currency)


@transaction.atomic
def open_organization(
    *, owner: User, name: str, currency: str, at: datetime, zone: str = "Asia/Shanghai"
) -> Organization:
    """A new organization with its owner, default project and a credit line at the starting limit of the settings."""
    organization = Organization.objects.create(name=name, currency=currency, zone=zone, created_at=at)
    Membership.objects.create(user=owner, organization=organization, role=Membership.Role.OWNER, joined_at=at)
    Project.objects.create(organization=organization, name=gettext("Default project"), is_default=True)
    limit = settings.NEW_ORGANIZATION_CREDIT[currency]
    CreditLine.objects.create(organization=organization, limit_minor=limit, available_minor=limit, refreshed_at=at)
    return organization


class ProjectRefused(Refusal):
    """This project cannot have this name; nothing has changed."""


def create_project(*, organization: Organization, name: str) -> Project:
    """A cost centre that orders can be placed for. Raises ProjectRefused where its name cannot be."""
    return _name_project(Project(organization=organization), name)


def rename_project(*, project_id: int, name: str) -> Project:
    """Another name from now on; issued invoices keep the old one. Raises ProjectRefused where the name cannot be."""
    return _name_project(Project.objects.get(pk=project_id), name)


def _name_project(project: Project, name: str) -> Project:
    name = name.strip()
    if not name or not name.isprintable() or len(name) > 60:
        raise ProjectRefused("bad_name", _("Enter a name of at most 60 characters that can be printed."))
    project.name = name
    try:
        with transaction.atomic():
            project.save()
    except IntegrityError:
        raise ProjectRefused("name_taken", _("Another project has this name. Choose a different one.")) from None
    return project


def add_ssh_key(*, organization: Organization, name: str, text: str, actor: User, at: datetime) -> SshKey:
    """Store one public key. Raises KeyRefused when it is not acceptable, already there, or its name is taken."""
    parsed = parse_public_key(text)
    name = name.strip() or parsed.comment[:60] or parsed.fingerprint[-12:]
    if not name.isprintable():
        raise KeyRefused("unprintable_name", _("The name contains characters that cannot be printed."))
    try:
        with transaction.atomic():
            return SshKey.objects.create(
                organization=organization,
                name=name,
                public_key=parsed.text,
                algorithm=parsed.algorithm,
                fingerprint=parsed.fingerprint,
                created_by=actor,
                created_at=at,
            )
    except IntegrityError:
        if organization.ssh_keys.filter(fingerprint=parsed.fingerprint).exists():
            raise KeyRefused("duplicate", _("This key has already been added.")) from None
        raise KeyRefused("name_taken", _("Another key has this name. Choose a different one.")) from None


def choose_key_for_new_orders(*, key: SshKey, chosen: bool) -> None:
    """Whether the key is ticked already when an order is begun. Several may be; nothing that runs changes."""
    key.is_default = chosen
    key.save(update_fields=["is_default"])


def remove_ssh_key(*, key: SshKey) -> None:
    """Forget a key. Machines that were created with it keep admitting it; only future orders lose the choice."""
    key.delete()


def remember_language(*, user: User, language: str) -> None:
    """What mails to this person are written in from now on. Another language than the site's changes nothing."""
    if language in dict(settings.LANGUAGES) and language != user.language:
        user.language = language
        user.save(update_fields=["language"])


def mark_read(*, deliveries: Sequence[int], at: datetime) -> int:
    """Mark notices (ids of deliveries) as read; how many were not before. The first reading counts."""
    return Delivery.objects.filter(pk__in=deliveries, read_at__isnull=True).update(read_at=at)


def set_notice_preferences(*, user: User, wishes: Mapping[str, tuple[bool, bool]]) -> None:
    """How the person wants each named group of notices from now on: (in the console, by mail)."""
    NotificationPreference.objects.bulk_create(
        [NotificationPreference(user=user, group=name, in_app=app, mail=mail) for name, (app, mail) in wishes.items()],
        update_conflicts=True,
        unique_fields=["user", "group"],
        update_fields=["in_app", "mail"],
    )


def take_headroom(*, organization_id: int, amount_minor: int) -> bool:
    """Commit an amount of the credit line by one guarded UPDATE, so that two parallel orders cannot both pass.

    Whether the organization has budgets that may refuse an order, so that nobody else has to ask for them. Raises
    NoHeadroom when available − committed is less or the standing is not good; then nothing changed.
    """
    taken = prepared.fetch_all(_TAKE_HEADROOM, {"organization": organization_id, "amount": amount_minor})
    if taken:
        return bool(taken[0][0])
    line = CreditLine.objects.select_related("organization").get(organization_id=organization_id)
    headroom = line.headroom_minor if line.standing == CreditLine.Standing.GOOD else 0
    raise NoHeadroom(needed_minor=amount_minor, headroom_minor=headroom, currency=line.organization.currency)


_TAKE_HEADROOM = """
UPDATE accounts_creditline SET committed_minor = committed_minor + %(amount)s
 WHERE organization_id = %(organization)s AND standing = 'good' AND available_minor >= committed_minor + %(amount)s
RETURNING EXISTS (
  SELECT FROM accounts_budget WHERE organization_id = %(organization)s AND on_reached IN ('block', 'stop'))
"""


def give_back_headroom(*, organization_id: int, amount_minor: int) -> None:
    """Undo a commitment that `take_headroom` made. The caller makes sure it happens once per commitment."""
    CreditLine.objects.filter(organization_id=organization_id).update(
        committed_minor=Greatest(F("committed_minor") - amount_minor, 0)
    )


def set_available(*, organization_id: int, spent_minor: int, at: datetime) -> None:
    """Write down what is left of the limit after `spent_minor` of use that is not paid yet; it may be negative.

    Money the organization paid ahead counts against what it used: `spent_minor` is negative where it is more.
    """
    CreditLine.objects.filter(organization_id=organization_id).update(
        available_minor=F("limit_minor") - spent_minor, refreshed_at=at
    )


@transaction.atomic
def set_credit_limit(*, organization: Organization, limit_minor: int) -> None:
    """Grant a new limit; what is available moves by the same amount. Finance decides this, never the customer."""
    line = CreditLine.objects.select_for_update().get(organization=organization)
    line.available_minor += limit_minor - line.limit_minor
    line.limit_minor = limit_minor
    line.save(update_fields=["limit_minor", "available_minor"])


def set_standing(*, organization_id: int, standing: str) -> None:
    """Whether new commitments are taken: a frozen line takes none. In the caller's transaction, which holds its row."""
    CreditLine.objects.filter(organization_id=organization_id).update(standing=standing)


def sell_as_export(*, organization_id: int, is_export: bool) -> None:
    """Whether new orders of the organization are sold abroad, for the tax they carry."""
    Organization.objects.filter(pk=organization_id).exclude(is_export=is_export).update(is_export=is_export)


@transaction.atomic
def sync_staff_groups() -> None:
    """Make the provider's staff groups hold exactly the permissions of `accounts.staff`. Raises KeyError for a typo."""
    known = {f"{p.content_type.app_label}.{p.codename}": p for p in Permission.objects.select_related("content_type")}
    for name, permissions in STAFF_GROUPS.items():
        group, _made = Group.objects.get_or_create(name=name)
        group.permissions.set([known[permission] for permission in permissions])
