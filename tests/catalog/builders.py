"""Small catalogue rows for tests; import inside fixtures or tests, after Django is configured."""

from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

from catalog.models import Gpu, GpuModel, Host, Offer, Pool, Price, Region

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
_numbers = count(1)


def region(code="cn-fuzhou", **fields):
    defaults = {"name_zh": "华东南·福州", "name_en": "Fuzhou", "admin_code": "350100", "timezone": "Asia/Shanghai"}
    return Region.objects.get_or_create(code=code, defaults=defaults | fields)[0]


def gpu_model(slug="h100-sxm5-80gb", **fields):
    defaults = {
        "name": "NVIDIA H100 SXM5 80GB",
        "vendor": "NVIDIA",
        "family": "H100",
        "memory_gb": 80,
        "memory_type": "HBM3",
        "memory_bandwidth_gbps": Decimal(3350),
        "bf16_tflops": Decimal("989.4"),
        "interconnect_type": "NVLink 4",
        "interconnect_gbps": Decimal(900),
        "software_stack": "CUDA",
        "rental_class": "training",
        "aliases": ["H100"],
    }
    return GpuModel.objects.get_or_create(slug=slug, defaults=defaults | fields)[0]


def pool(model=None, place=None, **fields):
    number = next(_numbers)
    defaults = {
        "code": f"pool-{number}",
        "region": place or region(),
        "gpu_model": model or gpu_model(),
        "driver": "demo",
        "endpoint": "env:DEMO_ENGINE_URL",
        "credential_ref": "env:DEMO_ENGINE_TOKEN",
        "resource_name": "nvidia.com/gpu",
    }
    return Pool.objects.create(**(defaults | fields))


def host(of, cards=8, **fields):
    row = Host.objects.create(
        pool=of, **({"name": f"host-{next(_numbers)}", "cards_total": cards, "cards_free": cards} | fields)
    )
    Gpu.objects.bulk_create(Gpu(host=row, slot=slot, serial=f"{row.name}-{slot}") for slot in range(cards))
    return row


def offer(of=None, cards=1, rates=("22", "12000", "122400"), **fields):
    of = of or pool()
    defaults = {
        "slug": f"{of.gpu_model.slug}-{cards}x-{next(_numbers)}",
        "kind": "server" if cards == 8 else "gpu",
        "region": of.region,
        "gpu_model": of.gpu_model,
        "pool": of,
        "cards_per_unit": cards,
        "vcpus": 24 * cards,
        "memory_gb": 256 * cards,
        "disk_gb": 3840 * cards,
    }
    row = Offer.objects.create(**(defaults | fields))
    for meter, rate in zip(("card_hour", "month", "year"), rates, strict=False):
        price(row, meter, rate)
    return row


def price(of, meter="card_hour", rate="22", currency="CNY", start=datetime(2026, 1, 1, tzinfo=UTC), end=None):
    return Price.objects.create(
        offer=of, meter=meter, currency=currency, rate=Decimal(rate), valid_from=start, valid_to=end
    )
