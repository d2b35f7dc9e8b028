"""Twenty buyers over HTTP for the last eight cards of one host; two orders for the last of the credit."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from tests.journeys.support import ask, place

SIZES = (1, 4, 8, 1, 4, 1, 1, 4, 8, 1, 1, 4, 1, 4, 1, 8, 1, 4, 1, 1)
POOL = "rtx-5090-32gb"


@pytest.fixture
def one_host(stack):
    """All hosts of the pool offline but one, whose cards are all free; gives its id."""
    with psycopg2.connect(stack.env["DATABASE_URL"]) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT h.id FROM catalog_host h JOIN catalog_pool p ON p.id = h.pool_id JOIN catalog_gpumodel g"
            " ON g.id = p.gpu_model_id WHERE g.slug = %s AND h.cards_free = 8 ORDER BY h.id",
            (POOL,),
        )
        first, *others = [row[0] for row in cursor.fetchall()]
        cursor.execute("UPDATE catalog_host SET state = 'offline' WHERE id = ANY(%s)", (others,))
    yield first
    with psycopg2.connect(stack.env["DATABASE_URL"]) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE catalog_host SET state = 'active' WHERE id = ANY(%s)", (others,))


def test_twenty_buyers_race_for_the_last_eight_cards(stack, one_host, new_buyers, browser):
    racers = [browser(email) for email in new_buyers(*(f"racer{number}" for number in range(len(SIZES))))]
    start = threading.Barrier(len(racers))

    def buy(number: int) -> bool:
        racers[number].open(f"/order/{POOL}-{SIZES[number]}x-fuzhou/")
        start.wait(timeout=60)
        return place(racers[number])

    with ThreadPoolExecutor(len(racers)) as threads:
        won = list(threads.map(buy, range(len(racers))))

    held = ask(stack, "SELECT holder, count(*), count(DISTINCT host_id) FROM catalog_gpu WHERE host_id = %s"
                      " AND holder IS NOT NULL GROUP BY holder", one_host)  # fmt: skip
    free = ask(stack, "SELECT cards_free FROM catalog_host WHERE id = %s", one_host)[0][0]
    taken = sorted(size for size, winner in zip(SIZES, won, strict=True) if winner)
    assert sorted(count for _, count, _ in held) == taken
    assert {hosts for _, _, hosts in held} == {1}
    assert free == 8 - sum(taken)
    assert not [size for size, winner in zip(SIZES, won, strict=True) if not winner and size <= free]
    twice = ask(stack, "SELECT gpu_id FROM catalog_allocation WHERE upper_inf(period) GROUP BY 1 HAVING count(*) > 1")
    assert twice == []
    for racer, winner in zip(racers, won, strict=True):
        if not winner:
            assert racer.page.status_code == 409
            assert "/gpus/" in racer.page.text


def test_two_parallel_orders_never_overdraw_the_credit(stack, new_buyers, browser):
    # 24 hours of one 4090 at 1.98 are 47.52; the credit carries one order, not two.
    (email,) = new_buyers("thrifty", credit_minor=6000)
    racers = [browser(email), browser(email)]
    start = threading.Barrier(2)

    def buy(one) -> bool:
        one.open("/order/rtx-4090-24gb-1x-fuzhou/")
        start.wait(timeout=60)
        return place(one)

    with ThreadPoolExecutor(2) as threads:
        won = list(threads.map(buy, racers))

    assert sorted(won) == [False, True]
    committed = ask(
        stack,
        "SELECT committed_minor FROM accounts_creditline c JOIN accounts_organization o ON o.id = c.organization_id"
        " WHERE o.name = 'thrifty'",
    )
    assert committed == [(4752,)]
    loser = racers[won.index(False)]
    assert "/console/billing/" in loser.page.text


def test_a_double_click_makes_one_order(stack, new_buyers, browser):
    one = browser(*new_buyers("doubleclick"))
    one.open("/order/rtx-4090-24gb-1x-fuzhou/")
    form = one.form("request_key")
    values = form.filled(ssh_keys=form.choices["ssh_keys"][0], term="hour")
    address = str(one.page.url)

    def press(_: int) -> str:
        # The client is shared on purpose: both presses come from one session.
        return str(one.post(address, values).url)

    with ThreadPoolExecutor(2) as threads:
        landed = set(threads.map(press, range(2)))

    assert len(landed) == 1
    assert ask(stack, "SELECT count(*) FROM orders_order o JOIN accounts_organization a ON a.id = o.organization_id"
                      " WHERE a.name = 'doubleclick'") == [(1,)]  # fmt: skip
