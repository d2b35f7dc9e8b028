"""`python -m benchmarks.grow OFFERS CARDS`: migrate an empty database, load the catalogue, and grow it by copies of
its own offers, each with a pool and hosts of eight cards of its own."""

from __future__ import annotations

import os
import sys

import django

CARDS_PER_HOST = 8


def main(offers: int, cards: int) -> None:
    django.setup()
    from django.core.management import call_command  # noqa: PLC0415 - after the set-up

    call_command("migrate", interactive=False, verbosity=0)
    with open(os.devnull, "w") as nowhere:
        call_command("load_catalog", stdout=nowhere)
    _grow(offers, cards)


def _grow(offers: int, cards: int) -> None:
    from django.db import connection  # noqa: PLC0415

    from catalog.models import Gpu, Offer  # noqa: PLC0415

    wanted = offers - Offer.objects.on_sale().count()
    hosts = (cards - Gpu.objects.count()) // CARDS_PER_HOST
    with connection.cursor() as cursor:
        cursor.execute(_columns_but_own("catalog_pool", "code"), {"wanted": wanted})
        cursor.execute(_HOSTS, {"hosts": hosts, "pools": wanted})
        cursor.execute(_CARDS)
        cursor.execute(_columns_but_own("catalog_offer", "slug", pool_id="p.id"), {"wanted": wanted})
        cursor.execute(_PRICES)
        cursor.execute("VACUUM ANALYZE")


def _columns_but_own(table: str, own: str, **instead: str) -> str:
    """Copies of the table's rows in turn, with names of their own."""
    from django.apps import apps  # noqa: PLC0415

    (model,) = (model for model in apps.get_models() if model._meta.db_table == table)
    columns = [field.column for field in model._meta.concrete_fields if field.column not in {"id", own}]
    values = [instead.get(column, f"like_it.{column}") for column in columns]
    pools = "JOIN catalog_pool p ON p.code = 'grown-' || n" if instead else ""
    return f"""
        WITH ready AS (SELECT *, row_number() OVER (ORDER BY id) AS place, count(*) OVER () AS ready
                         FROM {table} {"WHERE NOT quote_only AND enabled AND pool_id IS NOT NULL" if instead else ""})
        INSERT INTO {table} ({own}, {", ".join(columns)})
        SELECT 'grown-' || n, {", ".join(values)}
          FROM generate_series(1, %(wanted)s) n {pools}
          JOIN ready like_it ON like_it.place = 1 + n %% like_it.ready"""


_HOSTS = f"""
INSERT INTO catalog_host (pool_id, name, fabric_group, cards_total, cards_free, state)
SELECT p.id, 'grown-' || n, '', {CARDS_PER_HOST}, {CARDS_PER_HOST}, 'active'
  FROM generate_series(1, %(hosts)s) n JOIN catalog_pool p ON p.code = 'grown-' || (1 + n %% %(pools)s)"""

_CARDS = f"""
INSERT INTO catalog_gpu (host_id, slot, serial, healthy)
SELECT h.id, slot, h.name || '-' || slot, true
  FROM catalog_host h, generate_series(0, {CARDS_PER_HOST} - 1) slot WHERE h.name LIKE 'grown-%'"""

# Each price a little off the others, so that the order by price is one order.
_PRICES = """
INSERT INTO catalog_price (offer_id, meter, currency, rate, valid_from, valid_to)
SELECT o.id, p.meter, p.currency, p.rate + o.id * 0.0001, p.valid_from, NULL
  FROM catalog_offer o
  JOIN catalog_offer first ON first.gpu_model_id = o.gpu_model_id AND first.cards_per_unit = o.cards_per_unit
       AND first.region_id = o.region_id AND first.slug NOT LIKE 'grown-%'
  JOIN catalog_price p ON p.offer_id = first.id AND p.valid_to IS NULL
 WHERE o.slug LIKE 'grown-%'
ON CONFLICT DO NOTHING"""

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
