"""Mails about notices. The deliveries are the queue: a row waits while it has `mail_due_at`.

A mail is claimed in a transaction of its own, sent outside of any, then marked. Who is killed after the mail server
took a mail and before the mark leaves a lease behind, and that one mail goes out again when it has run out; it carries
the same Message-ID, by which many mail servers drop the second. Nothing else is ever sent twice.
"""

from __future__ import annotations

import logging
import smtplib
from collections.abc import Sequence
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import F
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import Delivery, Membership, Notification, User
from accounts.notices import OPEN_PAGES, kinds_for, say
from accounts.queries import email_is_verified
from marketplace.lib.product import PRODUCT_NAME

logger = logging.getLogger(__name__)

# Longer than a mail server is waited for; then another worker may take the mail.
LEASE = timedelta(minutes=5)
FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=3)
# What is due for one member at the same time goes out as one mail: fifty machines that are ready are one.
IN_ONE_MAIL = 50
PERMANENT = range(500, 600)

# What the desk says to `Delivery.failed_reason`; a mail that is tried again has one as well.
NOT_SENT = {
    "no_member": gettext_lazy("No longer a member"),
    "not_verified": gettext_lazy("The address was never confirmed"),
    "role": gettext_lazy("The role may not know this any more"),
    "address": gettext_lazy("The mail server refuses the address"),
    "message": gettext_lazy("The mail server refuses the mail"),
    "server": gettext_lazy("The mail server does not answer"),
    "fault": gettext_lazy("A fault of ours; the log has it"),
}


def send_next(*, at: datetime) -> bool:
    """Send one mail with everything that is due for one member of one organization; False when there was nothing to
    do or the mail server does not answer, so that the queue may wait.

    A mail that fails is tried again after a growing pause, for three days; an address that the server refuses for
    good, or somebody who left, gets none. Not to be called inside a transaction.
    """
    rows = _claim(at)
    if not rows:
        return False
    user = rows[0].user
    why_not = _why_not(user, rows)
    wanted = [row for row in rows if row.pk not in why_not]
    for row in rows:
        if row.pk in why_not:
            _settle([row], failed_reason=why_not[row.pk])
    if not wanted:
        return True
    try:
        message(user, wanted).send()
    except Exception as problem:
        return _failed(wanted, problem, at)
    _settle(wanted, mailed_at=at, failed_reason="")
    return True


@transaction.atomic
def _claim(at: datetime) -> Sequence[Delivery]:
    """Lease what is due to one member, the longest waiting first; what others have leased is passed over."""
    due = Delivery.objects.filter(mail_due_at__lte=at).select_for_update(skip_locked=True, of=("self",))
    first = due.select_related("notification").order_by("mail_due_at", "pk").first()
    if first is None:
        return []
    rows = list(
        due.filter(user=first.user_id, notification__organization=first.notification.organization_id)
        .select_related("user", "notification__organization")
        .order_by("notification__created_at", "pk")[:IN_ONE_MAIL]
    )
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(mail_due_at=at + LEASE, attempts=F("attempts") + 1)
    for row in rows:
        row.attempts += 1
    return rows


def _settle(rows: Sequence[Delivery], **facts: object) -> None:
    Delivery.objects.filter(pk__in=[row.pk for row in rows]).update(mail_due_at=None, **facts)


def _why_not(user: User, rows: Sequence[Delivery]) -> dict[int, str]:
    """Rows that are not to be mailed (any more), with the reason."""
    membership = Membership.objects.filter(user=user, organization=rows[0].notification.organization_id).first()
    if membership is None or not user.is_active:
        return {row.pk: "no_member" for row in rows}
    if not email_is_verified(user):
        return {row.pk: "not_verified" for row in rows}
    allowed = kinds_for(membership)
    return {row.pk: "role" for row in rows if row.notification.kind not in allowed}


def _failed(rows: Sequence[Delivery], problem: Exception, at: datetime) -> bool:
    """Write down why and when it is tried again. True when other mails may go on: it was about this mail alone."""
    reason, for_good, ours = _meaning(problem)
    logger.warning("mail to person %s not sent: %s", rows[0].user_id, reason, exc_info=None if ours else problem)
    for row in rows:
        if for_good or at - row.notification.created_at >= GIVEN_UP_AFTER:
            _settle([row], failed_reason=reason)
        else:
            pause = min(FIRST_PAUSE * 2 ** min(row.attempts - 1, 10), LONGEST_PAUSE)
            Delivery.objects.filter(pk=row.pk).update(mail_due_at=at + pause, failed_reason=reason)
    return reason != "server"


def _meaning(problem: Exception) -> tuple[str, bool, bool]:
    """(reason, whether it is for good, whether it is the mail's or the server's rather than a fault of ours)."""
    if isinstance(problem, smtplib.SMTPRecipientsRefused):
        codes = [code for code, _text in problem.recipients.values()]
        return "address", all(code in PERMANENT for code in codes), True
    if isinstance(problem, smtplib.SMTPDataError | smtplib.SMTPSenderRefused):
        return "message", False, True
    if isinstance(problem, OSError):  # of which every SMTPException is one
        return "server", False, True
    return "fault", False, False


def message(user: User, rows: Sequence[Delivery]) -> EmailMessage:
    """The mail about these deliveries, in the person's language; each links to its page."""
    organization = rows[0].notification.organization
    with translation.override(user.language):
        notices = [(say(row.notification), _address(row.notification)) for row in rows]
        title = notices[0][0].title
        if len(notices) > 1:
            title = ngettext("%(count)d notice", "%(count)d notices", len(notices)) % {"count": len(notices)}
        subject = _("[%(product)s] %(title)s") % {"product": PRODUCT_NAME, "title": title}
        body = render_to_string(
            "emails/notices.txt",
            {
                "notices": notices,
                "organization": organization,
                "product": PRODUCT_NAME,
                "site": settings.SITE_URL,
                "preferences": settings.SITE_URL.rstrip("/") + reverse("accounts:notice_preferences"),
            },
        )
    host = urlsplit(settings.SITE_URL).hostname or "localhost"
    return EmailMessage(
        subject=" ".join(subject.split()),
        body=body,
        to=[user.email],
        headers={
            "Message-ID": f"<notices-{rows[0].pk}-{rows[-1].pk}-{len(rows)}@{host}>",
            "Auto-Submitted": "auto-generated",
        },
    )


def _address(notification: Notification) -> str:
    """The page of a notice, absolute. Console pages are entered through the notice, which picks the organization and
    marks it as read."""
    if notification.kind in OPEN_PAGES:
        path = reverse(notification.page, args=notification.page_args)
    else:
        path = reverse("accounts:notice", args=[notification.key])
    return settings.SITE_URL.rstrip("/") + path
