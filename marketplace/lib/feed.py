"""Lines of an activity feed: what happened to what, when and by whom. Each app tells its own, a page merges them."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import Q
from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Where in the feed a line stands. Events of one transaction share their instant, so source and row decide too."""

    at: datetime
    rank: int
    pk: int

    SHAPE: ClassVar = re.compile(r"([0-9]{1,16})-([0-9])-([0-9]{1,18})", re.ASCII)

    def __str__(self) -> str:
        return f"{(self.at - EPOCH) // MICROSECOND}-{self.rank}-{self.pk}"

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """The cursor that `str` wrote; None for anything else."""
        found = cls.SHAPE.fullmatch(text)
        if found is None:
            return None
        since, rank, pk = map(int, found.groups())
        return cls(EPOCH + since * MICROSECOND, rank, pk)

    def older(self, rank: int) -> Q:
        """Which rows (by `at` and `pk`) of the source with this rank stand below the cursor."""
        if rank < self.rank:
            return Q(at__lte=self.at)
        if rank == self.rank:
            return Q(at__lt=self.at) | Q(at=self.at, pk__lt=self.pk)
        return Q(at__lt=self.at)


def below(cursor: Cursor | None, rank: int) -> Q:
    """The rows of a source that a page beginning under `cursor` may show; all of them without one."""
    return cursor.older(rank) if cursor else Q()


@dataclass(frozen=True, slots=True)
class Line:
    """`sentence` says %(object)s where the thing it is about is named; that name leads to `page` of `key`."""

    at: datetime
    rank: int
    pk: int
    sentence: str | Promise
    name: str
    page: str
    key: UUID
    params: Mapping[str, Any] = field(default_factory=dict)
    actor_id: int | None = None
    actor: str = ""
    by_staff: bool = False
    """The actor works for the provider."""

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at, self.rank, self.pk)

    @property
    def text(self) -> str:
        return str(self.sentence) % {**self.params, "object": self.name}

    def html(self, address: str) -> SafeString:
        """The sentence with its object as a link."""
        link = f'<a href="{escape(address)}">{escape(self.name)}</a>'
        params = {name: escape(str(value)) for name, value in self.params.items()}
        return mark_safe(escape(str(self.sentence)) % {**params, "object": link})  # noqa: S308 - every part is escaped


def merge(sources: Iterable[Iterable[Line]], limit: int) -> list[Line]:
    """The newest lines of sources that are each newest first."""
    merged: Iterator[Line] = heapq.merge(*sources, key=lambda line: line.cursor, reverse=True)
    return list(islice(merged, limit))
