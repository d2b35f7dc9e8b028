"""Closing a month: finance signs its books, and nothing is booked in it any more."""

from datetime import date, datetime

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import User
from billing import ledger
from billing.models import BillingAccount, ClosedMonth, Posting
from marketplace.lib import clock
from marketplace.lib.refusals import Refusal


class CloseRefused(Refusal):
    """The month stays open; `message` says why."""


@transaction.atomic
def close_month(*, month: date, at: datetime, actor: User | None = None) -> ClosedMonth:
    """Lock the calendar month that begins on `month`, in the company's zone, with the sums of its books; later facts
    of it count in the first open one. Repeating it gives the same row.

    Raises CloseRefused for a day that begins no month, a month that has not ended, one before the first open month,
    a gap, and books that do not prove.
    """
    existing = ClosedMonth.objects.filter(month=month).first()
    if existing is not None:
        return existing
    # Whoever posts holds an account's row: with all of them held, nothing is booked meanwhile.
    list(BillingAccount.objects.order_by("pk").select_for_update(no_key=True).values_list("pk", flat=True))
    _expect_closable(month, at)
    wrong = ledger.check()
    if wrong:
        raise CloseRefused("books_wrong", _("The books do not prove: %(wrong)s") % {"wrong": wrong[0]})
    totals = ledger.trial_balance(since=month, until=_following(month))
    closed, _made = ClosedMonth.objects.get_or_create(
        month=month, defaults={"closed_at": at, "closed_by": actor, "totals": totals}
    )
    return closed


def next_to_close() -> date | None:
    """The first month with postings that is not closed; none where nothing was booked since the last one."""
    last = ClosedMonth.objects.order_by("-month").values_list("month", flat=True).first()
    if last is not None:
        return _following(last)
    first = Posting.objects.order_by("booked_on").values_list("booked_on", flat=True).first()
    return first.replace(day=1) if first else None


def _expect_closable(month: date, at: datetime) -> None:
    if month.day != 1:
        raise CloseRefused("no_month", _("A month begins on its first day."))
    if _following(month) > clock.local_date(at, settings.TIME_ZONE):
        raise CloseRefused("not_over", _("This month is not over yet."))
    expected = next_to_close()
    if expected is not None and month != expected:
        raise CloseRefused("not_next", _("Close %(month)s first.") % {"month": f"{expected:%Y-%m}"})


def _following(month: date) -> date:
    return clock.add_months(month, 1, anchor_day=1)
