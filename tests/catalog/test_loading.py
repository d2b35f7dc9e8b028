"""`load_catalog`: the files become rows once; people's decisions and stock stay."""

import json
import shutil
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command

from catalog import inventory, loading
from catalog.models import Gpu, GpuModel, Host, Image, Offer, Pool, Price, Region, Source

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(loading.DATA, tmp_path / "data")


def edit(folder, name, change):
    path = folder / name
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_the_files_become_rows():
    report = loading.load(at=START)

    assert Counter(change.what for change in report.changes).keys() == {"added"}
    assert (Region.objects.count(), GpuModel.objects.count(), Source.objects.count() > 30) == (9, 41, True)
    assert Offer.objects.count() == 40
    assert (
        Offer.objects.filter(
            slug__in=["rtx-4090-24gb-2x-fuzhou", "h100-sxm5-80gb-8x-fuzhou", "h100-sxm5-80gb-1x-fuzhou"]
        ).count()
        == 3
    )
    assert Price.objects.count() == 39 * 4 * 2
    assert Host.objects.count() * 8 == Gpu.objects.count() == 304
    assert set(Image.objects.values_list("software_stack", flat=True)) == {"CUDA", "CANN"}


def test_an_offer_has_its_share_of_the_machine_and_the_list_prices():
    loading.load(at=START)
    offer = Offer.objects.get(slug="h100-sxm5-80gb-2x-fuzhou")

    assert (offer.kind, offer.vcpus, offer.memory_gb, offer.disk_gb) == ("gpu", 48, 512, 7680)
    assert (offer.fabric, offer.fabric_gbps, offer.fabric_basis) == ("infiniband", Decimal(400), "DGX H100")
    assert {(p.meter, p.currency): p.rate for p in offer.prices.all()} == {
        ("card_hour", "CNY"): Decimal("22"),
        ("month", "CNY"): Decimal("12000"),
        ("year", "CNY"): Decimal("122400"),
        ("disk_gb_hour", "CNY"): Decimal("0.0003"),
        ("card_hour", "USD"): Decimal("3.30"),
        ("month", "USD"): Decimal("1802"),
        ("year", "USD"): Decimal("18378"),
        ("disk_gb_hour", "USD"): Decimal("0.00005"),
    }


def test_what_is_on_quote_has_no_stock_and_no_price():
    loading.load(at=START)
    offer = Offer.objects.get(slug="ascend-920-8x-fuzhou")

    assert (offer.quote_only, offer.pool, offer.gpu_model.name, offer.prices.count()) == (True, None, "昇腾920", 0)


def test_every_figure_that_is_not_certain_keeps_its_reason_and_null_stays_null():
    loading.load(at=START)
    ascend = GpuModel.objects.get(slug="ascend-910b3-64gb")

    assert ascend.doubt("memory_bandwidth_gbps") == "sourced for B2 only"
    assert ascend.fp8_tflops is None
    assert "昇腾910B" in ascend.aliases


def test_pools_name_their_engine_by_reference_only():
    loading.load(at=START)

    assert set(Pool.objects.values_list("driver", "endpoint", "credential_ref")) == {
        ("demo", "env:DEMO_ENGINE_URL", "env:DEMO_ENGINE_TOKEN")
    }


def test_a_second_run_changes_nothing():
    loading.load(at=START)
    before = list(Price.objects.order_by("pk").values())

    assert loading.load(at=START + timedelta(days=1)).changes == []

    assert list(Price.objects.order_by("pk").values()) == before


def test_a_changed_rate_ends_the_old_price_and_starts_the_new_one(folder):
    loading.load(at=START, folder=folder)
    at = START + timedelta(days=31)

    def dearer(prices):
        next(entry for entry in prices["proposed_list"] if entry["gpu"] == "rtx-4090-24gb")["hour_cny"] = "2.10"

    edit(folder, "prices.json", dearer)

    report = loading.load(at=at, folder=folder)

    offer = Offer.objects.get(slug="rtx-4090-24gb-2x-fuzhou")
    history = offer.prices.filter(meter="card_hour", currency="CNY").values_list("rate", "valid_from", "valid_to")
    assert list(history) == [(Decimal("1.98"), START, at), (Decimal("2.10"), at, None)]
    assert [change.key for change in report.changes if "2x-fuzhou" in change.key] == [
        "rtx-4090-24gb-2x-fuzhou card_hour CNY 1.98 → 2.10"
    ]
    assert {change.kind for change in report.changes} == {"price"}


def test_a_rate_planned_for_later_stays_and_bounds_the_new_one(folder):
    loading.load(at=START, folder=folder)
    offer = Offer.objects.get(slug="rtx-4090-24gb-1x-fuzhou")
    monthly = offer.prices.filter(meter="month", currency="CNY")
    monthly.update(valid_to=LATER)
    planned = Price.objects.create(offer=offer, meter="month", currency="CNY", rate=Decimal(2000), valid_from=LATER)

    def dearer(prices):
        next(entry for entry in prices["proposed_list"] if entry["gpu"] == "rtx-4090-24gb")["month_cny"] = "1100"

    edit(folder, "prices.json", dearer)
    at = START + timedelta(days=31)
    loading.load(at=at, folder=folder)

    assert list(monthly.order_by("valid_from").values_list("rate", "valid_from", "valid_to")) == [
        (Decimal(1010), START, at),
        (Decimal(1100), at, LATER),
        (planned.rate, LATER, None),
    ]


def test_peoples_decisions_and_stock_stay(folder):
    loading.load(at=START, folder=folder)
    Region.objects.filter(code="cn-beijing").update(has_machine_room=True)
    Offer.objects.filter(slug="l40s-48gb-1x-fuzhou").update(enabled=False)
    Pool.objects.filter(code="fuzhou-l40s-48gb").update(endpoint="https://engine.example", paused_reason="works")
    pool = Pool.objects.get(code="fuzhou-rtx-4090-24gb")
    holder = uuid4()
    inventory.claim(pool_id=pool.pk, cards_per_unit=8, holders=[holder], at=START)
    Host.objects.filter(pool__code="fuzhou-h100-sxm5-80gb").update(state="draining")
    before = list(Host.objects.order_by("pk").values())

    assert loading.load(at=START, folder=folder).changes == []

    assert list(Host.objects.order_by("pk").values()) == before
    assert Region.objects.get(code="cn-beijing").has_machine_room
    assert not Offer.objects.get(slug="l40s-48gb-1x-fuzhou").enabled


def test_a_corrected_fact_is_reported_by_field(folder):
    loading.load(at=START, folder=folder)
    edit(folder, "gpu_models.json", lambda data: data["models"][0].update(tdp_watts=701, notes="new"))

    report = loading.load(at=START, folder=folder)

    assert report.changes == [loading.Change("changed", "gpumodel", "h100-sxm5-80gb", ("tdp_watts", "notes"))]
    assert GpuModel.objects.get(slug="h100-sxm5-80gb").tdp_watts == 701


def test_the_command_reports_and_refuses_a_time_without_zone(capsys):
    call_command("load_catalog", at="2026-01-01T00:00:00+08:00")
    assert "40 offer added" in capsys.readouterr().out
    call_command("load_catalog")
    assert capsys.readouterr().out == "catalogue: no change\n"

    with pytest.raises(CommandError, match="zone"):
        call_command("load_catalog", at="2026-01-01T00:00:00")


def test_every_sentence_of_what_is_sold_has_its_chinese():
    loading.load(at=START)
    chinese = json.loads((loading.DATA / "texts.json").read_text(encoding="utf-8"))["zh"]
    sold = GpuModel.objects.filter(offers__isnull=False).distinct()
    cited = {key for model in sold for keys in model.sources.values() for key in keys}
    sentences = {reason for model in sold for reason in model.uncertain.values()}
    sentences |= {model.notes for model in sold if model.notes}
    sentences |= set(Offer.objects.exclude(fabric_basis="").values_list("fabric_basis", flat=True))
    sentences |= {text for row in Source.objects.filter(key__in=cited) for text in (row.what, row.grade)}

    assert sentences - chinese.keys() == set()
