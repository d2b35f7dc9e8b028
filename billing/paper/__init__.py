"""Papers as PDF files: bilingual, with a font of their own, the same bytes every time."""

from billing.paper.glyphs import Unprintable
from billing.paper.invoices import invoice_pdf
from billing.paper.typesetting import TypesettingFailed

__all__ = ["TypesettingFailed", "Unprintable", "invoice_pdf"]
