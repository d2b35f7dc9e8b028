"""`make loop`: the main job once, over HTTP and SSH only, against a fresh stack of its own.

Sign up → key → rent 2 × RTX 4090 by the hour and 8 × H100 for a month → pay the month on the hosted page → log in to
both → stop → close the month → what Stripe holds and what finance exports, against sums computed here.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from email import message_from_string, policy
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

import asyncssh
import httpx
import psycopg2

from marketplace.local.browser import Browser
from marketplace.local.demo_data import DEMO_PASSWORD
from marketplace.local.processes import log_tail
from marketplace.local.stack import ROOT, Stack

ZONE = ZoneInfo("Asia/Shanghai")
EMAIL = "loop@example.com"
HOURLY, MONTHLY = "rtx-4090-24gb-2x-fuzhou", "h100-sxm5-80gb-8x-fuzhou"
# Long enough to be charged something, short enough to wait for.
METERED_SECONDS = 5
# Stripe collects no less than this; what stays below is carried into the next month.
LEAST_CHARGE_FEN = 400
# More than INVOICE_GRACE_HOURS.
GRACE = timedelta(hours=24)
PATIENCE = 120.0

T = TypeVar("T")


class LoopFailed(Exception):
    """Something did not come out as a customer may expect."""


@dataclass(frozen=True)
class Machine:
    """A rental as its page shows it."""

    page: str
    host: str
    port: int
    user: str


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="gpu-loop-") as folder:
        step("starting a fresh stack on free ports")
        with Stack(Path(folder), fsync=False) as stack:
            try:
                print(walk(stack))
            except (LoopFailed, httpx.HTTPError) as failure:
                print(f"loop failed: {failure}", file=sys.stderr)
                for name in ("web", "worker"):
                    print(indent(log_tail(str(stack.log_file(name)))), file=sys.stderr)
                return 1
    return 0


def walk(stack: Stack) -> str:
    """The whole walk; the sentence that says what was done. Raises LoopFailed."""
    buyer = Browser(stack.url)
    key, stranger = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")

    step("signing up, confirming the address by its mail, adding a key")
    sign_up(buyer, stack)
    add_key(buyer, key)

    step("renting 2 × RTX 4090 by the hour and 8 × H100 for a month")
    hourly_order = order(buyer, HOURLY, term="hour")
    monthly_order = order(buyer, MONTHLY, term="month")
    pay(buyer, monthly_order)

    step("waiting for both machines, logging in with the key, trying another one")
    hourly, monthly = machine(buyer, hourly_order), machine(buyer, monthly_order)
    cards = 0
    for one in (hourly, monthly):
        words, seen = asyncio.run(log_in(one, key))
        cards += seen
        print(indent(words))
        expect(not asyncio.run(is_admitted(one, stranger)), f"{one.page} admitted a foreign key")

    step("stopping the hourly machine")
    time.sleep(METERED_SECONDS)
    buyer.open(one_action(hourly.page, "stop"))
    buyer.submit(action="stop")
    wait_for("the stop", lambda: has_status(stack, hourly.page, "stopped"))

    step("closing the month")
    close_at, expected_usage = closing(stack, hourly)
    # After the grace, in which the month still lies as a draft.
    print(indent(stack.manage("run_billing", f"--at={(close_at + GRACE).isoformat()}")))

    return settle(stack, {"usage": expected_usage, "order": month_total()}, cards)


def closing(stack: Stack, hourly: Machine) -> tuple[datetime, int]:
    """The month's end and what its use must come to; the next month's where this one stays below the least charge."""
    end = month_end(datetime.now(UTC))
    total = usage_total(stack, hourly, end)
    if total < LEAST_CHARGE_FEN:
        end = month_end(end)
        total = usage_total(stack, hourly, end)
    return end, total


def settle(stack: Stack, expected: dict[str, int], cards: int) -> str:
    """Compare our invoices, Stripe's and finance's rows with sums computed here from the clock and the price list."""
    invoices = rows(
        stack, "SELECT kind, number, status, stripe_invoice_id, total_minor FROM billing_invoice ORDER BY id"
    )
    expect({row[0] for row in invoices} == {"usage", "order"}, f"expected two invoices, found {invoices}")
    for kind, number, status, stripe_id, total in invoices:
        at_stripe = stripe_invoice(stack, stripe_id)
        print(f"  {number} · {kind} · {status} · {stripe_id} · ¥{total / 100:,.2f}")
        for line in at_stripe["lines"]["data"]:
            print(f"    {line['description']}: ¥{line['amount'] / 100:,.2f}")
        expect(total == expected[kind], f"{number}: {total} is not the {expected[kind]} computed here")
        expect(at_stripe["total"] == total, f"{number}: Stripe says {at_stripe['total']}, we say {total}")
        expect(status == {"order": "paid", "usage": "open"}[kind], f"{number} is {status}")

    step("exporting as finance")
    exported = export(stack)
    total = sum(Decimal(row["Amount with tax"]) for row in exported)
    expect(total == Decimal(sum(expected.values())) / 100, f"the export adds up to {total}")
    return (
        f"loop: rented {cards} cards on 2 machines, logged in to both, metered {metered_seconds(stack)} s, issued"
        f" {len(invoices)} invoices of ¥{total:,.2f} equal at Stripe and in {len(exported)} exported rows."
    )


# --- steps of the customer -----------------------------------------------------------------------------------------
def sign_up(buyer: Browser, stack: Stack) -> None:
    buyer.open("/accounts/signup/")
    buyer.submit("organization", email=EMAIL, password1="loop-walks-2026", organization="回路测试公司", currency="CNY")
    buyer.open(wait_for("the confirmation mail", lambda: confirmation_link(stack)))
    buyer.submit(action="confirm-email")


def confirmation_link(stack: Stack) -> str:
    """The address in the newest mail of the stack, or an empty string while there is none."""
    for file in sorted((stack.folder / "mail").glob("*.log"), reverse=True):
        for part in file.read_text(encoding="utf-8").split("-" * 79):
            message = message_from_string(part.strip(), policy=policy.default)
            link = re.search(r"https?://\S+/confirm-email/\S+", str(message.get_content() if part.strip() else ""))
            if link:
                return link[0]
    return ""


def add_key(buyer: Browser, key: asyncssh.SSHKey) -> None:
    buyer.open("/console/keys/")
    buyer.submit("public_key", name="loop", public_key=key.export_public_key().decode().strip())


def order(buyer: Browser, offer: str, *, term: str) -> str:
    """Place an order through the form; the address of its page. The price is looked at first, as the page asks."""
    buyer.open(f"/order/{offer}/")
    form = buyer.form("request_key")
    ssh_key = form.choices["ssh_keys"][0]
    page = buyer.submit("request_key", quantity="1", term=term, periods="1", ssh_keys=ssh_key)
    if "/console/orders/" not in page.url.path:
        # The first answer shows the price of the chosen term; the second press accepts it.
        page = buyer.submit("request_key", quantity="1", term=term, periods="1", ssh_keys=ssh_key)
    expect("/console/orders/" in page.url.path, f"the order of {offer} was not placed")
    return page.url.path


def pay(buyer: Browser, order_page: str) -> None:
    wait_for("the invoice", lambda: "/pay/" in buyer.open(order_page).text)
    hosted = buyer.submit(action="/pay/")
    print(indent(f"hosted page: {hosted.url.path}"))
    buyer.submit(action="pay")


def machine(buyer: Browser, order_page: str) -> Machine:
    """Wait until the order's one rental shows how to log in."""

    def ready() -> Machine | None:
        found = re.search(r"/console/rentals/[0-9a-f-]{36}/", buyer.open(order_page).text)
        if not found:
            return None
        command = re.search(r"ssh -p (\d+) (\w+)@([\w.]+)", buyer.open(found[0]).text)
        return Machine(found[0], command[3], int(command[1]), command[2]) if command else None

    return wait_for(f"the machine of {order_page}", ready)


async def log_in(one: Machine, key: asyncssh.SSHKey) -> tuple[str, int]:
    """What the machine says of itself, and how many cards it lists."""
    async with connect(one, key) as connection:
        words = await connection.run("cards", check=True)
        counted = await connection.run("cards --json", check=True)
    return str(words.stdout).rstrip(), len(json.loads(str(counted.stdout))["cards"])


async def is_admitted(one: Machine, key: asyncssh.SSHKey) -> bool:
    try:
        async with connect(one, key):
            return True
    except asyncssh.PermissionDenied:
        return False


def connect(one: Machine, key: asyncssh.SSHKey) -> asyncssh.connection._ACMWrapper:
    return asyncssh.connect(
        one.host, one.port, username=one.user, client_keys=[key], known_hosts=None, agent_path=None, config=[]
    )


def one_action(page: str, verb: str) -> str:
    return f"{page}{verb}/"


# --- what should have come out, computed here ----------------------------------------------------------------------
def usage_total(stack: Stack, hourly: Machine, end: datetime) -> int:
    """Card seconds from verified to the stop, then disk seconds to the end; each rounded once, in fen."""
    key = hourly.page.split("/")[-2]
    running, stopped = rows(stack, "SELECT running_at, stopped_at FROM rentals_rental WHERE key = %s", key)[0]
    disk_rate, disk_gb = disk_facts()
    card_seconds = int((stopped - running).total_seconds())
    disk_seconds = int((end - stopped).total_seconds())
    return fen(listed("rtx-4090-24gb", "hour_cny") * 2 * card_seconds / 3600) + fen(
        disk_rate * disk_gb * disk_seconds / 3600
    )


def month_total() -> int:
    return fen(listed("h100-sxm5-80gb", "month_cny") * 8)


def listed(model: str, field: str) -> Decimal:
    prices = json.loads((ROOT / "catalog/data/prices.json").read_text(encoding="utf-8"))["proposed_list"]
    return next(Decimal(row[field]) for row in prices if row["gpu"] == model)


def disk_facts() -> tuple[Decimal, int]:
    """Rate per GB-hour and GB of the hourly machine: a quarter of its server, as 2 of 8 cards are."""
    stock = json.loads((ROOT / "catalog/data/stock.json").read_text(encoding="utf-8"))
    return Decimal(stock["disk_gb_hour"]["CNY"]), stock["nodes"]["rtx-4090-24gb"]["disk_gb"] * 2 // 8


def fen(yuan: Decimal) -> int:
    return int((yuan * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP))


def month_end(at: datetime) -> datetime:
    local = at.astimezone(ZONE)
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1).astimezone(UTC)


# --- what the books, Stripe and finance hold -----------------------------------------------------------------------
def rows(stack: Stack, query: str, *arguments: str) -> list[tuple]:
    with psycopg2.connect(stack.env["DATABASE_URL"]) as connection, connection.cursor() as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchall()


def has_status(stack: Stack, page: str, status: str) -> bool:
    return rows(stack, "SELECT status FROM rentals_rental WHERE key = %s", page.split("/")[-2]) == [(status,)]


def metered_seconds(stack: Stack) -> int:
    return int(rows(stack, "SELECT sum(seconds) FROM rentals_usagewindow WHERE meter = 'card_hour'")[0][0])


def stripe_invoice(stack: Stack, stripe_id: str) -> dict:
    answer = httpx.get(
        f"{stack.env['STRIPE_API_BASE']}/v1/invoices/{stripe_id}",
        auth=(stack.env["STRIPE_API_KEY"], ""),
        trust_env=False,
    )
    return answer.raise_for_status().json()


def export(stack: Stack) -> list[dict[str, str]]:
    """The invoice lines that finance downloads from the admin, as rows."""
    finance = Browser(stack.url)
    finance.open("/admin/login/")
    finance.submit("login", login="finance@example.com", password=DEMO_PASSWORD)
    finance.open("/admin/billing/invoice/")
    text = finance.submit(action="/export/csv/").content.decode("utf-8-sig")
    print(indent(text.replace("\r\n", "\n").rstrip()))
    return list(csv.DictReader(io.StringIO(text)))


# --- small things --------------------------------------------------------------------------------------------------
def wait_for(what: str, ask: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := ask():
            return found
        time.sleep(0.5)
    raise LoopFailed(f"{what} did not come within {PATIENCE:.0f} s")


def expect(fact: bool, otherwise: str) -> None:
    if not fact:
        raise LoopFailed(otherwise)


def step(what: str) -> None:
    print(f"· {what}", flush=True)


def indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
