"""What finance takes away: invoice lines as CSV and XLSX, from the same columns."""

from billing.exports.download import SHAPES, invoice_lines_download
from billing.exports.to_csv import invoice_lines_csv
from billing.exports.to_xlsx import invoice_lines_xlsx

__all__ = ["SHAPES", "invoice_lines_csv", "invoice_lines_download", "invoice_lines_xlsx"]
