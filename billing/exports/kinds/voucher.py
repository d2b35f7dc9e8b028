"""Vouchers for the accounting system: one a posting, its entries on the accounts that settings name. Balanced, for
the ledger is; an issued invoice is 借 应收账款, 贷 主营业务收入, 贷 应交税费.

Headers are the format's own, in every language. The numbers count the vouchers of each month within the file, so a
month is to be taken whole.
"""

from __future__ import annotations

from django.conf import settings

from billing.exports.kinds.ledger import CREDIT, DEBIT, ENTRIES, booked
from billing.exports.selection import Selection
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.words import label, major, quoted
from billing.models import Posting


def _account(part: int) -> str:
    """Code or name of an entry's account."""
    return label("v.book", [(book, pair[part]) for book, pair in settings.VOUCHER_ACCOUNTS.items()])()


COLUMNS = (
    Column("day", "日期", "day", "v.booked_on::text"),
    Column("word", "凭证字", "word", lambda: quoted(settings.VOUCHER_WORD)),
    Column("number", "凭证号", "count", "v.number"),
    Column("entry", "分录号", "count", "v.entry"),
    Column("summary", "摘要", "text", lambda: f"concat_ws(' ', {label('v.kind', Posting.Kind.choices)()}, v.invoice)"),
    Column("account", "科目编码", "word", lambda: _account(0)),
    Column("account_name", "科目名称", "word", lambda: _account(1)),
    Column("debit", "借方金额", "money", major("v.debit", "v.currency")),
    Column("credit", "贷方金额", "money", major("v.credit", "v.currency")),
    Column("currency", "币种", "word", "v.currency"),
    Column("rate", "汇率", "rate", "CASE v.currency WHEN 'CNY' THEN 1 END"),
    Column("customer_id", "客户编码", "id", "v.organization_key::text"),
    Column("customer", "客户名称", "text", "v.organization"),
)

TABLE = Table(
    "voucher",
    1,
    "凭证",
    COLUMNS,
    (Total("借方金额", "sum(v.debit)"), Total("贷方金额", "sum(v.credit)")),
    agree=(0, 1),
)


def rows(selection: Selection) -> Rows:
    where, values = booked(selection)
    return Rows(
        source=f"""(
            SELECT p.id, p.booked_on, p.kind, p.currency, i.number AS invoice, e.book, o.name AS organization,
                   o.key AS organization_key, {DEBIT} AS debit, {CREDIT} AS credit,
                   dense_rank() OVER (PARTITION BY date_trunc('month', p.booked_on) ORDER BY p.booked_on, p.id)
                       AS number,
                   row_number() OVER (PARTITION BY p.id ORDER BY sign(e.amount_minor) DESC, e.id) AS entry
              FROM {ENTRIES} WHERE {where}) v""",
        order=("v.booked_on", "v.id", "v.entry"),
        values=tuple(values),
        currency="v.currency",
    )
