"""The price calculator: a basket of offers with terms whose address is its whole state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from catalog.models import Offer
from marketplace.lib import clock, visitor
from orders import basket, calculation, queries
from orders.basket import MAX_LINES, Item
from orders.forms import AddToBasketForm, BasketLineForm

# Longer texts are not repeated to whoever sent them.
LONGEST_ECHO = 60


@require_safe
def calculator(request: HttpRequest) -> HttpResponse:
    """What is in the basket and what it costs now. Its forms lead back here; what they change becomes the address."""
    offers = {offer.slug: offer for offer in queries.offers_on_sale()}
    edit = BasketEdit(request.GET, offers)
    if edit.is_sound:
        return HttpResponseRedirect(address(edit.items))
    context = basket_context(request, edit.basket, edit.items, offers)
    context["lines"] = list(zip(context["lines"], edit.forms, strict=True))
    return render(request, "orders/calculator.html", context | {"add": edit.add, "max_lines": MAX_LINES})


def address(items: Sequence[Item]) -> str:
    """The calculator with this basket."""
    return f"{reverse('orders:calculator')}?{basket.query(items)}" if items else reverse("orders:calculator")


class BasketEdit:
    """The basket of an address and what its forms change in it.

    `item` names the lines; `0-term`, `0-periods`, `0-quantity` change the first of them, `remove=0` takes it out, and
    `offer`, `term`, `periods`, `quantity` add one. A line whose change cannot be taken stays as it was.
    """

    def __init__(self, data: QueryDict, offers: Mapping[str, Offer]) -> None:
        self.basket = basket.read(data.getlist("item"))
        # Changes are to lines that the page has shown, and it shows those on sale.
        shown = [item for item in self.basket.items if item.slug in offers]
        removed = data.get("remove", "")
        self.forms = [
            BasketLineForm(data if f"{number}-term" in data else None, prefix=str(number), item=item)
            for number, item in enumerate(shown)
            if removed != str(number)
        ]
        adding = "offer" in data
        self.add = AddToBasketForm(data if adding else None, families=families(offers.values()))
        if adding and len(self.forms) >= MAX_LINES:
            told = _("The basket holds %(most)d lines; take one out first.") % {"most": MAX_LINES}
            self.add.add_error("offer", told)
        changed = [form.changed for form in self.forms]
        if adding and self.add.is_valid():
            changed.append(self.add.item)
        right = not any(form.errors for form in [*self.forms, self.add])
        self.is_sound = bool(removed) or (right and (adding or any(form.is_bound for form in self.forms)))
        self.items = changed if self.is_sound else [form.changed for form in self.forms]


def families(offers: Iterable[Offer]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The offers as choices, by family in the order they come in."""
    return [
        (family, [(offer.slug, _choice(offer)) for offer in group])
        for family, group in groupby(offers, key=lambda offer: offer.gpu_model.family if offer.gpu_model else "")
    ]


def _choice(offer: Offer) -> str:
    label = f"{offer.title} · {offer.region.name}"
    if calculation.is_sold_online(offer):
        return label
    return _("%(offer)s (on quote)") % {"offer": label}


def basket_context(
    request: HttpRequest, read: basket.Basket, items: Sequence[Item], offers: Mapping[str, Offer]
) -> dict[str, Any]:
    """What every page shows of a basket: its lines at the prices of now, their sums, and what was left out and why."""
    currency, tax_percent = visitor.currency_of(request), Decimal(settings.TAX_PERCENT)
    lines = calculation.price_basket(
        items,
        offers,
        currency=currency,
        tax_percent=tax_percent,
        at=clock.now(),
        organization=request.organization,
    )
    orderable = [line.item for line in lines if line.orderable]
    kept = [line.item for line in lines]
    return {
        "lines": lines,
        "totals": calculation.totals(lines),
        "currency": currency,
        "tax_percent": tax_percent,
        "unreadable": [text[:LONGEST_ECHO] for text in read.unreadable],
        "not_on_sale": list({item.slug: None for item in read.items if item.slug not in offers}),
        "too_many": read.too_many,
        "query": basket.query(kept),
        "orderable_query": basket.query(orderable),
        "on_quote": len(lines) - len(orderable),
        "orderable": len(orderable),
        "share": request.build_absolute_uri(address(kept)),
    }
