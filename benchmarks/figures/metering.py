"""Cutting open meters into usage windows, against a bare INSERT … SELECT of the same rows into the same keyed table."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import connection

from benchmarks import world
from benchmarks.machine import Machine
from benchmarks.rounds import ROUNDS, Sample, compare
from benchmarks.table import Row, Wrong
from catalog.models import Image, Offer
from orders.models import Order, OrderLine
from rentals import metering

NAME = "metering"
TARGET = 0.50
RENTALS = 10_000
DAYS = 10
WINDOWS = RENTALS * DAYS
HOURS = 24
START = datetime(2026, 10, 1, tzinfo=ZoneInfo("Asia/Shanghai"))
COLUMNS = "rental_id, subscription_id, organization_id, meter, quantity, currency, rate, period, seconds"


def measure(machine: Machine) -> Row:
    _open_meters()
    _cut()
    _keep_as_reference()
    result = compare(_cut, _insert)
    return Row(
        NAME,
        f"{result.ours.rate:.0f} windows/s",
        f"{result.reference.rate:.0f} windows/s",
        result.ratio,
        TARGET,
        note=f"{WINDOWS:,} windows, {WINDOWS * HOURS:,} rental-hours a round; same rows on both sides; "
        f"median of {ROUNDS} rounds",
    )


def _cut() -> Sample:
    """One day at a time would be usual; a run that fell ten days behind is the bulk case."""
    _forget_windows()
    started = time.perf_counter()
    written = metering.cut_windows(at=START + timedelta(days=DAYS, hours=1))
    seconds = time.perf_counter() - started
    if written != WINDOWS:
        raise Wrong(f"{written} windows were written, not {WINDOWS}")
    _check()
    return Sample(written / seconds)


def _insert() -> Sample:
    _forget_windows()
    started = time.perf_counter()
    _execute(f"INSERT INTO rentals_usagewindow (key, {COLUMNS}) SELECT gen_random_uuid(), {COLUMNS} FROM bench_windows")
    seconds = time.perf_counter() - started
    _check()
    return Sample(WINDOWS / seconds)


def _check() -> None:
    """Every rental has its whole days, no more and no less, at its own quantity and rate."""
    wrong = _execute(
        """SELECT count(*) FROM (
             SELECT rental_id, count(*) AS windows, sum(seconds) AS seconds, range_agg(period) AS covered,
                    bool_and(w.quantity = s.cards AND w.rate = s.rate AND w.meter = 'card_hour') AS right_terms
               FROM rentals_usagewindow w JOIN orders_subscription s ON s.id = w.subscription_id GROUP BY rental_id) r
            WHERE windows <> %(days)s OR seconds <> %(days)s * 86400 OR NOT right_terms
               OR covered <> tstzmultirange(tstzrange(%(start)s, %(end)s))""",
        days=DAYS,
        start=START,
        end=START + timedelta(days=DAYS),
    )[0][0]
    ((rentals,),) = _execute("SELECT count(DISTINCT rental_id) FROM rentals_usagewindow")
    if wrong or rentals != RENTALS:
        raise Wrong(f"{rentals} of {RENTALS} rentals have windows, {wrong} of them wrong ones")


def _open_meters() -> None:
    """Rentals whose meters have run since START, with subscriptions of different size and rate."""
    buyer, offer = world.buyer(200), Offer.objects.filter(pool__isnull=False).earliest("pk")
    order = Order.objects.create(
        organization=buyer.organization, project=buyer.project, placed_by=buyer.user, request_key="metering",
        status="confirmed", currency="CNY", total_minor=0, placed_at=START,
    )  # fmt: skip
    line = OrderLine.objects.create(
        order=order, offer=offer, image=Image.objects.earliest("pk"), public_keys=[], quantity=1, cards_per_unit=1,
        disk_gb=100, term="hour", periods=1, rate=1, disk_rate=0, amount_minor=0, tax_percent=6, tax_code="",
        units=[order.key],
    )  # fmt: skip
    values = {
        "organization": buyer.organization.pk, "project": buyer.project.pk, "line": line.pk, "pool": offer.pool_id,
        "start": START, "rentals": RENTALS,
    }  # fmt: skip
    _execute(_SUBSCRIPTIONS, **values)
    _execute(_RENTALS, **values)


def _keep_as_reference() -> None:
    """The rows themselves, ready to be inserted: what is left to measure of the reference is the keyed insert alone."""
    _execute(f"CREATE TABLE bench_windows AS SELECT {COLUMNS} FROM rentals_usagewindow ORDER BY id")
    _execute("VACUUM ANALYZE bench_windows")


def _forget_windows() -> None:
    """Meters open since START and no window, as tidy as in the first round."""
    _execute("TRUNCATE rentals_usagewindow CASCADE")
    _execute("UPDATE rentals_rental SET metered_from = %(start)s", start=START)
    _execute("VACUUM ANALYZE rentals_rental")
    _execute("CHECKPOINT")


def _execute(statement: str, **values: object) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


_SUBSCRIPTIONS = """
INSERT INTO orders_subscription (key, organization_id, project_id, order_line_id, unit, term, periods, cards, disk_gb,
                                 currency, rate, disk_rate, tax_percent, tax_code, headroom_minor, started_at)
SELECT gen_random_uuid(), %(organization)s, %(project)s, %(line)s, gen_random_uuid(), 'hour', 1, 1 + n %% 8, 100, 'CNY',
       2 + (n %% 97) / 100.0, 0.0005, 6, '', 0, %(start)s
  FROM generate_series(1, %(rentals)s) n"""

_RENTALS = """
INSERT INTO rentals_rental (key, organization_id, project_id, order_line_id, subscription_id, name, pool_id, status,
                            desired, generation, public_keys, reason, failure, absences, attempts, ssh_host, ssh_user,
                            host_key, host_key_fingerprint, meter, metered_from, created_at, running_at, suspension)
SELECT unit, organization_id, project_id, order_line_id, id, 'r-' || id, %(pool)s, 'running', 'running', 1, '{}', '',
       '', 0, 0, '', '', '', '', 'card_hour', %(start)s, %(start)s, %(start)s, ''
  FROM orders_subscription WHERE order_line_id = %(line)s"""
