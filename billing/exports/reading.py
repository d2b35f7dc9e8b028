"""Connections to read the books with: everything that one export holds is of one moment."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2.extensions
from django.db import connection, transaction

from billing.exports.table import NEXT_ROW

PIECE = 256 * 1024
# The texts are written as they are. COPY would quote one that has a carriage return or one of these characters; its
# quotes are taken out again. Line ends within a text travel as INNER_LINE, so that every other one ends a row. No text
# has such characters but by mischief, and then loses them.
INNER_LINE = 4
_QUOTE, _NEXT_ROW, _INNER_LINE = b"\x01", bytes([NEXT_ROW]), bytes([INNER_LINE])
_OPTIONS = r"FORMAT csv, ENCODING 'UTF8', QUOTE E'\x01', ESCAPE E'\x01', DELIMITER E'\x02'"

Write = Callable[[bytes], object]
Progress = Callable[[int], None]


@contextmanager
def one_moment() -> Iterator[Any]:
    """A cursor that sees the books as they are now, however much is written meanwhile; inside a transaction, as that
    one sees them."""
    if connection.in_atomic_block:
        with connection.cursor() as cursor:
            yield cursor.cursor
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield cursor.cursor


@contextmanager
def one_moment_apart() -> Iterator[Any]:
    """The same on a connection of its own, so that the job can say meanwhile how far it is."""
    own = connection.copy()
    try:
        own.ensure_connection()
        raw = own.connection
        raw.set_session(isolation_level=psycopg2.extensions.ISOLATION_LEVEL_REPEATABLE_READ, readonly=True)
        raw.autocommit = False
        with raw.cursor() as cursor:
            yield cursor
    finally:
        own.close()


class Pieces(io.RawIOBase):
    """Takes what COPY sends, in large pieces, and passes each on with the number of rows that it ends."""

    def __init__(self, write: Write, progress: Progress | None = None) -> None:
        super().__init__()
        self._write, self._progress = write, progress
        self.rows = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        data = bytes(piece).replace(_QUOTE, b"").replace(_NEXT_ROW, b"\n")
        self.rows += data.count(b"\n")
        self._write(data.replace(_INNER_LINE, b"\n"))
        if self._progress is not None:
            self._progress(self.rows)
        return len(piece)


def copy_out(cursor: Any, statement: str, values: tuple[object, ...], pieces: Pieces) -> int:
    """Every text the statement yields, a line each, by COPY into `pieces`. How many rows it was."""
    # COPY takes no parameters: the driver writes them into the text, quoted as it does for every statement.
    text = cursor.mogrify(statement, values).decode()
    with io.BufferedWriter(pieces, PIECE) as buffer:
        cursor.copy_expert(f"COPY ({text}) TO STDOUT WITH ({_OPTIONS})", buffer)
    return pieces.rows
