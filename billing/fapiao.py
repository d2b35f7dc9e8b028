"""What a fapiao says of an invoice: what was consumed, less what was credited and what gifted credit paid.

Amounts are gross, in fen. Gifted credit and negative lines stand as a discount on the lines they lower, as the tax
bureau wants it: a discount on the same fapiao, never a line below zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from django.db.models import Sum
from django.utils.translation import gettext_lazy as _

from billing.models import CreditNoteLine, Invoice, InvoiceLine
from marketplace.lib.money import major
from marketplace.lib.refusals import Refusal
from orders.pricing import tax_within

# Of a quantity or a unit price, the point included; and behind it.
MOST_CHARACTERS, MOST_DECIMALS = 17, 13
# Units as they are printed on the fapiao; what has none is sold as one.
_UNITS = {"card_hour": "卡时", "disk_gb_hour": "GB时", "month": "卡月", "year": "卡年"}


class NothingToInvoice(Refusal):
    """No fapiao can be made of this invoice."""

    code = "nothing_to_invoice"


@dataclass(frozen=True, slots=True)
class Detail:
    """One line of a fapiao. `quantity` and `price` come together or not at all; `amount_minor` is before its
    discount."""

    title: str
    tax_code: str
    tax_percent: Decimal
    unit: str
    quantity: Decimal | None
    price: Decimal | None
    amount_minor: int
    discount_minor: int
    tax_minor: int

    @property
    def total_minor(self) -> int:
        return self.amount_minor - self.discount_minor


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What may be invoiced for an invoice at this moment."""

    details: Sequence[Detail]

    @property
    def total_minor(self) -> int:
        return sum(detail.total_minor for detail in self.details)

    @property
    def tax_minor(self) -> int:
        return sum(detail.tax_minor for detail in self.details)


@dataclass(slots=True)
class _Group:
    """Lines that are one product at one price and rate, with what is left of them."""

    lines: list[InvoiceLine]
    amount_minor: int
    tax_minor: int
    is_whole: bool
    discount_minor: int = 0

    @property
    def left_minor(self) -> int:
        return self.amount_minor - self.discount_minor


def entitled(invoice: Invoice) -> Entitlement:
    """The details of a fapiao for the invoice as it stands: their total is total − credited − gifted, to the fen.

    Raises NothingToInvoice where that is nothing, or where a tax rate's lines are below zero in sum.
    """
    groups = _groups(invoice)
    for _rate, same in itertools.groupby(sorted(groups, key=_rate_of), key=_rate_of):
        _turn_into_discounts(list(same))
    groups = [group for group in groups if group.amount_minor > 0]
    left = sum(group.left_minor for group in groups)
    if left <= invoice.gift_minor:
        raise NothingToInvoice(message=_("Nothing of this invoice is left for a fapiao: it was credited or gifted."))
    _spread(invoice.gift_minor, groups)
    details = [_detail(group, invoice.currency) for group in groups if group.left_minor]
    return Entitlement(details)


def serial_of(invoice: Invoice, *, attempt: int) -> str:
    """The 流水号 of an invoice's n-th fapiao, at most 20 letters and digits: INV-2026-000001 → INV202600000102."""
    plain = "".join(c for c in invoice.number or "" if c.isascii() and c.isalnum())
    return f"{plain[-18:]}{attempt:02d}"


def _groups(invoice: Invoice) -> list[_Group]:
    credited = {
        row["line"]: row
        for row in CreditNoteLine.objects.filter(line__invoice=invoice)
        .values("line")
        .annotate(amount=Sum("amount_minor"), tax=Sum("tax_minor"))
    }

    def product(line: InvoiceLine) -> tuple:
        return line.title, line.meter, line.tax_code, line.tax_percent, line.rate

    groups = []
    lines = sorted(invoice.lines.order_by("position"), key=product)
    for _key, same in itertools.groupby(lines, key=product):
        group = _Group(list(same), 0, 0, is_whole=True)
        for line in group.lines:
            back = credited.get(line.pk, {"amount": 0, "tax": 0})
            group.amount_minor += line.amount_minor - back["amount"]
            group.tax_minor += line.tax_minor - back["tax"]
            group.is_whole = group.is_whole and not back["amount"]
        groups.append(group)
    return sorted(groups, key=lambda group: group.lines[0].position)


def _rate_of(group: _Group) -> Decimal:
    return group.lines[0].tax_percent


def _turn_into_discounts(same_rate: list[_Group]) -> None:
    """Groups below zero lower the others of their tax rate."""
    below = -sum(group.amount_minor for group in same_rate if group.amount_minor < 0)
    above = [group for group in same_rate if group.amount_minor > 0]
    if below > sum(group.amount_minor for group in above):
        raise NothingToInvoice(
            "negative_rate",
            _("The lines of one tax rate are below zero in sum; they need a red fapiao, not a blue one."),
        )
    _spread(below, above)


def _spread(amount_minor: int, groups: list[_Group]) -> None:
    """Lower the groups by the amount in all, each in proportion to what is left of it, to the fen."""
    left = sum(group.left_minor for group in groups)
    for group in groups:
        if not left:
            return
        share = int((Decimal(amount_minor) * group.left_minor / left).quantize(Decimal(1), rounding=ROUND_HALF_UP))
        # What is left to spread over what is left of the others, so that the last takes exactly the rest.
        left -= group.left_minor
        amount_minor -= share
        group.discount_minor += share


def _detail(group: _Group, currency: str) -> Detail:
    first = group.lines[0]
    quantity, price = _quantity_and_price(group, currency)
    tax = group.tax_minor if not group.discount_minor else tax_within(group.left_minor, first.tax_percent)
    return Detail(
        title=first.title,
        tax_code=first.tax_code,
        tax_percent=first.tax_percent,
        unit=_UNITS.get(first.meter, "") if quantity else "",
        quantity=quantity,
        price=price,
        amount_minor=group.amount_minor,
        discount_minor=group.discount_minor,
        tax_minor=tax,
    )


def _quantity_and_price(group: _Group, currency: str) -> tuple[Decimal | None, Decimal | None]:
    """How many at what price, where their product is the amount to the fen; else neither."""
    amount = major(group.amount_minor, currency)
    quantity = _fitting(_quantity(group.lines)) if group.is_whole else None
    if not quantity or quantity <= 0:
        return None, None
    price = _fitting(amount / quantity)
    if not price or (quantity * price).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP) != amount:
        return None, None
    return quantity, price


def _quantity(lines: Iterable[InvoiceLine]) -> Decimal:
    """Cards or GB times hours, months or years; nothing for what is not counted so."""
    total = Decimal(0)
    for line in lines:
        if line.meter in {"card_hour", "disk_gb_hour"}:
            total += Decimal(line.quantity * line.seconds) / 3600
        elif line.meter in _UNITS:
            total += line.quantity * line.periods
    return total


def _fitting(number: Decimal) -> Decimal | None:
    """The number as the bureau takes it: rounded to as many decimals as its length leaves, at most 13."""
    whole = len(str(int(number)))
    if whole > MOST_CHARACTERS:
        return None
    places = max(min(MOST_DECIMALS, MOST_CHARACTERS - whole - 1), 0)
    rounded = number.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return rounded.normalize() if rounded != rounded.to_integral() else rounded.quantize(Decimal(1))
