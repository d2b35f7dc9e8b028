"""The broker loses everything, the worker dies: every order still arrives, once."""

import contextlib
import os
import signal

import redis

from rentals.drivers import base
from rentals.drivers.demo import DemoDriver
from tests.journeys.support import ask, order_of, place, wait_for

STATUS = (
    "SELECT r.status FROM rentals_rental r JOIN orders_orderline l ON l.id = r.order_line_id"
    " JOIN orders_order o ON o.id = l.order_id WHERE o.key = %s"
)


def status_of(stack, order: str) -> list[tuple]:
    return ask(stack, STATUS, order)


def engine_machines(stack, rental: str) -> int:
    """How many machines of the rental the demo engine holds."""
    connection = base.Connection(stack.env["DEMO_ENGINE_URL"], base.Secret(stack.env["DEMO_ENGINE_TOKEN"]))
    with contextlib.closing(DemoDriver(connection)) as driver:
        return sum(len(one.members) for one in driver.list_owned("local") if str(one.rental) == rental)


def test_a_flushed_broker_loses_nothing(stack, new_buyers, browser):
    buyer = browser(*new_buyers("flushed"))
    broker = redis.Redis.from_url(stack.env["REDIS_URL"])

    buyer.open("/order/rtx-4090-24gb-1x-fuzhou/")
    assert place(buyer)
    order = order_of(buyer)
    broker.flushall()
    wait_for(lambda: status_of(stack, order))
    broker.flushall()
    wait_for(lambda: status_of(stack, order) == [("running",)])
    broker.close()

    assert ask(stack, "SELECT status FROM orders_order WHERE key = %s", order) == [("active",)]


def test_a_killed_worker_leaves_one_machine(stack, new_buyers, browser):
    buyer = browser(*new_buyers("killed"))
    buyer.open("/order/rtx-4090-24gb-1x-fuzhou/")
    assert place(buyer)
    order = order_of(buyer)

    wait_for(lambda: status_of(stack, order) in ([("creating",)], [("booting",)], [("verifying",)]))
    os.kill(stack.processes["worker"].pid, signal.SIGKILL)
    stack.processes["worker"].wait(timeout=10)
    stack.restart("worker")
    wait_for(lambda: status_of(stack, order) == [("running",)], seconds=150)

    (rental, metered_from, running_at) = ask(
        stack,
        "SELECT r.key::text, r.metered_from, r.running_at FROM rentals_rental r JOIN orders_orderline l"
        " ON l.id = r.order_line_id JOIN orders_order o ON o.id = l.order_id WHERE o.key = %s",
        order,
    )[0]
    assert engine_machines(stack, rental) == 1
    # The meter counts whole seconds, from the one in which the login succeeded.
    assert metered_from == running_at.replace(microsecond=0)


def test_a_paid_term_arrives_when_the_broker_is_flushed_after_the_payment(stack, new_buyers, browser):
    buyer = browser(*new_buyers("prepaid"))
    buyer.open("/order/rtx-4090-24gb-1x-fuzhou/")
    assert place(buyer, term="month")
    order = order_of(buyer)
    page = f"/console/orders/{order}/"
    wait_for(lambda: "/pay/" in buyer.open(page).text)
    buyer.submit(action="/pay/")
    buyer.submit(action="pay")
    redis.Redis.from_url(stack.env["REDIS_URL"]).flushall()

    wait_for(lambda: status_of(stack, order) == [("running",)])

    assert ask(stack, "SELECT i.status, i.paid_minor FROM billing_invoice i JOIN orders_order o ON o.id = i.order_id"
                      " WHERE o.key = %s", order) == [("paid", 101_000)]  # fmt: skip
