"""What an organization has agreed apart from its orders, put on the month's draft: services, what compute packs pay,
volume discounts, and what is missing to a minimum commitment — in this order, each on lines of its own.

Only organizations with such agreements cost anything here. What a draft shows is worked out anew by every run; a pack
is drawn from and a fact is marked as billed only in the transaction that issues the invoice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from django.db.models import Exists, OuterRef, Q
from django.db.models.expressions import NegatedExpression

from billing.models import BilledFact, BilledWindow, Invoice, InvoiceLine
from marketplace.lib import clock
from marketplace.lib.money import major
from orders import actions as orders_actions
from orders import agreements, pricing
from orders.models import Commitment, Pack, PackDraw, Service, VolumeTier
from rentals.models import Rental, UsageWindow

Kind = InvoiceLine.Kind
SERVICE_KIND = {
    Service.Interval.ONCE: Kind.ONCE, Service.Interval.MONTH: Kind.RECURRING, Service.Interval.YEAR: Kind.RECURRING,
}  # fmt: skip


@dataclass
class Agreed:
    """Lines to be added to one draft, the facts they charge, and what packs pay of it."""

    lines: list[InvoiceLine] = field(default_factory=list)
    facts: list[tuple[InvoiceLine, str]] = field(default_factory=list)
    draws: list[pricing.Draw] = field(default_factory=list)


# --- whose months are to be drafted ----------------------------------------------------------------------------------
def owed_since(*, at: datetime) -> dict[int, datetime]:
    """Organizations to be invoiced though they may have used nothing, and the earliest instant to be charged."""
    since: dict[int, datetime] = {}
    for organization_id, start, fact in [*_service_facts(at), *_commitment_facts(at)]:
        if fact not in since:
            since[organization_id] = min(start, since.get(organization_id, start))
    return since


def _service_facts(at: datetime) -> Iterable[tuple[int, datetime, str]]:
    found = [
        (organization_id, charge.period_start, charge.fact)
        for organization_id in agreements.organizations_with_services(until=at)
        for charge in agreements.service_charges_due(organization_id, until=at)
    ]
    return _unbilled(found)


def _commitment_facts(at: datetime) -> Iterable[tuple[int, datetime, str]]:
    found = []
    for commitment in Commitment.objects.filter(valid_from__lt=at).select_related("organization"):
        zone = commitment.organization.zone
        start = clock.month_start(commitment.valid_from, zone)
        until = min(at, commitment.valid_to or at)
        while start < until and (end := clock.next_month_start(start, zone)) <= at:
            found.append((commitment.organization_id, start, _commitment_fact(commitment, start)))
            start = end
    return _unbilled(found)


def _unbilled(found: Sequence[tuple[int, datetime, str]]) -> list[tuple[int, datetime, str]]:
    billed = set(BilledFact.objects.filter(fact__in=[fact for *_rest, fact in found]).values_list("fact", flat=True))
    return [one for one in found if one[2] not in billed]


def _commitment_fact(commitment: Commitment, start: datetime) -> str:
    return f"commitment:{commitment.pk}:{start:%Y-%m-%dT%H}"


# --- one batch of drafts ---------------------------------------------------------------------------------------------
def add_agreed_lines(*, invoice_ids: Sequence[int]) -> dict[int, Agreed]:
    """Add what was agreed to these drafts, whose usage stands on them already; what was added, by invoice id."""
    added = {}
    for invoice in _with_agreements(invoice_ids):
        agreed = added[invoice.pk] = _agreed(invoice)
        position = invoice.lines.count()
        for number, line in enumerate(agreed.lines, start=position + 1):
            line.invoice, line.position = invoice, number
        InvoiceLine.objects.bulk_create(agreed.lines)
    return added


def bind_agreed(*, agreed: Iterable[Agreed], at: datetime) -> None:
    """These drafts are about to be issued: their facts are billed and packs drawn from, in the same transaction."""
    for one in agreed:
        BilledFact.objects.bulk_create(BilledFact(line=line, fact=fact) for line, fact in one.facts)
        orders_actions.draw_from_packs(draws=one.draws, at=at)


def release_agreed(*, invoice: Invoice, at: datetime) -> None:
    """The invoice is void: what it charged can be billed again, and packs get back what they paid."""
    BilledFact.objects.filter(line__invoice=invoice).delete()
    drawn = PackDraw.objects.filter(fact__startswith=f"{invoice.key}:", card_seconds__gt=0)
    orders_actions.give_back_to_packs(facts=list(drawn.values_list("fact", flat=True)), at=at)


def _with_agreements(invoice_ids: Sequence[int]) -> list[Invoice]:
    of = {"organization": OuterRef("organization")}
    tiers = VolumeTier.objects.filter(Q(organization=OuterRef("organization")) | Q(organization__isnull=True))
    return list(
        Invoice.objects.filter(pk__in=invoice_ids)
        .filter(
            Exists(Service.objects.filter(**of))
            | Exists(Commitment.objects.filter(**of))
            | Exists(Pack.objects.filter(**of))
            | Exists(tiers)
        )
        .select_related("organization")
        .order_by("pk")
    )


def _month(invoice: Invoice) -> tuple[datetime, datetime]:
    """A usage invoice has its month, which the database holds."""
    assert invoice.period_start is not None  # noqa: S101
    assert invoice.period_end is not None  # noqa: S101
    return invoice.period_start, invoice.period_end


def _class_of(line: InvoiceLine) -> str:
    """The class of cards of a line of usage, which has a subscription."""
    assert line.subscription is not None  # noqa: S101
    return agreements.class_of(line.subscription)


def _agreed(invoice: Invoice) -> Agreed:
    agreed = Agreed()
    usage = list(
        invoice.lines.filter(meter="card_hour", kind__in=[Kind.USAGE, Kind.LATE])
        .select_related("subscription__order_line__offer__gpu_model")
        .order_by("period_start", "position")
    )
    _add_services(invoice, agreed)
    paid_by_packs = _add_packs(invoice, usage, agreed)
    _add_discounts(invoice, usage, paid_by_packs, agreed)
    _add_true_up(invoice, agreed)
    return agreed


# --- services --------------------------------------------------------------------------------------------------------
def _add_services(invoice: Invoice, agreed: Agreed) -> None:
    charges = agreements.service_charges_due(invoice.organization_id, until=_month(invoice)[1])
    billed = set(BilledFact.objects.filter(fact__in=[charge.fact for charge in charges]).values_list("fact", flat=True))
    for charge in charges:
        if charge.fact in billed or not charge.amount_minor:
            continue
        service = charge.service
        line = InvoiceLine(
            kind=SERVICE_KIND[Service.Interval(service.interval)],
            meter="unit",
            title=f"{service.title_zh} {service.title_en}"[:120],
            region="",
            resource="",
            project=service.project.name,
            quantity=1,
            periods=1,
            rate=major(charge.amount_minor, invoice.currency),
            amount_minor=charge.amount_minor,
            tax_percent=service.tax_percent,
            tax_minor=charge.tax_minor,
            tax_code=service.tax_code,
            period_start=charge.period_start,
            period_end=charge.period_end,
        )
        agreed.lines.append(line)
        agreed.facts.append((line, charge.fact))


# --- packs -----------------------------------------------------------------------------------------------------------
def _add_packs(invoice: Invoice, usage: Sequence[InvoiceLine], agreed: Agreed) -> dict[int, int]:
    """Take off what packs pay, window by window; card-seconds paid by line id."""
    if not usage:
        return {}
    start, end = _month(invoice)
    first = min(line.period_start or start for line in usage)
    packs = agreements.packs_of(invoice.organization_id, start=first, end=end)
    if not packs:
        return {}
    line_of, uses = _uses(invoice, usage)
    agreed.draws = pricing.draw_down(packs, uses)
    paid: dict[int, int] = defaultdict(int)
    for draw in agreed.draws:
        paid[line_of[draw.fact].pk] += draw.card_seconds
    for line in usage:
        if paid[line.pk]:
            off = pricing.covered(
                line.amount_minor, card_seconds=line.seconds * line.quantity, paid_by_packs=paid[line.pk]
            )
            agreed.lines.append(_taken_off(line, Kind.PACK, off, seconds=paid[line.pk] // line.quantity))
    return paid


def _uses(invoice: Invoice, usage: Sequence[InvoiceLine]) -> tuple[dict[str, InvoiceLine], list[pricing.Use]]:
    """The windows behind these lines in order of time, and which line each belongs to."""
    by_terms = {(line.subscription_id, line.quantity, line.rate, line.kind == Kind.LATE): line for line in usage}
    windows = list(
        UsageWindow.objects.filter(
            organization=invoice.organization_id,
            meter=Rental.Meter.CARD_HOUR,
            period__endswith__lte=invoice.period_end,
            subscription__in={line.subscription_id for line in usage},
        )
        .filter(_charged_here(invoice))
        .order_by("period", "pk")
    )
    taken_back: dict[int, int] = defaultdict(int)
    for window in windows:
        if window.reverses_id is not None:
            taken_back[window.reverses_id] += window.seconds
    line_of, uses = {}, []
    for window in windows:
        seconds = window.seconds - taken_back[window.pk]
        if window.reverses_id is not None or seconds <= 0:
            continue
        is_late = window.period.lower < invoice.period_start
        line = by_terms[window.subscription_id, window.quantity, window.rate, is_late]
        # An invoice that was voided and drafted anew draws anew.
        fact = f"{invoice.key}:{window.pk}"
        line_of[fact] = line
        gpu_class = _class_of(line)
        uses.append(pricing.Use(fact, gpu_class, window.quantity * seconds, window.period.lower, window.period.upper))
    return line_of, uses


def _charged_here(invoice: Invoice) -> NegatedExpression:
    """Windows this draft charges: bound to it already, or to none yet."""
    elsewhere = BilledWindow.objects.filter(window=OuterRef("pk")).exclude(line__invoice=invoice)
    return ~Exists(elsewhere)


# --- volume discounts ------------------------------------------------------------------------------------------------
def _add_discounts(
    invoice: Invoice, usage: Sequence[InvoiceLine], paid_by_packs: dict[int, int], agreed: Agreed
) -> None:
    """Volume tiers over what the month used of each class, in order of time, less what packs paid."""
    tiers = agreements.tiers_of(invoice.organization_id, start=_month(invoice)[0])
    if not tiers:
        return
    by_class: dict[str, list[InvoiceLine]] = defaultdict(list)
    for line in usage:
        by_class[_class_of(line)].append(line)
    for gpu_class, lines in sorted(by_class.items()):
        if gpu_class not in tiers:
            continue
        pieces = [_piece(line, paid_by_packs.get(line.pk, 0)) for line in lines]
        for line, off in zip(lines, pricing.tier_discount(pieces, tiers=tiers[gpu_class]), strict=True):
            if off:
                agreed.lines.append(_taken_off(line, Kind.DISCOUNT, off))


def _piece(line: InvoiceLine, paid_by_packs: int) -> pricing.Piece:
    card_seconds = line.seconds * line.quantity
    off = pricing.covered(line.amount_minor, card_seconds=card_seconds, paid_by_packs=paid_by_packs)
    return pricing.Piece(card_seconds - paid_by_packs, line.amount_minor - off)


def _taken_off(line: InvoiceLine, kind: InvoiceLine.Kind, amount_minor: int, *, seconds: int = 0) -> InvoiceLine:
    """A line that takes so much off another: of the same product, machine, tax and period."""
    return InvoiceLine(
        kind=kind,
        order_line=line.order_line,
        subscription=line.subscription,
        meter=line.meter,
        title=line.title,
        region=line.region,
        resource=line.resource,
        project=line.project,
        quantity=line.quantity,
        seconds=-seconds,
        rate=line.rate if seconds else Decimal(0),
        amount_minor=-amount_minor,
        tax_percent=line.tax_percent,
        tax_minor=-pricing.tax_within(amount_minor, line.tax_percent),
        tax_code=line.tax_code,
        period_start=line.period_start,
        period_end=line.period_end,
    )


# --- commitments -----------------------------------------------------------------------------------------------------
def _add_true_up(invoice: Invoice, agreed: Agreed) -> None:
    """What is missing to the month's minimum once everything else stands on the draft."""
    start, end = _month(invoice)
    dues = agreements.commitments_of(invoice.organization_id, start=start, end=end)
    if not dues:
        return
    billed = sum(invoice.lines.values_list("amount_minor", flat=True))
    billed += sum(line.amount_minor for line in agreed.lines)
    missing = pricing.true_up(committed_minor=sum(due.committed_minor for due in dues), billed_minor=billed)
    last = dues[-1].commitment
    line = InvoiceLine(
        kind=Kind.TRUE_UP,
        meter="unit",
        title="最低消费补足 Minimum commitment",
        region="",
        resource="",
        project="",
        quantity=1,
        periods=1,
        rate=major(missing, invoice.currency),
        amount_minor=missing,
        tax_percent=last.tax_percent,
        tax_minor=pricing.tax_within(missing, last.tax_percent),
        tax_code=last.tax_code,
        period_start=invoice.period_start,
        period_end=invoice.period_end,
    )
    if missing:
        agreed.lines.append(line)
        agreed.facts += [(line, _commitment_fact(due.commitment, start)) for due in dues]
