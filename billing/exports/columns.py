"""The columns of an invoice-line export: one row a line, each column an expression the database works out.

Amounts of the whole invoice (total, paid, outstanding) stand on its first line only, so that a column adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.contrib.postgres.aggregates import StringAgg
from django.db.models import BigIntegerField, Case, DecimalField, F, Func, OuterRef, QuerySet, Subquery, Value, When
from django.db.models import CharField as Text
from django.db.models.functions import Cast, Greatest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from billing.models import LINE_METERS, Invoice, InvoiceLine, Payment
from marketplace.lib.money import BILLING_CURRENCIES, exponent
from orders.pricing import SECONDS_PER_HOUR

# text: may hold anything a person typed. id: text that a spreadsheet must not take for a number.
# instant: local time as text. count, quantity, rate, percent, money: numbers.
NUMBERS = frozenset({"count", "quantity", "rate", "percent", "money"})


@dataclass(frozen=True, slots=True)
class Column:
    """`build` makes the expression anew each time, for labels depend on the active language."""

    key: str
    header: str | Promise
    kind: str
    build: Callable[[], Any]

    @property
    def alias(self) -> str:
        return f"x_{self.key}"


def _field(name: str) -> Callable[[], Any]:
    return lambda: F(name)


def _text(name: str) -> Callable[[], Any]:
    return lambda: Cast(F(name), Text())


def _label(name: str, choices: Iterable[tuple[str, Any]]) -> Callable[[], Any]:
    return lambda: Case(
        *(When(**{name: value}, then=Value(str(label))) for value, label in choices), output_field=Text()
    )


def _local(name: str) -> Callable[[], Any]:
    """An instant in the organization's zone."""
    return lambda: Func(
        F(name),
        F("invoice__organization__zone"),
        template="to_char(%(expressions)s, 'YYYY-MM-DD HH24:MI:SS')",
        arg_joiner=" AT TIME ZONE ",
        output_field=Text(),
    )


def _major(minor: Any) -> Any:
    """Minor units as major units with exactly the currency's digits."""
    return Case(
        *(When(invoice__currency=currency, then=_scaled(minor, currency)) for currency in BILLING_CURRENCIES),
        output_field=DecimalField(),
    )


def _scaled(minor: Any, currency: str) -> Any:
    factor = Decimal(1).scaleb(-exponent(currency))
    return Func(minor, template=f"(%(expressions)s * {factor})", output_field=DecimalField())


def _money(name: str) -> Callable[[], Any]:
    return lambda: _major(F(name))


def _net() -> Any:
    return _major(F("amount_minor") - F("tax_minor"))


def _once(build: Callable[[], Any]) -> Callable[[], Any]:
    """Only on the invoice's first line."""
    return lambda: Case(When(position=1, then=build()), output_field=DecimalField())


def _outstanding() -> Any:
    left = Greatest(F("invoice__total_minor") - F("invoice__paid_minor"), Value(0), output_field=BigIntegerField())
    return Case(
        When(invoice__status=Invoice.Status.VOID, then=Value(Decimal("0.00"))),
        default=_major(left),
        output_field=DecimalField(),
    )


def _hours() -> Any:
    return Func(
        F("seconds"),
        template=f"round(%(expressions)s::numeric / {SECONDS_PER_HOUR}, 6)",
        output_field=DecimalField(),
    )


def _plain(name: str) -> Callable[[], Any]:
    """A stored decimal without the zeros that only its column type adds."""
    return lambda: Func(F(name), function="trim_scale", output_field=DecimalField())


def _payments() -> Any:
    return Subquery(
        Payment.objects.filter(invoice=OuterRef("invoice"))
        .order_by()
        .values("invoice")
        .annotate(references=StringAgg("reference", delimiter="; ", order_by="pk"))
        .values("references")
    )


COLUMNS: tuple[Column, ...] = (
    Column("invoice", _("Invoice number"), "id", _field("invoice__number")),
    Column("line", _("Line"), "count", _field("position")),
    Column("status", _("Status"), "text", _label("invoice__status", Invoice.Status.choices)),
    Column("kind", _("Kind"), "text", _label("invoice__kind", Invoice.Kind.choices)),
    Column("organization", _("Organization"), "text", _field("invoice__organization__name")),
    Column("organization_id", _("Organization ID"), "id", _text("invoice__organization__key")),
    Column("email", _("Billing e-mail"), "text", _field("invoice__account__email")),
    Column("currency", _("Currency"), "text", _field("invoice__currency")),
    Column("from", _("Period from"), "instant", _local("invoice__period_start")),
    Column("to", _("Period to (exclusive)"), "instant", _local("invoice__period_end")),
    Column("issued", _("Issued"), "instant", _local("invoice__issued_at")),
    Column("due", _("Due"), "instant", _local("invoice__due_at")),
    Column("paid_on", pgettext_lazy("export column: when", "Paid on"), "instant", _local("invoice__paid_at")),
    Column("product", _("Product"), "text", _field("title")),
    Column("region", _("Region"), "text", _field("region")),
    Column("resource", _("Rental or order"), "text", _field("resource")),
    Column("project", _("Project"), "text", _field("project")),
    Column("meter", _("Meter"), "text", _label("meter", LINE_METERS)),
    Column("quantity", _("Cards or GB"), "count", _field("quantity")),
    Column("hours", _("Hours"), "quantity", _hours),
    Column("periods", _("Months or years"), "count", _field("periods")),
    Column("line_from", _("Used from"), "instant", _local("period_start")),
    Column("line_to", _("Used to (exclusive)"), "instant", _local("period_end")),
    Column("rate", _("Unit price"), "rate", _plain("rate")),
    Column("net", _("Amount without tax"), "money", _net),
    Column("tax_percent", _("Tax rate (%)"), "percent", _plain("tax_percent")),
    Column("tax", _("Tax"), "money", _money("tax_minor")),
    Column("gross", _("Amount with tax"), "money", _money("amount_minor")),
    Column("tax_code", _("Tax code"), "id", _field("tax_code")),
    Column("total", _("Invoice total (first line only)"), "money", _once(_money("invoice__total_minor"))),
    Column("paid", _("Paid (first line only)"), "money", _once(_money("invoice__paid_minor"))),
    Column("outstanding", _("Outstanding (first line only)"), "money", _once(_outstanding)),
    Column("collection", _("Collected by"), "text", _label("invoice__collection", Invoice.Collection.choices)),
    Column("stripe", _("Stripe invoice"), "id", _field("invoice__stripe_invoice_id")),
    Column("payments", _("Payment references"), "id", _payments),
    Column("quote", _("Quote"), "id", _field("invoice__order__quote__number")),
    Column("salesperson", _("Salesperson"), "text", _field("invoice__order__quote__salesperson__email")),
)


def lines_of(invoices: QuerySet[Invoice]) -> QuerySet[InvoiceLine]:
    """The lines of these invoices, by invoice number and position. A draft is no document yet and is left out."""
    # An order costs a sort that nobody sees, but it decides what a slice holds.
    wanted = (invoices if invoices.query.is_sliced else invoices.order_by()).values("pk")
    return InvoiceLine.objects.filter(invoice__in=wanted, invoice__number__isnull=False).order_by(
        "invoice__issued_at", "invoice__number", "position"
    )


def rows(invoices: QuerySet[Invoice], *, wrap: Callable[[Column, Any], Any] = lambda _column, value: value) -> QuerySet:
    """One tuple a line in the order of COLUMNS; `wrap` may alter each expression."""
    values = {column.alias: wrap(column, column.build()) for column in COLUMNS}
    return lines_of(invoices).annotate(**values).values_list(*values)
