"""Every kind of export: its headers as they are promised, its figures from the books, empty ones too."""

import csv
import io
from datetime import timedelta
from decimal import Decimal

import openpyxl
import pytest
from django.db import connection, transaction
from django.utils import translation

from billing import actions, ledger
from billing.exports.catalogue import EXPORTS
from billing.exports.download import written
from billing.exports.selection import Selection
from billing.models import BillingAccount, Book, Invoice, Posting, TopUp
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, JANUARY, NOVEMBER, order, rental, used

pytestmark = pytest.mark.django_db


def table(key, shape="csv", language="en", *, for_machines=True, at=DECEMBER + HOUR, **narrowed):
    """The rows of an export as dictionaries."""
    export = EXPORTS[key]
    with translation.override(language):
        rows = export.rows(Selection(at=at, **narrowed))
        data = b"".join(written(export.table, rows, shape=shape, for_machines=for_machines))
    if shape == "csv":
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    head, *body = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0].iter_rows(values_only=True)
    return [dict(zip(head, row, strict=True)) for row in body]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("shape", ["csv", "xlsx"])
@pytest.mark.parametrize("key", EXPORTS)
def test_an_empty_export_is_its_headers(key, shape, language):
    assert table(key, shape, language, organization_id=1, currency="CNY", since=NOVEMBER, until=DECEMBER) == []
