"""Lines of a feed: where they stand, how they are merged and read."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import Q

from marketplace.lib.feed import Cursor, Line, below, merge

NOON = datetime(2026, 11, 30, 4, 0, 0, 123456, tzinfo=UTC)


def line(at=NOON, rank=1, pk=1, sentence="%(object)s was told.", name="gpu-1", **fields) -> Line:
    return Line(at, rank, pk, sentence, name, "rentals:detail", uuid.UUID(int=7), **fields)


def test_a_cursor_reads_what_it_wrote_to_the_microsecond():
    cursor = Cursor(NOON, 3, 42)

    assert str(cursor) == "1796011200123456-3-42"
    assert Cursor.read(str(cursor)) == cursor


@pytest.mark.parametrize(
    "text", ["", "1-2", "1-2-3-4", "-1-2-3", "1-22-3", "x-2-3", "1-2-x", "１-2-3", "9" * 17 + "-1-1", "1-1-" + "9" * 19]
)
def test_anything_else_is_no_cursor(text):
    assert Cursor.read(text) is None


def test_the_largest_cursor_is_still_an_instant():
    assert Cursor.read(f"{'9' * 16}-9-{'9' * 18}") is not None


def test_below_a_cursor_ties_are_broken_by_source_and_row():
    cursor = Cursor(NOON, 2, 5)

    assert below(cursor, 1) == Q(at__lte=NOON)
    assert below(cursor, 2) == Q(at__lt=NOON) | Q(at=NOON, pk__lt=5)
    assert below(cursor, 3) == Q(at__lt=NOON)
    assert below(None, 3) == Q()


def test_sources_are_merged_newest_first():
    later = NOON + timedelta(seconds=1)
    orders = [line(later, 2, 8), line(NOON, 2, 7)]
    machines = [line(NOON, 3, 1)]

    merged = merge([orders, machines, []], 10)

    assert [(one.at, one.rank) for one in merged] == [(later, 2), (NOON, 3), (NOON, 2)]
    assert merge([orders, machines], 1) == [orders[0]]


def test_a_sentence_is_text_and_markup_with_every_part_escaped():
    one = line(sentence="<b> %(object)s over %(amount)s", name="<i>x</i>", params={"amount": "<u>"})

    assert one.text == "<b> <i>x</i> over <u>"
    assert one.html('/a"b/') == ('&lt;b&gt; <a href="/a&quot;b/">&lt;i&gt;x&lt;/i&gt;</a> over &lt;u&gt;')
