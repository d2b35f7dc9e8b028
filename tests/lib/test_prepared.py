"""Statements planned once per connection: same answers, bounded, and no question of their own."""

import pytest
from django.db import ProgrammingError, connection, transaction

from marketplace.lib import prepared

pytestmark = pytest.mark.django_db


def names():
    # Not through Django's cursor, which would count it.
    with connection.connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'plan%'")
        return {name for (name,) in cursor.fetchall()}


def test_values_reach_the_places_of_their_names():
    statement = "SELECT %(b)s::int - %(a)s::int, %(b)s::int, '100%%'"

    assert prepared.fetch_all(statement, {"a": 2, "b": 9, "unused": object}) == [(7, 9, "100%")]
    assert prepared.fetch_all(statement, {"a": 1, "b": 3}) == [(2, 3, "100%")]


def test_a_repeated_statement_is_planned_once_and_counts_as_one_question(django_assert_num_queries):
    with django_assert_num_queries(2):
        prepared.fetch_all("SELECT 'once'", {})
        before = names()
        prepared.fetch_all("SELECT 'once'", {})

    assert names() == before


def test_a_value_is_never_part_of_the_statement():
    assert prepared.fetch_all("SELECT %(text)s::text", {"text": "'); DROP TABLE x; --"}) == [("'); DROP TABLE x; --",)]


def test_plans_are_bounded_and_a_forgotten_one_comes_back():
    for number in range(prepared.MOST + 3):
        prepared.fetch_all(f"SELECT {number}", {})

    assert len(names()) == prepared.MOST
    assert prepared.fetch_all("SELECT 0", {}) == [(0,)]
    assert len(names()) == prepared.MOST


def test_an_error_is_djangos_own_and_leaves_nothing_known():
    for _attempt in range(2):
        with pytest.raises(ProgrammingError), transaction.atomic():
            prepared.fetch_all("SELECT no_such_column FROM catalog_offer", {})


@pytest.mark.django_db(transaction=True)
def test_a_new_connection_plans_anew():
    assert prepared.fetch_all("SELECT 'again'", {}) == [("again",)]
    connection.close()
    assert prepared.fetch_all("SELECT 'again'", {}) == [("again",)]
