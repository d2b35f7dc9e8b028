"""The catalogue's files as rows: what is new is added, what changed is changed and named, the rest is left alone.

Facts follow the files (sources, GPU models, images, what an offer's machine has). What people decide in the admin stays
theirs: whether a region, image or offer is on, a pool's engine, and every host, card and allocation once it exists.
Words that come with the files (questions, where a region keeps data) are set once and edited in the admin from then on.
A price that changed ends at the given instant and its successor begins there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from django.db import connection, models, transaction

from catalog.models import Gpu, GpuModel, Host, Image, Offer, Pool, Price, Question, Region, Source

DATA = Path(__file__).parent / "data"

# Any constant will do; two loads at once would otherwise both find a row missing.
_LOAD_LOCK = 7_203_441

# What a region's files say of its data.
RESIDENCY = ("crossing", "data_stays_zh", "data_stays_en", "crossing_zh", "crossing_en")


class Change(NamedTuple):
    """One line of the report: `added` or `changed`, the kind of row, its key, and the fields that changed."""

    what: str
    kind: str
    key: str
    fields: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    changes: list[Change] = field(default_factory=list)

    def added(self, kind: str, keys: Iterable[str]) -> None:
        self.changes += [Change("added", kind, key) for key in keys]

    def changed(self, kind: str, key: str, fields: Iterable[str]) -> None:
        self.changes.append(Change("changed", kind, key, tuple(fields)))


def load(*, at: datetime, folder: Path = DATA) -> Report:
    """Bring the catalogue up to the files in one transaction; prices that are new or changed hold from `at`.

    Safe to repeat: a second run changes nothing and reports nothing.
    """
    files = _Files(folder)
    report = Report()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOAD_LOCK])
        _sync(report, Source, "key", files.sources())
        regions = _sync(
            report,
            Region,
            "code",
            files.regions(),
            decided_here={"enabled", "is_default", "has_machine_room", *RESIDENCY},
        )
        _set_residency(report, regions.values(), files)
        gpu_models = _sync(report, GpuModel, "slug", files.gpu_models())
        _sync(report, Image, "slug", files.images(), decided_here={"enabled"})
        pools = _sync(
            report,
            Pool,
            "code",
            files.pools(regions, gpu_models),
            decided_here={"driver", "endpoint", "credential_ref", "resource_name"},
        )
        _add_hosts(report, files, pools)
        offers = _sync(
            report,
            Offer,
            "slug",
            files.offers(regions, gpu_models, pools),
            decided_here={"quote_only", "cooling", "isolation"},
        )
        _set_prices(report, offers, files.rates(), at)
        _add_questions(report, files.questions(gpu_models))
    return report


# --- rows by their key -----------------------------------------------------------------------------------------------
def _sync(
    report: Report,
    model: type[models.Model],
    key: str,
    wanted: Iterable[dict[str, Any]],
    *,
    decided_here: Iterable[str] = (),
) -> dict[str, Any]:
    """Rows by key after adding and changing what differs; `decided_here` fields are set on new rows only."""
    rows = {row[key]: row for row in wanted}
    existing = {getattr(row, key): row for row in model._default_manager.filter(**{f"{key}__in": rows})}
    kind = str(model._meta.model_name)
    fresh = [model(**values) for name, values in rows.items() if name not in existing]
    touched: dict[str, list[models.Model]] = {}
    for name, row in existing.items():
        differing = [
            field for field, value in rows[name].items() if field not in decided_here and getattr(row, field) != value
        ]
        for changed in differing:
            setattr(row, changed, rows[name][changed])
            touched.setdefault(changed, []).append(row)
        if differing:
            report.changed(kind, name, differing)
    if touched:
        changed_rows = {row.pk: row for group in touched.values() for row in group}
        model._default_manager.bulk_update(changed_rows.values(), list(touched))
    model._default_manager.bulk_create(fresh)
    report.added(kind, (getattr(row, key) for row in fresh))
    return existing | {getattr(row, key): row for row in fresh}


def _set_residency(report: Report, regions: Iterable[Region], files: _Files) -> None:
    """The files' words for regions that have none; what somebody wrote is never touched."""
    for region in regions:
        words = files.residency(region.code)
        if any(getattr(region, name) for name in words):
            continue
        for name, value in words.items():
            setattr(region, name, value)
        region.save(update_fields=list(words))
        report.changed("region", region.code, words)


def _add_questions(report: Report, wanted: Iterable[dict[str, Any]]) -> None:
    """Questions that are not there yet, by their keys."""
    rows = {row["key"]: row for row in wanted}
    known = set(Question.objects.filter(key__in=rows).values_list("key", flat=True))
    fresh = Question.objects.bulk_create(Question(**row) for key, row in rows.items() if key not in known)
    report.added("question", (str(row.key) for row in fresh))


def _add_hosts(report: Report, files: _Files, pools: Mapping[str, Pool]) -> None:
    """Hosts that are not there yet, with their cards, all free. A host that exists is never touched."""
    wanted = {name: (pools[code], cards) for name, code, cards in files.hosts()}
    known = set(Host.objects.filter(name__in=wanted).values_list("name", flat=True))
    fresh = Host.objects.bulk_create(
        Host(pool=pool, name=name, cards_total=cards, cards_free=cards, fabric_group=pool.code)
        for name, (pool, cards) in wanted.items()
        if name not in known
    )
    Gpu.objects.bulk_create(
        Gpu(host=host, slot=slot, serial=f"{host.name}-{slot}") for host in fresh for slot in range(host.cards_total)
    )
    report.added("host", (host.name for host in fresh))


def _set_prices(
    report: Report, offers: Mapping[str, Offer], rates: Mapping[tuple[str, str, str], Decimal], at: datetime
) -> None:
    """End what differs at `at` and start the file's rate there, up to a price that was already planned for later."""
    current, next_start = _prices_at(offers.values(), at)
    fresh = []
    for (slug, meter, currency), rate in rates.items():
        slot = (offers[slug].pk, meter, currency)
        price = current.get(slot)
        if price is not None and price.rate == rate:
            continue
        key = f"{slug} {meter} {currency}"
        if price is None:
            report.added("price", [f"{key} {rate}"])
        else:
            report.changed("price", f"{key} {price.rate.normalize():f} → {rate}", ["rate"])
            _end_price(price, at)
        fresh.append(
            Price(
                offer=offers[slug],
                meter=meter,
                currency=currency,
                rate=rate,
                valid_from=at,
                valid_to=next_start.get(slot),
            )
        )
    Price.objects.bulk_create(fresh)


def _end_price(price: Price, at: datetime) -> None:
    """A price that would begin and end at one instant has never held; it can be dropped only while still to come."""
    if price.valid_from == at:
        price.delete()
    else:
        Price.objects.filter(pk=price.pk).update(valid_to=at)


def _prices_at(offers: Iterable[Offer], at: datetime) -> tuple[dict[tuple, Price], dict[tuple, datetime]]:
    """By offer, meter and currency: the price that holds at the instant, and when the next planned one begins."""
    current: dict[tuple, Price] = {}
    next_start: dict[tuple, datetime] = {}
    unended = models.Q(valid_to__isnull=True) | models.Q(valid_to__gt=at)
    for price in Price.objects.filter(unended, offer__in=[offer.pk for offer in offers]).order_by("-valid_from"):
        slot = (price.offer_id, price.meter, price.currency)
        if price.valid_from <= at:
            current[slot] = price
        else:
            next_start[slot] = price.valid_from
    return current, next_start


# --- the files -------------------------------------------------------------------------------------------------------
class _Files:
    """The data folder, read as the rows it describes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stock = self._read("stock.json")
        self.models = self._read("gpu_models.json")

    def _read(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder / name).read_text(encoding="utf-8"), parse_float=Decimal)

    def sources(self) -> Iterator[dict[str, Any]]:
        for key, source in self.models["sources"].items():
            yield {"key": key, "url": source.get("url") or "", "what": source["what"], "grade": source["grade"]}

    def regions(self) -> Iterator[dict[str, Any]]:
        same = ("code", "name_zh", "name_en", "admin_code", "timezone", "has_machine_room", "enabled", "basis")
        for region in self._read("regions.json")["regions"]:
            yield (
                {name: region[name] for name in same}
                | {"is_default": region.get("default", False)}
                | self.residency(region["code"])
            )

    def gpu_models(self) -> Iterator[dict[str, Any]]:
        known = {field.name for field in GpuModel._meta.concrete_fields} - {"id"}
        names = self.stock["display_names"]
        # What people call the card, beside the names the vendor gives it.
        called = {slug: name for name, slug in self.models["seed_name_map"].items() if name != "note"}
        for record in self.models["models"]:
            values = {name: value for name, value in record.items() if name in known}
            values["name"] = names.get(record["slug"], record["name"])
            word = called.get(record["slug"])
            if word and word not in values["aliases"]:
                values["aliases"] = [*values["aliases"], word]
            yield values

    def residency(self, code: str) -> dict[str, str]:
        """The words on a region's data, by field."""
        words = self._read("residency.json")
        return words["regions"].get(code, words["default"])

    def questions(self, gpu_models: Mapping[str, GpuModel]) -> Iterator[dict[str, Any]]:
        for question in self._read("questions.json")["questions"]:
            about = question.get("gpu_model")
            yield question | {"gpu_model": gpu_models[about] if about else None}

    def images(self) -> Iterator[dict[str, Any]]:
        """The digest of a demonstration image is that of its own label, so that nobody takes it for a registry's."""
        for image in self._read("images.json")["images"]:
            digest = hashlib.sha256(f"demo:{image['slug']}".encode()).hexdigest()
            yield {"digest": f"sha256:{digest}", "enabled": True} | image

    def pools(self, regions: Mapping[str, Region], gpu_models: Mapping[str, GpuModel]) -> Iterator[dict[str, Any]]:
        for pool in self.stock["pools"]:
            gpu_model = gpu_models[pool["gpu_model"]]
            yield {
                "code": _pool_code(pool),
                "region": regions[pool["region"]],
                "gpu_model": gpu_model,
                "resource_name": self.stock["resource_names"][gpu_model.software_stack],
                **self.stock["engine"],
            }

    def hosts(self) -> Iterator[tuple[str, str, int]]:
        """Name, pool code and cards of each host."""
        for pool in self.stock["pools"]:
            for number in range(1, pool["hosts"] + 1):
                code = _pool_code(pool)
                yield f"demo-{code}-{number:02d}", code, pool["cards_per_host"]

    def offers(
        self, regions: Mapping[str, Region], gpu_models: Mapping[str, GpuModel], pools: Mapping[str, Pool]
    ) -> Iterator[dict[str, Any]]:
        for place in self._places():
            gpu_model = gpu_models[place["gpu_model"]]
            pool = pools.get(_pool_code(place))
            for size in place["sizes"]:
                yield {
                    "slug": _offer_slug(place, size),
                    "kind": Offer.Kind.SERVER if size == place.get("cards_per_host", 8) else Offer.Kind.GPU,
                    "region": regions[place["region"]],
                    "gpu_model": gpu_model,
                    "pool": pool,
                    "cards_per_unit": size,
                    "quote_only": pool is None,
                    **self._machine(place, size),
                }

    def rates(self) -> dict[tuple[str, str, str], Decimal]:
        """Rates by offer slug, meter and currency; what is sold on quote only has none."""
        listed = {entry["gpu"]: entry for entry in self._read("prices.json")["proposed_list"]}
        rates = {}
        for pool in self.stock["pools"]:
            entry = listed[pool["gpu_model"]]
            for size in pool["sizes"]:
                for currency in ("CNY", "USD"):
                    for meter, name in (("card_hour", "hour"), ("month", "month"), ("year", "year")):
                        rate = Decimal(entry[f"{name}_{currency.lower()}"])
                        rates[_offer_slug(pool, size), meter, currency] = rate
                    disk = Decimal(self.stock["disk_gb_hour"][currency])
                    rates[_offer_slug(pool, size), Price.Meter.DISK_GB_HOUR, currency] = disk
        return rates

    def _places(self) -> list[dict[str, Any]]:
        return [*self.stock["pools"], *self.stock["on_quote"]]

    def _machine(self, place: dict[str, Any], size: int) -> dict[str, Any]:
        """What a unit of this size has of its host: an even share by cards."""
        node = self.stock["nodes"][place["gpu_model"]]
        if node["preset"] is None:
            return {}
        preset = next(p for p in self._read_presets() if p["node"] == node["preset"])
        cards = place["cards_per_host"]
        return {
            "vcpus": node["vcpus"] * size // cards,
            "memory_gb": node["memory_gb"] * size // cards,
            "disk_gb": node["disk_gb"] * size // cards,
            "fabric": node["fabric"],
            "fabric_gbps": Decimal(preset["per_gpu_gbps"]),
            "fabric_basis": preset["basis"],
            "cooling": node["cooling"],
        }

    def _read_presets(self) -> list[dict[str, Any]]:
        return self._read("interconnect.json")["node_presets"]


def _pool_code(place: Mapping[str, Any]) -> str:
    return f"{_city(place)}-{place['gpu_model']}"


def _offer_slug(place: Mapping[str, Any], size: int) -> str:
    return f"{place['gpu_model']}-{size}x-{_city(place)}"


def _city(place: Mapping[str, Any]) -> str:
    return str(place["region"]).removeprefix("cn-")
