"""Console pages of billing."""

from billing.views.invoices import InvoiceDetail, InvoiceExport, InvoiceList
from billing.views.overview import Overview
from billing.views.paying import PayInvoice, PayOrder

__all__ = ["InvoiceDetail", "InvoiceExport", "InvoiceList", "Overview", "PayInvoice", "PayOrder"]
