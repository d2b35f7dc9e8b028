"""Everything that can be exported, by key: who may take it away and what it can be narrowed to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from billing.exports.kinds import accounting, ageing, focus, invoice_lines, ledger, payments, voucher
from billing.exports.selection import Selection
from billing.exports.table import Rows, Table


@dataclass(frozen=True, slots=True)
class Export:
    """`permission` is what staff must have; `for_customers` may be taken by an organization, of its own rows.

    `for_machines` is read by software first: no byte order mark.
    """

    table: Table
    rows: Callable[[Selection], Rows]
    title: str | Promise
    permission: str = "billing.view_invoice"
    for_customers: bool = False
    for_machines: bool = False
    # Asked for at an instant rather than over a period.
    at_instant: bool = False

    @property
    def key(self) -> str:
        return self.table.key


_BOOKS = "billing.view_posting"

EXPORTS: dict[str, Export] = {
    export.key: export
    for export in (
        Export(invoice_lines.TABLE, invoice_lines.rows, _("Invoice lines"), for_customers=True),
        Export(payments.TABLE, payments.rows, _("Payments"), "billing.view_payment"),
        Export(ageing.TABLE, ageing.rows, _("Receivables ageing"), at_instant=True),
        Export(ledger.TABLE, ledger.rows, pgettext_lazy("export", "Ledger"), _BOOKS),
        Export(voucher.TABLE, voucher.rows, _("Accounting vouchers"), _BOOKS, for_machines=True),
        Export(accounting.XERO, accounting.rows, _("Invoices for Xero"), for_machines=True),
        Export(accounting.QUICKBOOKS, accounting.rows, _("Invoices for QuickBooks Online"), for_machines=True),
        Export(focus.TABLE, focus.rows, _("Charges in FOCUS columns"), for_customers=True, for_machines=True),
    )
}
