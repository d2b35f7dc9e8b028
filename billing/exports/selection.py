"""Which rows an export is about, and the same as plain values that a job keeps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet

from billing.models import Invoice


@dataclass(frozen=True, slots=True)
class Selection:
    """Facts of one organization or of all, of one currency or of all, in `[since, until)`.

    `invoices` narrows what hangs on invoices to those of a query, a list's filter for one. `at` is the moment that a
    question about open items is asked for.
    """

    at: datetime
    organization_id: int | None = None
    currency: str = ""
    since: datetime | None = None
    until: datetime | None = None
    invoices: QuerySet[Invoice] | None = None

    def clauses(self, *, when: str, organization: str, currency: str) -> tuple[list[str], list[object]]:
        """Conditions on the columns of these names, with their values."""
        wanted: list[tuple[str, object]] = [
            (f"{organization} = %s", self.organization_id),
            (f"{currency} = %s", self.currency or None),
            (f"{when} >= %s", self.since),
            (f"{when} < %s", self.until),
        ]
        chosen = [(clause, value) for clause, value in wanted if value is not None]
        return [clause for clause, _value in chosen], [value for _clause, value in chosen]

    def of_invoices(self, *, name: str = "i", when: str = "") -> tuple[str, list[object]]:
        """The condition that picks issued invoices: no draft is a document. By the instant of issue if not said."""
        clauses, values = self.clauses(
            when=when or f"{name}.issued_at", organization=f"{name}.organization_id", currency=f"{name}.currency"
        )
        clauses.append(f"{name}.number IS NOT NULL")
        if self.invoices is not None:
            among, more = _among(self.invoices)
            clauses.append(f"{name}.id IN ({among})")
            values += more
        return " AND ".join(clauses), values


def _among(rows: QuerySet[Any]) -> tuple[str, list[object]]:
    # An order costs a sort that nobody sees, but it decides what a slice holds.
    wanted = (rows if rows.query.is_sliced else rows.order_by()).values("pk")
    try:
        sql, values = wanted.query.get_compiler(connection.alias).as_sql()
    except EmptyResultSet:
        return "NULL", []  # Django knows without asking that there is nothing
    return sql, list(values)
