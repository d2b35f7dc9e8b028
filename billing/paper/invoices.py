"""The paper of an invoice. It states what was issued and never changes: what is paid stands on its page and receipt.

Only a void invoice is marked, so that nobody pays or books a paper that no longer counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, override

from billing.grouping import arithmetic
from billing.models import Invoice, InvoiceLine, ReceivingAccount
from billing.paper import pieces
from billing.paper.typesetting import typeset
from billing.remarks import remark_code
from marketplace.lib.capitals import in_words
from marketplace.lib.money import format_minor

# From here on the first page has sums by product and an annex has every line.
MOST_LINES = 250

_COLUMNS = (
    pieces.Column("#", right=True),
    pieces.Column(gettext_lazy("Product"), wide=True),
    pieces.Column(gettext_lazy("Arithmetic"), right=True),
    pieces.Column(gettext_lazy("Tax rate"), right=True),
    pieces.Column(gettext_lazy("Tax within"), right=True),
    pieces.Column(gettext_lazy("Amount"), right=True),
)


def invoice_pdf(invoice: Invoice, *, language: str) -> bytes:
    """The issued invoice as a PDF, its labels first in `language`; the same invoice gives the same bytes.

    Reads its lines, then typesets: not to be called inside a transaction. Raises Unprintable for a party's name that
    the font cannot print, ValueError for a draft.
    """
    if invoice.issued_at is None:
        raise ValueError("a draft is nobody's document yet")
    with override(language):
        paper = invoice_paper(invoice, language=language)
        return typeset(paper.data(language), at=invoice.issued_at)


def invoice_paper(invoice: Invoice, *, language: str) -> pieces.Paper:
    lines = list(invoice.lines.order_by("position"))
    whole = pieces.Table(_COLUMNS, list(_rows(lines, invoice)))
    long = len(lines) > MOST_LINES
    zone = invoice.organization.zone
    return pieces.Paper(
        title=gettext_lazy("Invoice"),
        number=invoice.number or "",
        parties=[pieces.seller(language), _buyer(invoice)],
        facts=_facts(invoice, zone),
        table=_summary(lines, invoice) if long else whole,
        annex=whole if long else None,
        taxes=pieces.tax_table(lines, invoice.currency),
        totals=[
            (gettext_lazy("Net"), format_minor(invoice.total_minor - invoice.tax_minor, invoice.currency), False),
            (gettext_lazy("Tax within"), format_minor(invoice.tax_minor, invoice.currency), False),
            (gettext_lazy("Total, tax included"), format_minor(invoice.total_minor, invoice.currency), True),
        ],
        words=in_words(invoice.total_minor, invoice.currency),
        payment=_payment(invoice),
        notes=[
            gettext_lazy(
                "Each line is rounded once, to the cent; the total is the sum of its lines. Hours are shown as "
                "hours:minutes:seconds."
            ),
            gettext_lazy("This invoice is no tax invoice (fapiao); that one is asked for on its page."),
        ],
        void=invoice.status == Invoice.Status.VOID,
        foot=pieces.filled(gettext_lazy("Dates are in the zone %(zone)s."), {"zone": zone}),
    )


def _buyer(invoice: Invoice) -> pieces.Party:
    """As the invoice's own copy has it; one without a copy names the organization."""
    told = invoice.buyer
    rows = [
        (gettext_lazy("Tax number"), told.get("tax_id", "")),
        (gettext_lazy("Registered address"), told.get("address", "")),
        (gettext_lazy("Phone"), told.get("phone", "")),
        (gettext_lazy("Bank"), " ".join(filter(None, (told.get("bank"), told.get("bank_account"))))),
        (gettext_lazy("E-mail"), told.get("email") or invoice.account.email),
    ]
    return pieces.Party(gettext_lazy("Buyer"), told.get("title") or invoice.organization.name, rows)


def _facts(invoice: Invoice, zone: str) -> list[tuple[pieces.Text, str]]:
    period = ""
    if invoice.period_start:
        period = f"{pieces.local_day(invoice.period_start, zone)} – {pieces.local_day(invoice.last_moment, zone)}"
    return [
        (gettext_lazy("Issued"), pieces.local_day(invoice.issued_at, zone)),
        (gettext_lazy("Due"), pieces.local_day(invoice.due_at, zone)),
        (gettext_lazy("Billing period"), period),
        (gettext_lazy("Order"), invoice.order.number if invoice.order else ""),
        (gettext_lazy("Currency"), invoice.currency),
    ]


def _payment(invoice: Invoice) -> pieces.Payment | None:
    """How to pay; a void invoice and one over nothing are paid by nobody."""
    if invoice.status == Invoice.Status.VOID or not invoice.total_minor:
        return None
    rows = [*_transfer_to(invoice.currency), (gettext_lazy("Remark of the transfer"), remark_code(invoice.account))]
    with override(None):
        # The address without a language: it opens in that of whoever scans it.
        page = reverse("billing:invoice", args=[invoice.key])
    return pieces.Payment(rows, link=f"{settings.SITE_URL}{page}")


def _transfer_to(currency: str) -> list[tuple[pieces.Text, str]]:
    """Our accounts of the currency as finance keeps them, else the one of the settings."""
    shown = ReceivingAccount.objects.filter(currency=currency, is_shown=True).order_by("pk")
    rows: list[tuple[pieces.Text, str]] = []
    for account in shown:
        rows += [
            (gettext_lazy("Account holder"), account.holder),
            (gettext_lazy("Bank"), account.bank),
            (gettext_lazy("Bank account"), account.number),
            (gettext_lazy("SWIFT or CNAPS code"), account.routing),
        ]
    return rows or [(gettext_lazy("Transfer to"), settings.BANK_ACCOUNT)]


def _rows(lines: Iterable[InvoiceLine], invoice: Invoice) -> Iterator[list[pieces.Cell]]:
    zone, currency = invoice.organization.zone, invoice.currency
    for count, line in enumerate(lines, start=1):
        period = ""
        if line.period_start:
            period = f"{pieces.local_day(line.period_start, zone)} – {pieces.local_day(line.last_moment, zone)}"
        under = [line.region, line.get_meter_display(), line.resource, period, line.project]
        yield [
            str(count),
            {"text": line.title, "under": " · ".join(str(part) for part in under if part)},
            arithmetic(line, currency),
            pieces.percent(line.tax_percent),
            format_minor(line.tax_minor, currency),
            format_minor(line.amount_minor, currency),
        ]


def _summary(lines: Sequence[InvoiceLine], invoice: Invoice) -> pieces.Table:
    """One row for each product, place, meter and tax rate, with the number of its lines."""

    def by(line: InvoiceLine) -> tuple:
        return line.title, line.region, line.meter, line.tax_percent

    groups = [list(group) for _key, group in itertools.groupby(sorted(lines, key=by), key=by)]
    rows: list[list[pieces.Cell]] = []
    for count, group in enumerate(groups, start=1):
        first = group[0]
        shown = ngettext("%(count)d line", "%(count)d lines", len(group)) % {"count": len(group)}
        rows.append(
            [
                str(count),
                {"text": first.title, "under": f"{first.region} · {first.get_meter_display()}"},
                f"{shown}, {_('see the annex')}",
                pieces.percent(first.tax_percent),
                format_minor(sum(line.tax_minor for line in group), invoice.currency),
                format_minor(sum(line.amount_minor for line in group), invoice.currency),
            ]
        )
    return pieces.Table(_COLUMNS, rows)
