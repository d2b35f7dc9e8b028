"""Money owed and paid: accounts, invoices, payments, the ledger, balances, credit notes, tax papers and exports."""

from billing.models.accounts import BillingAccount, NumberSeries
from billing.models.arrears import ARREARS_MOVES, Arrears, ArrearsStep, DunningStep
from billing.models.credit_notes import CreditNote, CreditNoteLine, Dispute, Refund
from billing.models.exporting import ExportEvent, ExportJob
from billing.models.invoices import (
    INVOICE_MOVES,
    LINE_METERS,
    BilledFact,
    BilledWindow,
    Invoice,
    InvoiceEvent,
    InvoiceLine,
)
from billing.models.ledger import Book, ClosedMonth, LedgerCheckpoint, LedgerEntry, Posting
from billing.models.payments import Payment, StripeEvent
from billing.models.reconciliation import Reconciliation, ReconciliationDifference
from billing.models.tax import FAPIAO_MOVES, Fapiao, FapiaoEvent, TaxProfile
from billing.models.wallet import (
    BankTransfer,
    Gift,
    ReceivingAccount,
    SettledGift,
    SettledUsage,
    TopUp,
    TransferSlip,
    Voucher,
)

__all__ = [
    "ARREARS_MOVES",
    "FAPIAO_MOVES",
    "INVOICE_MOVES",
    "LINE_METERS",
    "Arrears",
    "ArrearsStep",
    "BankTransfer",
    "BilledFact",
    "BilledWindow",
    "BillingAccount",
    "Book",
    "ClosedMonth",
    "CreditNote",
    "CreditNoteLine",
    "Dispute",
    "DunningStep",
    "ExportEvent",
    "ExportJob",
    "Fapiao",
    "FapiaoEvent",
    "Gift",
    "Invoice",
    "InvoiceEvent",
    "InvoiceLine",
    "LedgerCheckpoint",
    "LedgerEntry",
    "NumberSeries",
    "Payment",
    "Posting",
    "ReceivingAccount",
    "Reconciliation",
    "ReconciliationDifference",
    "Refund",
    "SettledGift",
    "SettledUsage",
    "StripeEvent",
    "TaxProfile",
    "TopUp",
    "TransferSlip",
    "Voucher",
]
