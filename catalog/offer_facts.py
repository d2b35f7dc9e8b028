"""Everything that is known of one offer, in one statement."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import CharField, DateTimeField, OuterRef, Q, Subquery, Value
from django.db.models.functions import Cast, JSONObject
from django.utils.dateparse import parse_datetime

from catalog.models import DeliveryRecord, Offer, Price, Question, Source

# Dated prices of one meter that a page goes back to.
MOST_PRICES = 60
NOT_KNOWN = Value(None, DateTimeField())


class DatedRate(NamedTuple):
    """A rate per card (or GB) over `[start, end)`; no end while none is planned."""

    meter: str
    rate: Decimal
    start: datetime
    end: datetime | None

    def holds(self, at: datetime) -> bool:
        return self.start <= at and (self.end is None or self.end > at)


class SourceFact(NamedTuple):
    url: str
    what: str
    grade: str


class QuestionFact(NamedTuple):
    id: int
    question_zh: str
    question_en: str
    answer_zh: str
    answer_en: str


class OfferFacts(NamedTuple):
    """`rates` are those of the asked currency that have begun, oldest first. `record` is the newest of the pool.
    `first_end`: when the first of the pool's running terms ends, where the caller could say how to find it.

    Questions of the offer come first, then those of its card, then general ones.
    """

    offer: Offer
    rates: list[DatedRate]
    sources: dict[str, SourceFact]
    record: DeliveryRecord | None
    questions: list[QuestionFact]
    first_end: datetime | None

    def current(self, at: datetime) -> dict[str, DatedRate]:
        """The rates in force at the instant, by meter."""
        return {rate.meter: rate for rate in self.rates if rate.holds(at)}


def offer_facts(
    slug: str, *, currency: str, at: datetime, first_end: Subquery | Value = NOT_KNOWN
) -> OfferFacts | None:
    """An offer on sale that has a card, with its card, region and pool; None where there is none. One statement.

    Terms are a higher floor's: `first_end` is its part of the statement, over `OuterRef("pool")`.
    """
    offer = (
        Offer.objects.on_sale()
        .filter(slug=slug, gpu_model__isnull=False)
        .select_related("gpu_model", "region", "pool")
        .annotate(
            known_rates=ArraySubquery(_rates(currency, at)),
            known_sources=ArraySubquery(Source.objects.values(json=JSONObject(**_same("key", "url", "what", "grade")))),
            known_record=ArraySubquery(_records()),
            known_questions=ArraySubquery(_questions()),
            known_end=first_end,
        )
        .first()
    )
    if offer is None:
        return None
    return OfferFacts(
        offer=offer,
        rates=sorted((_rate(row) for row in offer.known_rates), key=lambda rate: rate.start),
        sources={row.pop("key"): SourceFact(**row) for row in offer.known_sources},
        record=next((_record(row) for row in offer.known_record), None),
        questions=[QuestionFact(**row) for row in offer.known_questions],
        first_end=offer.known_end,
    )


# --- parts of the statement ------------------------------------------------------------------------------------------
def _rates(currency: str, at: datetime) -> Any:
    # As text: JSON's numbers would come back as floats.
    shown = JSONObject(meter="meter", rate=Cast("rate", CharField()), start="valid_from", end="valid_to")
    begun = Price.objects.filter(offer=OuterRef("pk"), currency=currency, valid_from__lte=at)
    return begun.order_by("-valid_from").values(json=shown)[: MOST_PRICES * len(Price.Meter)]


def _records() -> Any:
    fields = [field.attname for field in DeliveryRecord._meta.concrete_fields]
    newest = DeliveryRecord.objects.filter(pool=OuterRef("pool")).order_by("-measured_on")
    return newest.values(json=JSONObject(**_same(*fields)))[:1]


def _questions() -> Any:
    fits = Q(offer=OuterRef("pk")) | Q(gpu_model=OuterRef("gpu_model")) | Q(offer=None, gpu_model=None)
    rows = Question.objects.filter(fits, published=True)
    return rows.order_by("offer", "gpu_model", "position", "pk").values(json=JSONObject(**_same(*QuestionFact._fields)))


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _rate(row: Mapping[str, Any]) -> DatedRate:
    start = parse_datetime(row["start"])
    if start is None:
        raise ValueError(row["start"])
    return DatedRate(row["meter"], Decimal(row["rate"]), start, row["end"] and parse_datetime(row["end"]))


def _record(row: Mapping[str, Any]) -> DeliveryRecord:
    """As a model instance; JSON gave its dates as text."""
    return DeliveryRecord(
        **{field.attname: field.to_python(row[field.attname]) for field in DeliveryRecord._meta.concrete_fields}
    )
