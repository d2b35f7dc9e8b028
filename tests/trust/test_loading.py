"""`load_trust` adds what is missing and never writes what is there; the demonstration is marked as one."""

import json
from datetime import date

import pytest
from django.core.management import CommandError, call_command

from marketplace.local import demo_status
from tests.trust import builders
from tests.trust.builders import NOON
from trust import loading
from trust.models import Block, Incident, Maintenance, Page, Watch

pytestmark = pytest.mark.django_db


def rows():
    return list(Page.objects.order_by("pk").values()) + list(Block.objects.order_by("pk").values())


def test_a_second_load_changes_nothing():
    here = builders.region(since=None)
    first = loading.load(at=NOON)
    before = rows()

    assert loading.load(at=NOON) == []

    assert rows() == before
    assert {"page about", "page sla", "page security", "block about/since", f"region {here.code}"} <= set(first)
    assert Watch.objects.get().since == date(2026, 11, 30)


def test_what_somebody_edited_stays_and_what_is_missing_comes_back():
    loading.load(at=NOON)
    Page.objects.filter(slug="about").update(title_en="Ours")
    Block.objects.filter(key="since").update(body_en="Since ever", position=1, published=False)
    Block.objects.filter(key="capital").delete()

    assert loading.load(at=NOON) == ["block about/capital"]

    since = Block.objects.get(key="since")
    assert Page.objects.get(slug="about").title_en == "Ours"
    assert (since.body_en, since.position, since.published) == ("Since ever", 1, False)


def test_facts_name_their_source_and_templates_say_they_are():
    loading.load(at=NOON)
    assert all(block.source_zh and block.note for block in Block.objects.exclude(figure_zh=""))
    assert [page.slug for page in Page.objects.exclude(notice_zh="")] == ["security", "sla"]
    assert [block.key for block in Block.objects.filter(published=False)] == ["certificates"]


def test_the_service_level_page_writes_no_figure_of_its_own():
    """They are read from the offers."""
    sla = json.loads(loading.PAGES.read_text(encoding="utf-8"))["pages"]["sla"]
    texts = [value for block in sla["blocks"] for name, value in block.items() if name.startswith(("body", "heading"))]
    assert [text for text in texts if any(digit.isdigit() for digit in text)] == []


def test_the_command_tells_what_it_added(capsys):
    call_command("load_trust", at="2026-11-01T00:00:00+08:00")
    assert capsys.readouterr().out.startswith("pages: ")
    call_command("load_trust")
    assert capsys.readouterr().out == "pages: no change\n"
    with pytest.raises(CommandError):
        call_command("load_trust", at="2026-11-01T00:00:00")


def test_the_demonstration_is_marked_and_made_once():
    here = builders.region(is_default=True)
    assert demo_status.seed(at=NOON) is True
    assert demo_status.seed(at=NOON) is False

    incident, work = Incident.objects.get(), Maintenance.objects.get()
    assert (incident.status, list(incident.regions.all()), incident.updates.count()) == ("resolved", [here], 3)
    assert all(row.title_zh.startswith("【演示】") and row.title_en.startswith("[Demo]") for row in (incident, work))
    assert incident.ended_at < NOON < work.starts_at


def test_the_demonstration_leaves_real_incidents_alone():
    builders.region(is_default=True)
    builders.incident(start="2026-11-30 08:00")
    assert demo_status.seed(at=NOON) is False
    assert Incident.objects.count() == 1
