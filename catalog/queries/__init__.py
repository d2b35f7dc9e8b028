"""Questions about the catalogue, by topic. Lists cost a fixed number of statements, whatever their length."""

from catalog.queries.browse import LINKS, PAGE_SIZE, PRECISIONS, Facets, OfferFilter, OfferPage, offers
from catalog.queries.home import Family, HomeSummary, home_summary
from catalog.queries.offers import MOST_RELATED, OfferRow, related_rows, rows_of
from catalog.queries.prices import AGREED, TERMS, current_prices
from catalog.queries.stock import Stock, free_cards, free_units, stock

__all__ = [
    "AGREED",
    "LINKS",
    "MOST_RELATED",
    "PAGE_SIZE",
    "PRECISIONS",
    "TERMS",
    "Facets",
    "Family",
    "HomeSummary",
    "OfferFilter",
    "OfferPage",
    "OfferRow",
    "Stock",
    "current_prices",
    "free_cards",
    "free_units",
    "home_summary",
    "offers",
    "related_rows",
    "rows_of",
    "stock",
]
