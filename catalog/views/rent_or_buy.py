"""Rent or buy: the cost model with every input editable, and its address as its state."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from catalog import rent_or_buy, visitor_pages
from catalog.guide import Card, Unit
from catalog.guide.facts import BUYING, BUYING_MODEL, BUYING_USE
from catalog.guide.plans import by_card
from catalog.guide_forms import RentOrBuyForm
from catalog.queries.guide import guide_units
from catalog.rent_or_buy import Comparison, Ownership, Point, Purchase, Rates
from marketplace.lib import visitor
from marketplace.lib.digits import grouped as _n
from marketplace.lib.money import BILLING_CURRENCIES, SYMBOLS

NOTHING = Rates(None, None, None)


@require_safe
def rent_or_buy_page(request: HttpRequest) -> HttpResponse:
    """What a server of one's own costs by the month beside renting the same cards here."""
    return visitor_pages.render(request, "catalog/rent_or_buy.html", lambda at: _context(request, at))


def _context(request: HttpRequest, at: datetime) -> dict[str, Any]:
    own_currency = visitor.currency_of(request)
    # The address says in which currency its amounts are; a shared one keeps its meaning.
    said = request.GET.get("currency", "")
    currency = said if said in BILLING_CURRENCIES else own_currency
    listed = _listed(guide_units(currency=currency, at=at))
    form = RentOrBuyForm(
        request.GET,
        usual=BUYING[currency] | {"use": BUYING_USE},
        model=_first_shown(listed),
        models=[(card.slug, card.name) for card, _rates in listed.values()],
        currency=currency,
    )
    context: dict[str, Any] = {
        "form": form,
        "currency": currency,
        "symbol": SYMBOLS[currency],
        "other_currency": own_currency if own_currency != currency else "",
    }
    if form.is_bound and not form.is_valid():
        return context
    return context | _result(form, listed, currency)


def _listed(units: list[Unit]) -> dict[str, tuple[Card, Rates]]:
    """Every card with a price, at the rates of its largest unit."""
    priced = [unit for unit in units if unit.is_priced]
    rates = {}
    for card, offers in by_card(priced):
        largest = max(offers, key=lambda unit: (unit.cards, unit.slug))
        rates[card.slug] = card, Rates(largest.hour, largest.month, largest.year)
    return rates


def _first_shown(listed: dict[str, tuple[Card, Rates]]) -> str:
    """The card whose server the usual values describe, else any."""
    return BUYING_MODEL if BUYING_MODEL in listed else next(iter(listed), "")


def _result(form: RentOrBuyForm, listed: dict[str, tuple[Card, Rates]], currency: str) -> dict[str, Any]:
    slug = (form.cleaned_data.get("model") if form.is_bound else "") or _first_shown(listed)
    card, listed_rates = listed.get(slug, (None, NOTHING))
    rates = Rates(*(form.rate(term, getattr(listed_rates, term)) for term in Rates._fields))
    buy, use = _purchase(form, currency), form.value("use")
    own = rent_or_buy.ownership(buy)
    compared = rent_or_buy.compare(own, rates, buy, use=use)
    points = rent_or_buy.paid_over_time(own, rates, buy, use=use)
    return {
        "card": card,
        "rates": rates,
        "buy": buy,
        "use": use * 100,
        "own": own,
        "parts": _parts(own, buy),
        "compared": compared,
        "ways": _ways(compared, points),
        "points": points,
    }


def _purchase(form: RentOrBuyForm, currency: str) -> Purchase:
    whole = {name: int(form.value(name)) for name in ("years", "cards")}
    names = (
        "server",
        "network_share",
        "residual",
        "kw",
        "load",
        "pue",
        "kwh",
        "maintenance",
        "staff",
        "rack",
        "capital",
    )
    return Purchase(**whole, **{name: form.value(name) for name in names}, currency=currency)


def _parts(own: Ownership, buy: Purchase) -> list[tuple[str, str, Decimal]]:
    """(name, arithmetic, amount) of each monthly part."""
    capex = f"{own.capex:,f}"
    return [
        (
            _("Depreciation"),
            f"{capex} × (1 − {_percent(buy.residual)}) / (12 × {buy.years})",
            own.parts.depreciation,
        ),
        (
            _("Electricity"),
            f"{_n(buy.kw)} kW × {_percent(buy.load)} × {_n(buy.pue)} × 730 h × {_n(buy.kwh)}",
            own.parts.power,
        ),
        (_("Hardware maintenance"), f"{capex} × {_percent(buy.maintenance)} / 12", own.parts.maintenance),
        (_("Operations staff"), "", own.parts.staff),
        (_("Rack space"), "", own.parts.rack),
        (
            _("Cost of capital"),
            f"{capex} × (1 + {_percent(buy.residual)}) / 2 × {_percent(buy.capital)} / 12",
            own.parts.capital,
        ),
    ]


def _ways(compared: Comparison, points: list[Point]) -> list[dict[str, Any]]:
    """The three ways to rent beside owning: by the month, owning as a share of it, and when owning has paid off."""
    rows = [
        (_("Rent by the hour"), compared.hourly_per_month, None, "hourly"),
        (_("Rent by the month"), compared.month_rent, compared.own_to_month, "monthly"),
        (_("Rent by the year"), compared.year_rent_per_month, compared.own_to_year, "yearly"),
    ]
    return [
        {"name": name, "month": month, "share": share, "from": rent_or_buy.cheaper_from(points, term)}
        for name, month, share, term in rows
        if month is not None
    ]


def _percent(share: Decimal) -> str:
    return f"{_n(share * 100)}%"
