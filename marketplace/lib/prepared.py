"""Statements that PostgreSQL plans once per connection: for wide joins of small tables, planning is most of the cost.

Behind a pooler that hands a session's transactions to different servers this does not work, as server-side cursors do
not.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from django.db import connection

# Plans kept by a connection; the one that was used longest ago goes first.
MOST = 32

_PARAMETER = re.compile(r"%\((\w+)\)s")
_numbers = count(1)
# By psycopg connection: the text of each statement with its name and its parameters in order.
_known: WeakKeyDictionary[Any, OrderedDict[str, tuple[str, list[str]]]] = WeakKeyDictionary()


def fetch_all(statement: str, values: Mapping[str, Any], *, first: str = "") -> list[tuple]:
    """The rows of a statement with `%(name)s` parameters, whose types must be plain from where they stand.

    `first` is a command that travels in the same message and runs before it, such as `SAVEPOINT …`.
    """
    connection.ensure_connection()
    known = _known.setdefault(connection.connection, OrderedDict())
    if statement not in known:
        _prepare(known, statement)
    known.move_to_end(statement)
    name, parameters = known[statement]
    with connection.cursor() as cursor:
        cursor.execute(f"{first and f'{first}; '}EXECUTE {name}{_arguments(parameters)}", values)
        return cursor.fetchall()


def _prepare(known: OrderedDict[str, tuple[str, list[str]]], statement: str) -> None:
    parameters = list(dict.fromkeys(_PARAMETER.findall(statement)))
    text = _PARAMETER.sub(lambda found: f"${parameters.index(found[1]) + 1}", statement).replace("%%", "%")
    name = f"plan{next(_numbers)}"
    # Not through Django's cursor: it is no question of the page's, and must not be counted as one.
    with connection.wrap_database_errors, connection.connection.cursor() as cursor:
        if len(known) >= MOST:
            _oldest, (forgotten, _parameters) = known.popitem(last=False)
            cursor.execute(f"DEALLOCATE {forgotten}")
        cursor.execute(f"PREPARE {name} AS {text}")
    known[statement] = name, parameters


def _arguments(parameters: list[str]) -> str:
    return f" ({', '.join(f'%({name})s' for name in parameters)})" if parameters else ""
