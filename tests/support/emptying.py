"""Empty the tables after a test that committed, quickly.

Django truncates every table and makes all permissions anew, which takes most of a second a test. A DELETE on tables
that are nearly empty takes milliseconds; content types and permissions stay, no test changes them.
"""

from django.db import connection
from django.test import TransactionTestCase

KEPT = {"django_migrations", "django_content_type", "auth_permission"}


def delete_rows() -> None:
    """Leave every table but the kept ones empty; append-only triggers and foreign keys stand aside meanwhile."""
    tables = sorted(set(connection.introspection.django_table_names(only_existing=True)) - KEPT)
    deletes = "; ".join(f"DELETE FROM {connection.ops.quote_name(table)}" for table in tables)
    with connection.cursor() as cursor:
        cursor.execute(f"SET session_replication_role = replica; {deletes}; SET session_replication_role = DEFAULT")


def install() -> None:
    TransactionTestCase._fixture_teardown = lambda _test: delete_rows()
