"""Connections to read the books with: everything that one export holds is of one moment."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2.extensions
from django.db import connection, transaction

PIECE = 256 * 1024

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
        data = bytes(piece)
        self._write(data)
        self.rows += data.count(b"\n")
        if self._progress is not None:
            self._progress(self.rows)
        return len(data)


def copy_out(cursor: Any, statement: str, values: tuple[object, ...], options: str, pieces: Pieces) -> int:
    """Everything the statement yields, by COPY, into `pieces`. How many rows it was."""
    # COPY takes no parameters: the driver writes them into the text, quoted as it does for every statement.
    text = cursor.mogrify(statement, values).decode()
    with io.BufferedWriter(pieces, PIECE) as buffer:
        cursor.copy_expert(f"COPY ({text}) TO STDOUT WITH ({options})", buffer)
    return int(cursor.rowcount)
