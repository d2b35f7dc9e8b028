"""The catalogue page of twenty offers with prices and free counts, against a bare view of one ORM query: as everybody
opens it, and narrowed in a way that nobody asked for before."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from datetime import datetime
from itertools import count

from django.db.models import F

from benchmarks import load
from benchmarks.machine import BARE, PRODUCT, Machine, Web
from benchmarks.rounds import ROUNDS, Sample, compare
from benchmarks.table import Row, Wrong
from benchmarks.world import free_in
from catalog.models import Host, Offer, Price
from catalog.queries import PAGE_SIZE
from marketplace.lib import clock
from marketplace.lib.money import format_rate

NAME, UNASKED = "catalogue", "unasked"
TARGET, UNASKED_TARGET = 0.80, 0.30
CONNECTIONS = 4
SECONDS = 2.0
PAGE = "/gpus/"
# A price that every card is below, another in each request: the whole list, by an address that is new.
NEW_PAGE = "/gpus/?price_max=9000.{:06}"
# More than a round can ask for.
NEW_ADDRESSES = 4000
ROW = re.compile(r'<tr role="row">\s*<th role="rowheader".*?</tr>', re.DOTALL)


def measure(machine: Machine) -> Row:
    ours, bare = machine.web(PRODUCT), machine.web(BARE)
    rows = check(ours)
    slugs = list(Offer.objects.filter(enabled=True).order_by("slug").values_list("slug", flat=True)[:PAGE_SIZE])
    result = compare(
        lambda: ask(ours, [PAGE], rows),
        lambda: ask(bare, ["/offers/"], slugs),
    )
    check(ours)
    return Row(
        NAME,
        f"{result.ours.rate:.0f} pages/s",
        f"{result.reference.rate:.0f} answers/s",
        result.ratio,
        TARGET,
        result.cpu,
        f"{len(rows)} offers with prices and free cards in every answer; median of {ROUNDS} rounds",
    )


def measure_unasked(machine: Machine) -> Row:
    ours, bare = machine.web(PRODUCT), machine.web(BARE)
    rows = [_slug(row) for row in _rows_as_stored(ours)]
    slugs = list(Offer.objects.filter(enabled=True).order_by("slug").values_list("slug", flat=True)[:PAGE_SIZE])
    numbers = count()

    def ask_for_new() -> Sample:
        paths = [NEW_PAGE.format(next(numbers)) for _address in range(NEW_ADDRESSES)]
        return ask(ours, paths, [f'href="/gpus/{slug}/' for slug in _priced(rows)])

    result = compare(ask_for_new, lambda: ask(bare, ["/offers/"], slugs))
    return Row(
        UNASKED,
        f"{result.ours.rate:.0f} pages/s",
        f"{result.reference.rate:.0f} answers/s",
        result.ratio,
        UNASKED_TARGET,
        result.cpu,
        f"every request with a filter of its own; median of {ROUNDS} rounds",
    )


def _priced(slugs: Sequence[str]) -> list[str]:
    """Those that a limit of the price leaves in."""
    priced = Price.objects.filter(currency="CNY", meter="card_hour").in_force(clock.now())
    known = set(priced.values_list("offer__slug", flat=True))
    return [slug for slug in slugs if slug in known]


def check(web: Web) -> list[str]:
    """The page's rows, once each was seen to show what the database says now, and a sale to show in the next answer."""
    rows = _rows_as_stored(web)
    row = next(row for row in rows if free_in(row))
    offer = Offer.objects.get(slug=_slug(row))
    host = Host.objects.filter(pool=offer.pool, state="active", cards_free__gt=0).earliest("pk")
    Host.objects.filter(pk=host.pk).update(cards_free=F("cards_free") - 1)
    try:
        _rows_as_stored(web)
    finally:
        Host.objects.filter(pk=host.pk).update(cards_free=F("cards_free") + 1)
    return rows


def _rows_as_stored(web: Web) -> list[str]:
    rows = ROW.findall(web.get(PAGE))
    if len(rows) != PAGE_SIZE:
        raise Wrong(f"the page shows {len(rows)} offers, not {PAGE_SIZE}")
    at = clock.now()
    for row in rows:
        _compare(row, at)
    return rows


def _compare(row: str, at: datetime) -> None:
    offer = Offer.objects.get(slug=_slug(row))
    text = html.unescape(re.sub(r"<[^>]+>", " ", row)).replace("\xa0", " ")
    for price in Price.objects.filter(offer=offer, currency="CNY", meter__in=["card_hour", "month", "year"]).in_force(
        at
    ):
        shown = format_rate(price.rate, "CNY")
        if shown not in text:
            raise Wrong(f"{offer.slug}: the price {shown} is not on the page")
    hosts = Host.objects.filter(pool=offer.pool_id, pool__paused_reason="", state="active")
    free = sum(hosts.values_list("cards_free", flat=True))
    if not offer.quote_only and free_in(row) != (
        free if any(h.cards_free >= offer.cards_per_unit for h in hosts) else 0
    ):
        raise Wrong(f"{offer.slug}: the page shows {free_in(row)} free cards, the hosts have {free}")


def _slug(row: str) -> str:
    return re.search(r'href="/gpus/([^/"]+)/', row)[1]


def ask(web: Web, paths: Sequence[str], parts: Sequence[str]) -> Sample:
    """One round of these pages in turn, every answer holding all the parts."""
    plan = load.Plan(
        web.url,
        [load.request("GET", web.url + path) for path in paths],
        connections=CONNECTIONS,
        seconds=SECONDS,
        parts=list(parts),
    )
    report, sample = web.ask(plan)
    if report.lacking or load.refusals(report, [200]):
        raise Wrong(f"{paths[0]}: answers {report.statuses}, {report.lacking} incomplete: {report.example[:300]}")
    return sample
