"""What of an organization needs somebody's attention, the worst first, each with where to see to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import Organization
from billing.arrears import arrears_of, kept_until, suspends_at
from billing.models import Arrears, Invoice
from billing.queries import Standing, unpaid_invoices_of
from marketplace.lib.money import format_minor
from orders.models import Order
from rentals import queries, reasons
from rentals.models import Rental
from rentals.presentation import last_second
from trust.queries import maintenance

TERM_ENDS_WITHIN = timedelta(days=7)
FAILED_WITHIN = timedelta(days=7)
CREDIT_LASTS = timedelta(hours=72)
MAINTENANCE_WITHIN = timedelta(days=14)
# Of each kind; the rest is counted, and its list has all.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Alert:
    """tone: bad needs somebody now, warn soon, info is good to know. `due` is when it gets worse by itself."""

    tone: str
    text: str
    address: str
    due: datetime | None = None


def alerts(
    organization: Organization, *, at: datetime, standing: Standing | None, lasts_until: datetime | None
) -> list[Alert]:
    """Bills and credit are told only to those who may see them: pass their standing, or None."""
    found = [
        *_arrears(organization, sees_bills=standing is not None),
        *_suspended(organization),
        *_machines(organization, at),
        *_ending(organization, at),
        *_orders(organization),
        *_works(organization, at),
    ]
    if standing:
        found += [*_invoices(organization, at), *_credit(standing, at, lasts_until)]
    order = {"bad": 0, "warn": 1, "info": 2}
    return sorted(found, key=lambda alert: (order[alert.tone], alert.due or datetime.max.replace(tzinfo=at.tzinfo)))


def _arrears(organization: Organization, *, sees_bills: bool) -> Iterator[Alert]:
    """Whoever works with the machines knows what happens to them, and when; amounts are on the page of billing."""
    arrears = arrears_of(organization)
    address = reverse("billing:balance") if sees_bills else reverse("rentals:list")
    if arrears is None:
        return
    if arrears.status == Arrears.Status.OPEN:
        text = _("The balance is below zero: machines by the hour are suspended unless it is topped up.")
        yield Alert("bad", text, address, suspends_at(arrears))
    elif arrears.status == Arrears.Status.RELEASED:
        yield Alert("bad", _("The balance is below zero and suspended machines were deleted."), address)
    else:
        text = _(
            "Machines by the hour are suspended: the balance is below zero. Their data is kept until the deadline."
        )
        yield Alert("bad", text, address, kept_until(arrears))


def _suspended(organization: Organization) -> Iterator[Alert]:
    """By our staff; those of arrears are told together."""
    shown, more = _some(queries.suspended(organization).filter(suspension=Rental.Suspension.OPERATOR))
    for rental in shown:
        text = _("“%(name)s” was suspended by our staff. Please contact us.") % {"name": rental.name}
        yield Alert("bad", text, reverse("rentals:detail", args=[rental.key]))
    if more:
        text = ngettext("%(count)d more machine is suspended.", "%(count)d more machines are suspended.", more)
        yield Alert("bad", text % {"count": more}, f"{reverse('rentals:list')}?state=suspended")


def _machines(organization: Organization, at: datetime) -> Iterator[Alert]:
    rentals = queries.in_trouble(organization, since=at - FAILED_WITHIN).select_related("subscription")
    shown, more = _some(rentals)
    for rental in shown:
        trouble = reasons.explain(
            status=rental.status,
            reason=rental.reason,
            failure=rental.failure,
            hourly=rental.subscription.is_hourly,
            ever_ran=rental.running_at is not None,
        )
        facts = {"name": rental.name, "status": rental.get_status_display(), "why": trouble.what if trouble else ""}
        text = _("“%(name)s”: %(status)s. %(why)s") % facts
        yield Alert("bad", text.strip(), reverse("rentals:detail", args=[rental.key]))
    if more:
        text = ngettext("%(count)d more machine needs attention.", "%(count)d more machines need attention.", more)
        yield Alert("bad", text % {"count": more}, f"{reverse('rentals:list')}?state=attention")


def _ending(organization: Organization, at: datetime) -> Iterator[Alert]:
    shown, more = _some(queries.ending(at=at, until=at + TERM_ENDS_WITHIN).filter(organization=organization))
    for rental in shown:
        yield Alert(
            "warn",
            _("The term of “%(name)s” ends; the machine stops, its disk is kept for days.") % {"name": rental.name},
            reverse("rentals:detail", args=[rental.key]),
            last_second(rental),
        )
    if more:
        text = ngettext("%(count)d more term ends within 7 days.", "%(count)d more terms end within 7 days.", more)
        yield Alert("warn", text % {"count": more}, reverse("rentals:list"))


def _orders(organization: Organization) -> Iterator[Alert]:
    waiting = Order.objects.filter(organization=organization, status=Order.Status.AWAITING_PAYMENT)
    shown, more = _some(waiting.order_by("hold_expires_at", "pk"))
    for order in shown:
        amount = format_minor(order.total_minor, order.currency)
        text = _("Order %(number)s over %(amount)s waits for payment; its cards are held until the deadline.")
        address = reverse("orders:detail", args=[order.key])
        yield Alert("warn", text % {"number": order.number, "amount": amount}, address, order.hold_expires_at)
    if more:
        text = ngettext("%(count)d more order waits for payment.", "%(count)d more orders wait for payment.", more)
        yield Alert("warn", text % {"count": more}, reverse("orders:list"))


def _works(organization: Organization, at: datetime) -> Iterator[Alert]:
    """Announced maintenance where the organization has machines."""
    near = [work for work in maintenance(at=at) if not work.cancelled and work.starts_at <= at + MAINTENANCE_WITHIN]
    if not near:
        return
    here = Rental.objects.filter(organization=organization).exclude(status__in=Rental.OVER)
    regions = set(here.values_list("pool__region_id", flat=True))
    for work in near:
        if work.regions & regions:
            yield Alert(
                "info", _("Maintenance: %(title)s") % {"title": work.title}, reverse("trust:status"), work.starts_at
            )


def _invoices(organization: Organization, at: datetime) -> Iterator[Alert]:
    """A prepaid order that nobody owes yet is told as an order, not as its invoice."""
    shown, more = _some(unpaid_invoices_of(organization).filter(kind=Invoice.Kind.USAGE))
    for invoice in shown:
        overdue = invoice.due_at is not None and invoice.due_at < at
        text = _("Invoice %(number)s is overdue: %(amount)s.") if overdue else _("Invoice %(number)s: pay %(amount)s.")
        amount = format_minor(invoice.outstanding_minor, invoice.currency)
        address = reverse("billing:invoice", args=[invoice.key])
        facts = {"number": invoice.number, "amount": amount}
        yield Alert("bad" if overdue else "warn", text % facts, address, invoice.due_at)
    if more:
        text = ngettext("%(count)d more invoice is to be paid.", "%(count)d more invoices are to be paid.", more)
        yield Alert("warn", text % {"count": more}, reverse("billing:overview"))


def _credit(standing: Standing, at: datetime, lasts_until: datetime | None) -> Iterator[Alert]:
    billing = reverse("billing:overview")
    left = standing.limit_minor - standing.used_minor
    if standing.frozen:
        yield Alert("bad", _("Your credit line is frozen: nothing more can be rented by the hour."), billing)
    elif standing.limit_minor and left <= 0:
        yield Alert("bad", _("Your credit is used up: nothing more can be rented by the hour."), billing)
    elif lasts_until is not None and lasts_until <= at + CREDIT_LASTS:
        yield Alert("warn", _("Your credit runs out if everything keeps running as now."), billing, lasts_until)
    elif standing.limit_minor and not standing.headroom_minor:
        yield Alert("warn", _("All your credit is kept ready for running machines; no more can be rented."), billing)


def _some(rows: Any) -> tuple[Sequence[Any], int]:
    """The first few, and how many more there are: one query where they are few, two at most."""
    shown = list(rows[: SHOWN + 1])
    return (shown, 0) if len(shown) <= SHOWN else (shown[:SHOWN], rows.count() - SHOWN)
