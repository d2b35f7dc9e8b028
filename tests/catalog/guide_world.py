"""Cards and offers for the guide's tests: the product's own figures, the list prices, no database."""

import json
from decimal import Decimal
from pathlib import Path

from catalog.guide import Card, Unit

DATA = Path("catalog/data")
RATES = {
    "h100-sxm5-80gb": ("22", "12000", "122400"),
    "h200-sxm-141gb": ("30", "17500", "184800"),
    "b300-sxm-288gb": ("48", "28000", "295700"),
    "a100-sxm4-80gb": ("9.50", "5200", "53000"),
    "l40s-48gb": ("6.20", "3300", "33700"),
    "rtx-4090-24gb": ("1.98", "1010", "10300"),
    "rtx-5090-32gb": ("3.20", "1640", "16700"),
    "ascend-910b3-64gb": ("6.80", "3700", "36400"),
}
FABRICS = {"h100": 400, "h200": 400, "b300": 800, "a100": 200, "ascend": 200}
_records = {
    record["slug"]: record
    for record in json.loads((DATA / "gpu_models.json").read_text(encoding="utf-8"), parse_float=Decimal)["models"]
}


def decimal(value):
    return None if value is None else Decimal(str(value))


def card(slug="h100-sxm5-80gb", **fields):
    record = _records[slug]
    known = Card(
        slug=slug,
        name=record["name"],
        family=record["family"],
        memory_gb=record["memory_gb"],
        bf16_tflops=decimal(record["bf16_tflops"]),
        fp8_tflops=decimal(record["fp8_tflops"]),
        fp4_tflops=decimal(record["fp4_tflops"]),
        link=record["interconnect_type"],
        cards_per_node=record["max_gpus_per_node"],
        rental_class=record["rental_class"],
        domestic=record["domestic"],
        doubts="{}",
    )
    return known._replace(**fields)


def unit(slug="h100-sxm5-80gb", cards=8, of=None, **fields):
    hour, month, year = (Decimal(rate) for rate in RATES.get(slug, ("10", "5000", "50000")))
    rate = FABRICS.get(slug.partition("-")[0])
    known = Unit(
        slug=f"{slug}-{cards}x-fuzhou",
        card=of or card(slug),
        cards=cards,
        region_zh="华东南·福州",
        region_en="Fuzhou",
        quote_only=False,
        fabric="infiniband" if rate else "ethernet",
        fabric_gbps=Decimal(rate or "3.125"),
        fabric_tested=True,
        hour=hour,
        month=month,
        year=year,
        free_units=100,
    )
    return known._replace(**fields)


def units(*slugs, sizes=(1, 2, 4, 8)):
    return [unit(slug, size) for slug in slugs or RATES for size in sizes]
