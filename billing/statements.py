"""A bank's statement as a CSV file, as Chinese banks export it, read into incoming payments. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Final

from django.utils.translation import gettext_lazy as _

from marketplace.lib.money import exponent, minor
from marketplace.lib.refusals import Refusal

MOST_BYTES: Final = 5 * 1024 * 1024
MOST_LINES: Final = 5000
# Titles that banks give the columns we read, the likeliest first.
TITLES: Final = {
    "reference": ("交易流水号", "流水号", "凭证号", "银行流水号", "reference", "transaction id"),
    "payer": ("对方户名", "付款人名称", "付款人", "对方名称", "payer", "counterparty"),
    "amount": ("收入金额", "贷方发生额", "收入", "贷方金额", "交易金额", "金额", "credit", "amount"),
    "received_at": ("交易时间", "交易日期", "入账日期", "日期", "received at", "date"),
    "remark": ("附言", "摘要", "备注", "用途", "remark", "memo"),
}
REQUIRED: Final = ("reference", "payer", "amount", "received_at")
MOMENTS: Final = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d",
    "%Y%m%d %H:%M:%S", "%Y%m%d%H%M%S", "%Y%m%d", "%Y年%m月%d日",
)  # fmt: skip


class StatementUnreadable(Refusal):
    """The file is no statement that can be read; nothing of it was recorded."""

    field = "file"


@dataclass(frozen=True, slots=True)
class Incoming:
    """One incoming payment of the file."""

    reference: str
    payer: str
    amount_minor: int
    remark: str
    received_at: datetime


def read_statement(content: bytes, *, currency: str, zone: tzinfo) -> list[Incoming]:
    """The incoming payments of a statement; outgoing ones are left out. Dates are in the bank's `zone`.

    UTF-8 (with or without its mark) or GB18030; lines above the titles are skipped. Raises StatementUnreadable naming
    the first line at fault.
    """
    if len(content) > MOST_BYTES:
        raise StatementUnreadable("too_large", _("The file may have at most 5 MB."))
    rows = list(csv.reader(io.StringIO(_text(content))))
    start, columns = _columns(rows)
    found = list(_incoming(rows, start, columns, currency, zone))
    if len(found) > MOST_LINES:
        raise StatementUnreadable("too_long", _("At most %(most)s payments at once.") % {"most": MOST_LINES})
    if not found:
        raise StatementUnreadable("empty", _("There is no incoming payment in this file."))
    return found


def _text(content: bytes) -> str:
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise StatementUnreadable("encoding", _("The file is not text that can be read (UTF-8 or GBK)."))


def _columns(rows: list[list[str]]) -> tuple[int, dict[str, int]]:
    """The line of titles and where each column stands."""
    for number, row in enumerate(rows[:30]):
        titles = [_plain(cell).lower() for cell in row]
        columns = {
            name: next(titles.index(title) for title in known if title in titles)
            for name, known in TITLES.items()
            if any(title in titles for title in known)
        }
        if all(name in columns for name in REQUIRED):
            return number + 1, columns
    raise StatementUnreadable(
        "no_titles", _("The columns for reference, payer, amount and time were not found in this file.")
    )


def _incoming(
    rows: list[list[str]], start: int, columns: dict[str, int], currency: str, zone: tzinfo
) -> Iterator[Incoming]:
    for number, row in enumerate(rows[start:], start + 1):
        cells = {name: _plain(row[place]) if place < len(row) else "" for name, place in columns.items()}
        if not cells["amount"]:
            continue  # an outgoing payment, or an empty line
        amount = _amount(cells["amount"], currency, number)
        if amount <= 0:
            continue
        if not cells["reference"]:
            raise StatementUnreadable("reference", _("Line %(line)s has no reference.") % {"line": number})
        yield Incoming(
            reference=cells["reference"],
            payer=cells["payer"],
            amount_minor=amount,
            remark=cells.get("remark", ""),
            received_at=_moment(cells["received_at"], zone, number),
        )


def _plain(cell: str) -> str:
    """A cell without what keeps Excel from reading a number (a tab, an apostrophe, ="…")."""
    return cell.strip().removeprefix("=").strip("\"'\t ").strip()


def _amount(text: str, currency: str, number: int) -> int:
    try:
        amount = Decimal(text.replace(",", "").replace("¥", "").replace("+", ""))
        exact = amount.scaleb(exponent(currency))
    except InvalidOperation:
        exact = Decimal("NaN")
    if not exact.is_finite() or exact != exact.to_integral_value():
        facts = {"line": number, "amount": text}
        raise StatementUnreadable("amount", _("Line %(line)s: “%(amount)s” is no amount.") % facts)
    return minor(amount, currency)


def _moment(text: str, zone: tzinfo, number: int) -> datetime:
    for form in MOMENTS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=zone)
        except ValueError:
            continue
    raise StatementUnreadable("time", _("Line %(line)s: “%(time)s” is no date.") % {"line": number, "time": text})
