"""The tax bureau's batch template as a spreadsheet, and the rules by which the bureau would refuse it.

Columns and rules: public tools that fill the template, a sheet of heads and one of details. Column names stand in row
3, data from row 4. A refusal names its row; with one, nothing is written.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import xlsxwriter
from django.utils.translation import gettext_lazy as _

from billing.fapiao import Detail, Entitlement
from billing.models import Fapiao, TaxProfile
from billing.tax import MOST_BYTES, is_gbk, printed_bytes
from marketplace.lib.money import major
from marketplace.lib.refusals import Refusal, Text

# In the name of every file: the columns below never change without it.
VERSION = "v1"
HEADER_SHEET, DETAIL_SHEET = "1-发票基本信息", "2-发票明细信息"
HEADERS = (
    "发票流水号", "发票类型", "特定业务类型", "是否含税", "受票方自然人标识", "购买方名称", "证件类型",
    "购买方纳税人识别号", "购买方地址", "购买方电话", "购买方开户银行", "购买方银行账号", "备注",
    "是否展示购买方地址电话银行账号", "销售方开户行", "销售方银行账号", "是否展示销售方地址电话银行账号", "购买方邮箱",
    "购买方经办人姓名", "购买方经办人证件类型", "购买方经办人证件号码", "经办人国籍(地区)",
    "经办人自然人纳税人识别号", "放弃享受减按1%征收率原因", "收款人", "复核人",
)  # fmt: skip
DETAILS = (
    "发票流水号", "项目名称", "商品和服务税收编码", "规格型号", "单位", "数量", "单价", "金额", "税率", "折扣金额",
    "是否使用优惠政策", "优惠政策类型", "即征即退类型",
)  # fmt: skip
_FIRST_HEADER, _FIRST_DATA = 2, 3
SPECIAL, ORDINARY = "增值税专用发票", "普通发票"
# Rates that the VAT law knows, as the template wants them.
_RATES = {"0", "0.01", "0.03", "0.05", "0.06", "0.09", "0.13"}
_SERIAL = re.compile(r"[0-9A-Za-z]{1,20}")
_TAX_ID = re.compile(r"[0-9A-Z]{15,20}")
_TAX_CODE = re.compile(r"[0-9]{19}")
_AMOUNT = re.compile(r"[0-9]+\.[0-9]{2}")
_COUNT = re.compile(r"(?=.{1,17}$)[0-9]+(\.[0-9]{1,13})?")
# A code with fewer digits before its zeros is a heading of the list and no good that can be sold.
_LEAF_DIGITS = 7
_MOST_REMARK = 230
Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why the bureau would not take a row. `row` is its number in the sheet."""

    sheet: str
    row: int
    serial: str
    problem: Text

    def __str__(self) -> str:
        where = {"sheet": self.sheet, "row": self.row, "serial": self.serial, "problem": self.problem}
        return str(_("%(sheet)s, row %(row)d (%(serial)s): %(problem)s")) % where


class ExportRefused(Refusal):
    """The bureau would refuse the file; `refused` names every row, and nothing was written."""

    code = "export_refused"

    def __init__(self, refused: Sequence[Refused]) -> None:
        super().__init__(message=_("The tax bureau would refuse this file, so nothing was exported."))
        self.refused = list(refused)


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of both sheets by column, all text as it will be read."""

    headers: list[Row] = field(default_factory=list)
    details: list[Row] = field(default_factory=list)


def filled_in(pairs: Iterable[tuple[Fapiao, Entitlement]]) -> Template:
    """The template's rows for these 发票 and what each says."""
    template = Template()
    for fapiao, entitlement in pairs:
        template.headers.append(_header(fapiao))
        template.details.extend(_row_of(fapiao, detail) for detail in entitlement.details)
    return template


def _header(fapiao: Fapiao) -> Row:
    buyer = fapiao.buyer
    shown = fapiao.kind == Fapiao.Kind.SPECIAL and (buyer.get("address") or buyer.get("bank"))
    return {
        "发票流水号": fapiao.serial,
        "发票类型": SPECIAL if fapiao.kind == Fapiao.Kind.SPECIAL else ORDINARY,
        "是否含税": "是",
        "受票方自然人标识": "是" if buyer.get("kind") == TaxProfile.Kind.INDIVIDUAL else "否",
        "购买方名称": buyer.get("title", ""),
        "购买方纳税人识别号": buyer.get("tax_id", ""),
        "购买方地址": buyer.get("address", ""),
        "购买方电话": buyer.get("phone", ""),
        "购买方开户银行": buyer.get("bank", ""),
        "购买方银行账号": buyer.get("bank_account", ""),
        "备注": fapiao.invoice.number or "",
        "是否展示购买方地址电话银行账号": "是" if shown else "否",
        "购买方邮箱": buyer.get("email", ""),
    }


def _row_of(fapiao: Fapiao, detail: Detail) -> Row:
    return {
        "发票流水号": fapiao.serial,
        "项目名称": detail.title,
        "商品和服务税收编码": detail.tax_code,
        "单位": detail.unit,
        "数量": _plain(detail.quantity),
        "单价": _plain(detail.price),
        "金额": f"{major(detail.amount_minor, fapiao.currency):.2f}",
        "税率": _plain(detail.tax_percent / 100),
        "折扣金额": f"{major(detail.discount_minor, fapiao.currency):.2f}" if detail.discount_minor else "",
    }


def _plain(number: Decimal | None) -> str:
    """Without exponent and without zeros that say nothing; empty for none."""
    if number is None:
        return ""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


# --- what would be refused ---


def refusals(template: Template) -> list[Refused]:
    """Every reason for which the bureau would refuse the rows, in the order of the sheets; empty when it takes them."""
    serials = Counter(row["发票流水号"] for row in template.headers)
    detailed = {row["发票流水号"] for row in template.details}
    found = []
    for number, row in enumerate(template.headers, start=_FIRST_DATA + 1):
        found += [Refused(HEADER_SHEET, number, row["发票流水号"], text) for text in _of_header(row, serials, detailed)]
    for number, row in enumerate(template.details, start=_FIRST_DATA + 1):
        found += [Refused(DETAIL_SHEET, number, row["发票流水号"], text) for text in _of_detail(row, serials)]
    return found


def _of_header(row: Row, serials: Counter[str], detailed: set[str]) -> Iterator[Text]:
    serial = row["发票流水号"]
    if not _SERIAL.fullmatch(serial):
        yield _("The serial must be 1 to 20 letters and digits.")
    if serials[serial] > 1:
        yield _("The serial stands more than once.")
    if serial not in detailed:
        yield _("There are no lines to this serial.")
    if not row["购买方名称"]:
        yield _("The buyer's title is missing.")
    tax_id = row["购买方纳税人识别号"]
    if row["发票类型"] == SPECIAL and not tax_id:
        yield _("A special VAT invoice needs the buyer's tax number.")
    if tax_id and not _TAX_ID.fullmatch(tax_id):
        yield _("The buyer's tax number must be 15 to 20 digits and capitals.")
    yield from _of_texts(row, ("购买方名称", "购买方地址", "购买方电话", "购买方开户银行", "购买方银行账号", "备注"))
    for columns, label in (
        (("购买方名称",), _("The buyer's title")),
        (("购买方地址", "购买方电话"), _("Address and phone together")),
        (("购买方开户银行", "购买方银行账号"), _("Bank and account together")),
    ):
        if printed_bytes(*(row[column] for column in columns)) > MOST_BYTES:
            yield _("%(what)s: longer than 100 bytes of GBK.") % {"what": label}
    if len(row["备注"]) > _MOST_REMARK:
        yield _("The remark is longer than 230 characters.")


def _of_detail(row: Row, serials: Counter[str]) -> Iterator[Text]:
    if row["发票流水号"] not in serials:
        yield _("There is no head to this serial.")
    if not row["项目名称"]:
        yield _("The name of what was sold is missing.")
    elif printed_bytes(row["项目名称"]) > MOST_BYTES:
        yield _("%(what)s: longer than 100 bytes of GBK.") % {"what": _("The name of what was sold")}
    yield from _of_texts(row, ("项目名称", "单位"))
    code = row["商品和服务税收编码"]
    if not _TAX_CODE.fullmatch(code):
        yield _("The tax code must have 19 digits.")
    elif len(code.rstrip("0")) < _LEAF_DIGITS:
        yield _("The tax code %(code)s is a heading; goods under it have codes of their own.") % {"code": code}
    if "%" in row["税率"]:
        yield _("The tax rate must be written as a decimal such as 0.06, not in percent.")
    elif row["税率"] not in _RATES:
        yield _("The tax rate %(rate)s is none that the law knows.") % {"rate": row["税率"]}
    yield from _of_figures(row)


def _of_figures(row: Row) -> Iterator[Text]:
    if not _AMOUNT.fullmatch(row["金额"]) or Decimal(row["金额"]) <= 0:
        yield _("The amount must be above zero, with two decimals.")
    elif row["折扣金额"] and (
        not _AMOUNT.fullmatch(row["折扣金额"]) or Decimal(row["折扣金额"]) > Decimal(row["金额"])
    ):
        yield _("The discount must have two decimals and cannot be above the amount.")
    if bool(row["数量"]) != bool(row["单价"]):
        yield _("Quantity and unit price come together.")
    for column in ("数量", "单价"):
        if row[column] and not _COUNT.fullmatch(row[column]):
            yield _("Quantity and unit price have at most 17 characters and 13 decimals.")
            return


def _of_texts(row: Row, columns: Sequence[str]) -> Iterator[Text]:
    for column in columns:
        text = row.get(column, "")
        strange = next((c for c in text if c in "<>" or not is_gbk(c)), "")
        if strange:
            shown = {"column": column, "character": f"{strange} (U+{ord(strange):04X})"}
            yield _("%(column)s has the character %(character)s, which the bureau does not take.") % shown


# --- the file ---


def workbook(template: Template) -> bytes:
    """The file for the bureau. Raises ExportRefused with every reason; then there is no file."""
    refused = refusals(template)
    if refused:
        raise ExportRefused(refused)
    out = io.BytesIO()
    with xlsxwriter.Workbook(out, {"strings_to_formulas": False, "strings_to_urls": False}) as book:
        _write_sheet(book, HEADER_SHEET, HEADERS, template.headers)
        _write_sheet(book, DETAIL_SHEET, DETAILS, template.details)
    return out.getvalue()


_FIGURES = {"数量", "单价", "金额", "税率", "折扣金额"}


def _write_sheet(book: xlsxwriter.Workbook, name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Figures as numbers; all else as text, for serials and codes would lose digits as numbers."""
    text = book.add_format({"num_format": "@"})
    sheet = book.add_worksheet(name)
    sheet.set_column(0, len(columns) - 1, 18)
    sheet.write_string(0, 0, name)
    for position, column in enumerate(columns):
        sheet.write_string(_FIRST_HEADER, position, column)
        for number, row in enumerate(rows, start=_FIRST_DATA):
            value = row.get(column, "")
            if value and column in _FIGURES:
                sheet.write_number(number, position, Decimal(value))
            elif value:
                sheet.write_string(number, position, value, text)
