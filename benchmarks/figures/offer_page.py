"""One offer's page with its prices and free cards, against a bare view of one ORM query."""

from __future__ import annotations

from benchmarks.figures.catalogue import ask
from benchmarks.machine import BARE, PRODUCT, Machine
from benchmarks.rounds import ROUNDS, compare
from benchmarks.table import Row, Wrong
from catalog.models import Host, Offer, Price
from catalog.queries import PAGE_SIZE
from marketplace.lib import clock
from marketplace.lib.money import format_rate

NAME = "offer"
TARGET = 0.75


def measure(machine: Machine) -> Row:
    ours, bare = machine.web(PRODUCT), machine.web(BARE)
    offer = Offer.objects.on_sale().filter(quote_only=False, pool__isnull=False).earliest("slug")
    path = f"/gpus/{offer.slug}/"
    priced = Price.objects.filter(offer=offer, currency="CNY", meter__in=["card_hour", "month", "year"])
    parts = [format_rate(price.rate, "CNY") for price in priced.in_force(clock.now())]
    _check(ours.get(path), offer, parts)
    slugs = list(Offer.objects.filter(enabled=True).order_by("slug").values_list("slug", flat=True)[:PAGE_SIZE])
    result = compare(lambda: ask(ours, [path], parts), lambda: ask(bare, ["/offers/"], slugs))
    return Row(
        NAME,
        f"{result.ours.rate:.0f} pages/s",
        f"{result.reference.rate:.0f} answers/s",
        result.ratio,
        TARGET,
        result.cpu,
        f"{offer.slug} with {len(parts)} prices and its free cards; median of {ROUNDS} rounds",
    )


def _check(page: str, offer: Offer, parts: list[str]) -> None:
    free = sum(Host.objects.filter(pool=offer.pool_id, state="active").values_list("cards_free", flat=True))
    lacking = [part for part in [*parts, f"{free} 卡" if free else "售罄"] if part not in page]
    if lacking:
        raise Wrong(f"{offer.slug}: the page lacks {lacking}")
