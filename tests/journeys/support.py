"""What journeys share: buying through the form, asking the stack's database, waiting."""

import re
from functools import partial

import psycopg2

from marketplace.local.browser import Browser
from marketplace.local.stack import Stack
from tests.support import waiting

# A whole product takes longer than one process, and asking it costs more.
wait_for = partial(waiting.wait_for, seconds=60, pause=0.2)


def ask(stack: Stack, query: str, *arguments: object) -> list[tuple]:
    with psycopg2.connect(stack.env["DATABASE_URL"]) as connection, connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchall()


def place(buyer: Browser, *, term: str = "hour") -> bool:
    """Send the order form that is open; whether an order came of it. A price that has to be seen first is accepted."""
    key = buyer.form("request_key").choices["ssh_keys"][0]
    for _ in range(2):
        page = buyer.submit("request_key", term=term, ssh_keys=key, refused=True)
        if "/console/orders/" in page.url.path:
            return True
        if page.status_code != 200:
            return False
    return False


def order_of(buyer: Browser) -> str:
    """The key of the order whose page is open."""
    found = re.search(r"/console/orders/([0-9a-f-]{36})/", str(buyer.page.url))
    assert found
    return found[1]
