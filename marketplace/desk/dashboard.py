"""The desk's first page: what stands still and what is left, in a few aggregate queries."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, Min, Q, Sum
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from billing.models import BankTransfer, Invoice, StripeEvent
from billing.queries import with_astray_money
from catalog.models import Host, Pool
from marketplace.desk import show
from marketplace.desk.navigation import may_see
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from orders.models import Order, Quote
from orders.queries import requests_waiting, standing_still
from rentals.models import Rental
from rentals.reasons import WHAT

STUCK = (Rental.Status.NEEDS_OPERATOR, Rental.Status.LOST)
UNPAID = (Invoice.Status.ISSUED, Invoice.Status.PUSHING, Invoice.Status.OPEN, Invoice.Status.UNCOLLECTIBLE)

Text = str | Promise
Context = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with where to look at its rows; `alarm` when somebody has to act."""

    title: Text
    value: str
    address: str
    note: Text = ""
    alarm: bool = False


def overview(request: HttpRequest, context: Context) -> Context:
    """What this person may see of today."""
    figures: list[Figure] = []
    if may_see(request, "rentals.rental"):
        figures += _rentals()
        context["waiting"] = _waiting()
    if may_see(request, "orders.order"):
        figures += _orders()
    if may_see(request, "orders.quote"):
        figures += _quotes()
    if may_see(request, "billing.invoice"):
        figures += _invoices()
    if may_see(request, "billing.banktransfer"):
        figures.append(_transfers())
    if may_see(request, "billing.stripeevent"):
        figures.append(_stripe_events())
    if may_see(request, "catalog.pool"):
        context["pools"] = _pools()
    context["figures"] = figures
    return context


def _list(model: str, **query: Any) -> str:
    return reverse(f"admin:{model}_changelist", query=query)


def _any(values: Iterable[str]) -> str:
    return ",".join(sorted(values))


def _rentals() -> Iterator[Figure]:
    counts = Rental.objects.aggregate(
        running=Count("pk", filter=Q(status=Rental.Status.RUNNING)),
        cards=Sum("subscription__cards", filter=Q(status=Rental.Status.RUNNING), default=0),
        moving=Count("pk", filter=Q(status__in=Rental.MOVING)),
        stuck=Count("pk", filter=Q(status__in=STUCK)),
    )
    running = _list("rentals_rental", status__exact=Rental.Status.RUNNING)
    cards = _("%(cards)d cards") % {"cards": counts["cards"]}
    yield Figure(_("Running rentals"), str(counts["running"]), running, cards)
    moving = _list("rentals_rental", status__in=_any(Rental.MOVING))
    yield Figure(_("Rentals on their way"), str(counts["moving"]), moving)
    stuck = _list("rentals_rental", status__in=_any(STUCK))
    yield Figure(_("Waiting for a person"), str(counts["stuck"]), stuck, alarm=bool(counts["stuck"]))


def _waiting() -> list[dict[str, Any]]:
    """Unfinished rentals by why they wait, the largest group first."""
    over = [Rental.Status.GONE, Rental.Status.FAILED]
    groups = (
        Rental.objects.exclude(status__in=over)
        .exclude(reason="")
        .values("reason")
        .annotate(count=Count("pk"), oldest=Min("created_at"), next_step=Min("next_step_at"))
        .order_by("-count", "reason")
    )
    at = clock.now()
    return [
        {
            "what": WHAT.get(group["reason"], group["reason"]),
            "count": group["count"],
            "oldest": show.span(at - group["oldest"]),
            "next_step": show.moment(group["next_step"]),
            "address": _list("rentals_rental", reason=group["reason"]),
        }
        for group in groups
    ]


def _pools() -> list[dict[str, Any]]:
    active = Q(hosts__state=Host.State.ACTIVE)
    rows = (
        Pool.objects.select_related("gpu_model", "region")
        .annotate(free=Sum("hosts__cards_free", filter=active, default=0), total=Sum("hosts__cards_total", default=0))
        .order_by(F("total").desc(), "code")
    )
    return [
        {
            "pool": pool,
            "address": show.page_of(pool),
            "free": pool.free,
            "total": pool.total,
            "taken_percent": round(100 * (pool.total - pool.free) / pool.total) if pool.total else 0,
        }
        for pool in rows
    ]


def _orders() -> Iterator[Figure]:
    waiting = Order.Status.AWAITING_PAYMENT
    count = Order.objects.filter(status=waiting).count()
    yield Figure(_("Orders awaiting payment"), str(count), _list("orders_order", status__exact=waiting))
    still = standing_still(clock.now()).count()
    yield Figure(_("Orders that stand still"), str(still), _list("orders_order", progress="none"), alarm=bool(still))


def _quotes() -> Iterator[Figure]:
    waiting = requests_waiting().count()
    asked = {"origin__exact": Quote.Origin.CUSTOMER, "status__exact": Quote.Status.DRAFT}
    yield Figure(_("Quotes requested"), str(waiting), _list("orders_quote", **asked), alarm=bool(waiting))
    sent = Quote.Status.SENT
    count = Quote.objects.filter(status=sent).count()
    yield Figure(_("Open quotes"), str(count), _list("orders_quote", status__exact=sent))


def _invoices() -> Iterator[Figure]:
    at = clock.now()
    rows = list(
        Invoice.objects.filter(status__in=UNPAID)
        .values("currency")
        .annotate(
            count=Count("pk"),
            left=Sum(F("total_minor") - F("paid_minor")),
            overdue=Count("pk", filter=Q(due_at__lt=at)),
            errors=Count("pk", filter=~Q(push_error="")),
        )
        .order_by("currency")
    )
    count, overdue, errors = (sum(row[name] for row in rows) for name in ("count", "overdue", "errors"))
    left = " · ".join(format_minor(row["left"], row["currency"]) for row in rows)
    unpaid = {"status__in": _any(UNPAID)}
    late = _list("billing_invoice", **unpaid, due_at__lt=at.isoformat(timespec="seconds"))
    failed = _list("billing_invoice", **unpaid, push_error__isempty=0)
    yield Figure(_("Unpaid invoices"), str(count), _list("billing_invoice", **unpaid), left)
    yield Figure(_("Overdue"), str(overdue), late, alarm=bool(overdue))
    yield Figure(_("Push errors"), str(errors), failed, alarm=bool(errors))
    astray = with_astray_money().count()
    yield Figure(
        _("Money to return or assign"), str(astray), _list("billing_invoice", money="astray"), alarm=bool(astray)
    )


def _transfers() -> Figure:
    waiting = BankTransfer.objects.filter(status=BankTransfer.Status.UNMATCHED).count()
    address = _list("billing_banktransfer", status__exact=BankTransfer.Status.UNMATCHED)
    return Figure(_("Unmatched transfers"), str(waiting), address, alarm=bool(waiting))


def _stripe_events() -> Figure:
    counts = StripeEvent.objects.filter(processed_at__isnull=True).aggregate(
        waiting=Count("pk"), failing=Count("pk", filter=~Q(error=""))
    )
    return Figure(
        _("Stripe events not applied"),
        str(counts["waiting"]),
        _list("billing_stripeevent", processed_at__isempty=1),
        _("%(count)d failing") % {"count": counts["failing"]} if counts["failing"] else "",
        alarm=bool(counts["failing"]),
    )
