"""The files themselves: what a person typed comes back as typed, full sheets are cut, Office opens them."""

import io
import re
import shutil
import subprocess
import zipfile

import openpyxl
import pytest
from django.db import connection
from openpyxl.utils.escape import unescape

from billing.exports import to_xlsx
from billing.exports.table import Column, Rows, Table, Total
from billing.exports.to_csv import write_csv
from billing.exports.to_xlsx import NotOneMoment, write_xlsx

pytestmark = pytest.mark.django_db
OFFICE = next((found for name in ("soffice", "libreoffice") if (found := shutil.which(name))), None)

TABLE = Table(
    "texts",
    1,
    "文本",
    (
        Column("typed", "文本", "text", "t.typed"),
        Column("number", "编号", "id", "t.number"),
        Column("amount", "金额", "money", "t.minor * 0.01"),
        Column("currency", "币种", "word", "t.currency"),
    ),
    (Total("金额", "sum(t.minor)"),),
)


def rows(*typed, number="3040203000000000000", minor=-1250):
    """One row a text, in order."""
    values = [value for text in typed for value in (text, number, minor)]
    lines = ", ".join(f"({place}, %s, %s, %s::bigint, 'CNY')" for place, _text in enumerate(typed))
    return Rows(
        source=f"(VALUES {lines}) t(place, typed, number, minor, currency)", order=("t.place",), values=tuple(values),
        currency="t.currency",
    )  # fmt: skip


def series(count):
    return Rows(
        source="(SELECT n AS place, 'r' || n AS typed, n::text AS number, n::bigint AS minor, 'CNY' AS currency"
        f" FROM generate_series(1, {count}) n) t",
        order=("t.place",),
        currency="t.currency",
    )


def xlsx(rows_):
    file = io.BytesIO()
    with connection.cursor() as cursor:
        write_xlsx(TABLE, rows_, file, cursor=cursor.cursor)
    return file


def first_cells(rows_):
    sheet = openpyxl.load_workbook(xlsx(rows_)).worksheets[0]
    return [row[0] for row in sheet.iter_rows(min_row=2)]


TYPED = [
    "福州智算 · “引号” ㈱ 𠮷 🚀",
    "=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", "＝1", "a & b < c > d \"e\" 'f'",
    "two\nlines", " spaces ", "]]>", "<!-- -->", "_x0041_", "__x000D_x", "100%", "%s %% %(a)s", "\\n \\x01 'quoted'",
]  # fmt: skip


def test_what_was_typed_comes_back_as_text():
    cells = first_cells(rows(*TYPED))

    assert [cell.data_type for cell in cells] == ["s"] * len(TYPED)
    assert [unescape(cell.value) for cell in cells] == TYPED


@pytest.mark.parametrize("code", [*range(1, 9), *range(11, 32), 0xFFFE, 0xFFFF])
def test_characters_that_xml_cannot_hold_are_spelled_as_excel_spells_them(code):
    [cell] = first_cells(rows(f"a{chr(code)}b"))

    assert cell.value == f"a_x{code:04X}_b"


def test_numbers_are_numbers_and_digits_of_ids_are_text():
    sheet = openpyxl.load_workbook(xlsx(rows("a"))).worksheets[0]

    _typed, number, amount, _currency = sheet[2]
    assert (number.value, number.data_type, number.number_format) == ("3040203000000000000", "s", "@")
    assert (amount.value, amount.data_type, amount.number_format) == (-12.5, "n", "#,##0.00")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("甲" * 32_767, "甲" * 32_767),
        ("甲" * 32_768, "甲" * 32_766 + "…"),
        ("🚀" * 16_383, "🚀" * 16_383),
        ("🚀" * 16_384, "🚀" * 16_382 + "…"),
        ("&" * 40_000, "&" * 32_766 + "…"),
    ],
)
def test_a_cell_ends_at_excels_limit(typed, kept):
    [cell] = first_cells(rows(typed))

    assert cell.value == kept
    assert len(cell.value.encode("utf-16-le")) // 2 <= 32_767


def test_nothing_is_an_empty_cell():
    sheet = openpyxl.load_workbook(xlsx(rows(None, number=None, minor=None))).worksheets[0]

    assert [cell.value for cell in sheet[2]] == [None, None, None, "CNY"]


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (9, [9]), (10, [10]), (11, [10, 1]), (30, [10, 10, 10])])
def test_a_full_sheet_is_followed_by_another(monkeypatch, count, sizes):
    monkeypatch.setattr(to_xlsx, "MOST_ROWS", 10)
    *sheets, control = openpyxl.load_workbook(xlsx(series(count))).worksheets

    assert [sheet.title for sheet in sheets] == ["文本", "文本 2", "文本 3"][: len(sizes)]
    assert [sheet.max_row - 1 for sheet in sheets] == sizes
    assert [[cell.value for cell in sheet[1]] for sheet in sheets] == [["文本", "编号", "金额", "币种"]] * len(sizes)
    texts = [row[0] for sheet in sheets for row in sheet.iter_rows(min_row=2, values_only=True)]
    assert texts == [f"r{n}" for n in range(1, count + 1)]
    if count:
        assert [cell.value for cell in control[2]] == ["CNY", count, count * (count + 1) / 200]


def test_pieces_of_any_size_are_cut_at_the_same_rows(monkeypatch):
    monkeypatch.setattr(to_xlsx, "MOST_ROWS", 3)
    monkeypatch.setattr("billing.exports.reading.PIECE", 7)
    sheets = openpyxl.load_workbook(xlsx(series(8))).worksheets[:-1]

    assert [[row[0] for row in sheet.iter_rows(min_row=2, values_only=True)] for sheet in sheets] == [
        ["r1", "r2", "r3"], ["r4", "r5", "r6"], ["r7", "r8"],
    ]  # fmt: skip


def test_a_book_over_more_than_one_moment_is_refused(monkeypatch):
    monkeypatch.setattr(to_xlsx, "control", lambda table, rows: "SELECT 'CNY', 5, 0")

    with pytest.raises(NotOneMoment):
        xlsx(series(4))


def test_the_same_rows_make_the_same_sheet():
    parts = [zipfile.ZipFile(xlsx(series(5))).read("xl/worksheets/sheet1.xml") for _ in range(2)]

    assert parts[0] == parts[1]
    assert b'<dimension ref="A1:D6"/>' in parts[0]


@pytest.mark.parametrize("for_machines", [True, False])
def test_csv_is_what_it_promises_to_the_byte(for_machines):
    pieces = []
    with connection.cursor() as cursor:
        write_csv(TABLE, rows("=1+1", '甲,"乙"\n丙'), pieces.append, cursor=cursor.cursor, for_machines=for_machines)

    mark, tab = ("", "") if for_machines else ("\ufeff", "\t")
    assert b"".join(pieces).decode() == (
        f"{mark}文本,编号,金额,币种\n"
        f'"\'=1+1","{tab}3040203000000000000",-12.50,"CNY"\n'
        f'"甲,""乙""\n丙","{tab}3040203000000000000",-12.50,"CNY"\n'
    )


@pytest.mark.slow
def test_more_rows_than_a_sheet_holds():
    book = openpyxl.load_workbook(xlsx(series(1_048_576)), read_only=True)

    first, second, _control = book.worksheets
    assert (first.max_row, second.max_row) == (1_048_576, 2)
    assert [row[0] for row in second.iter_rows(min_row=2, values_only=True)] == ["r1048576"]


@pytest.mark.slow
def test_libreoffice_opens_it_with_everything_in_place(tmp_path):
    assert OFFICE, "LibreOffice is needed: apt-get install libreoffice-calc-nogui"
    typed = [text for text in TYPED if "\n" not in text and "\t" not in text]
    (tmp_path / "book.xlsx").write_bytes(xlsx(rows(*typed)).getvalue())

    subprocess.run(
        [OFFICE, f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", "--convert-to",
         "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false", "--outdir", str(tmp_path),
         str(tmp_path / "book.xlsx")],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip

    lines = (tmp_path / "book.csv").read_text("utf-8").splitlines()
    assert lines[0] == "文本,编号,金额,币种"
    assert len(lines) == len(typed) + 1
    assert all(re.search(r",3040203000000000000,-12\.50?,CNY$", line) for line in lines[1:])
    assert lines[1].startswith("福州智算 · “引号” ㈱ 𠮷 🚀,") or lines[1].startswith('"福州智算')
    assert lines[2].startswith("=1+1,")
