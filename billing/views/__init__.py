"""Console pages of billing."""

from billing.views.balance import Balance, TopUpDone, TopUpPage, VoucherPage
from billing.views.invoices import InvoiceDetail, InvoiceExport, InvoiceList
from billing.views.overview import Overview
from billing.views.paying import PayInvoice, PayInvoiceFromBalance, PayOrder, PayOrderFromBalance
from billing.views.transfers import SlipFile, Transfer

__all__ = [
    "Balance",
    "InvoiceDetail",
    "InvoiceExport",
    "InvoiceList",
    "Overview",
    "PayInvoice",
    "PayInvoiceFromBalance",
    "PayOrder",
    "PayOrderFromBalance",
    "SlipFile",
    "TopUpDone",
    "TopUpPage",
    "Transfer",
    "VoucherPage",
]
