"""The desk: operations tells of incidents, sales edits pages, and nobody else does either."""

import pytest
import time_machine
from django.contrib.admin.models import LogEntry
from django.contrib.messages import get_messages
from django.urls import reverse
from django.utils import timezone

from tests.trust import builders
from tests.trust.builders import NOON, local
from trust.models import Block, Incident, IncidentUpdate, Maintenance, Watch

pytestmark = pytest.mark.django_db

WORDS = {"body_zh": "已切换", "body_en": "Switched over"}
INLINES = {"updates-TOTAL_FORMS": "0", "updates-INITIAL_FORMS": "0"}
BLOCKS = {"blocks-TOTAL_FORMS": "0", "blocks-INITIAL_FORMS": "0"}


@pytest.fixture(autouse=True)
def now():
    with time_machine.travel(NOON, tick=False):
        yield


def add(client, model, **data):
    return client.post(reverse(f"admin:trust_{model}_add"), data)


def change(client, row, **data):
    return client.post(reverse(f"admin:trust_{row._meta.model_name}_change", args=[row.pk]), data)


def press(client, row, name, **data):
    return client.post(reverse(f"admin:trust_{row._meta.model_name}_press", args=[row.pk, name]), data)


def told(answer):
    return [str(message) for message in get_messages(answer.wsgi_request)]


def new_incident(*regions, **wrong):
    return {
        "regions": [region.pk for region in regions], "title_zh": "断电", "title_en": "Power cut", "impact": "outage",
        "started_at_0": "2026-11-30", "started_at_1": "10:00:00", "body_zh": "排查中", "body_en": "Looking",
    } | wrong  # fmt: skip


def test_operations_opens_updates_and_resolves(staff):
    ops, here, there = staff("operations"), builders.region(), builders.region()

    answer = add(ops, "incident", **new_incident(here, there))
    incident = Incident.objects.get()
    assert answer.status_code == 302
    assert (incident.status, incident.started_at, incident.ended_at) == (
        "investigating",
        local("2026-11-30 10:00"),
        None,
    )
    assert set(incident.regions.all()) == {here, there}

    answer = press(ops, incident, "tell", status="identified", **WORDS)
    assert told(answer)[-1] == "The update is on the status page."
    answer = press(ops, incident, "resolve", ended_at="2026-11-30T11:00:00", **WORDS)
    assert told(answer)[-1] == "The incident is resolved."
    incident.refresh_from_db()
    assert (incident.status, incident.ended_at) == ("resolved", local("2026-11-30 11:00"))
    assert [(one.status, one.actor, one.at) for one in incident.updates.order_by("pk")] == [
        ("investigating", ops.person, NOON), ("identified", ops.person, NOON), ("resolved", ops.person, NOON),
    ]  # fmt: skip
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")][1:] == [
        "Tell what is known now",
        "Resolve",
    ]
    page = ops.get(reverse("admin:trust_incident_change", args=[incident.pk]))
    assert page.context["desk_buttons"] == []
    assert "Switched over" in page.text


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"regions": []}, "regions"),
        ({"title_en": " "}, "title_en"),
        ({"body_en": ""}, "body_en"),
        ({"impact": "terrible"}, "impact"),
        ({"started_at_0": "2026-12-01"}, "started_at"),
        ({"started_at_0": "yesterday"}, "started_at"),
    ],
)
def test_a_bad_incident_is_refused_beside_its_field(staff, wrong, field):
    answer = add(staff("operations"), "incident", **new_incident(builders.region(), **wrong))
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [field]
    assert not Incident.objects.exists()
    assert not IncidentUpdate.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"ended_at": "2026-11-30T12:00:01"}, "ended_at"),
        ({"ended_at": "2026-11-30T08:00:00"}, "ended_at"),
        ({"ended_at": "never"}, "ended_at"),
        ({"body_zh": " "}, "body_zh"),
    ],
)
def test_a_bad_end_is_refused_beside_its_field(staff, wrong, field):
    incident = builders.incident(start="2026-11-30 08:00")
    answer = press(staff("operations"), incident, "resolve", **{"ended_at": "2026-11-30T11:00:00"} | WORDS | wrong)
    incident.refresh_from_db()
    assert list(answer.context["form"].errors) == [field]
    assert (incident.status, incident.updates.count()) == ("investigating", 1)


def test_an_update_cannot_resolve(staff):
    incident = builders.incident(start="2026-11-30 08:00")
    answer = press(staff("operations"), incident, "tell", status="resolved", **WORDS)
    incident.refresh_from_db()
    assert list(answer.context["form"].errors) == ["status"]
    assert (incident.status, incident.updates.count()) == ("investigating", 1)


def test_an_incidents_facts_are_put_right_but_not_its_status_or_end(staff):
    ops, here = staff("operations"), builders.region()
    incident = builders.incident(here, start="2026-11-30 08:00", end="2026-11-30 09:00")
    values = new_incident(here, title_en="Put right", started_at_1="08:30:00", status="monitoring") | INLINES

    assert change(ops, incident, **values, ended_at="").status_code == 302
    incident.refresh_from_db()
    assert (incident.title_en, incident.status) == ("Put right", "resolved")
    assert (incident.started_at, incident.ended_at) == (local("2026-11-30 08:30"), local("2026-11-30 09:00"))

    refused = change(ops, incident, **values | {"started_at_1": "09:00:00"})
    assert list(refused.context["adminform"].form.errors) == ["started_at"]


def test_maintenance_is_announced_changed_and_called_off(staff):
    ops, here = staff("operations"), builders.region()
    values = {
        "regions": [here.pk], "title_zh": "升级", "title_en": "Upgrade", "body_zh": "闪断", "body_en": "Short drops",
        "starts_at_0": "2026-12-05", "starts_at_1": "02:00:00", "ends_at_0": "2026-12-05", "ends_at_1": "04:00:00",
    }  # fmt: skip
    for wrong in ({"ends_at_1": "02:00:00"}, {"title_zh": ""}, {"regions": []},
                  {"starts_at_0": "2026-11-01", "ends_at_0": "2026-11-01"}):  # fmt: skip
        assert add(ops, "maintenance", **values | wrong).context["adminform"].form.errors
    assert not Maintenance.objects.exists()

    add(ops, "maintenance", **values)
    work = Maintenance.objects.get()
    assert (work.starts_at, work.announced_at, list(work.regions.all())) == (local("2026-12-05 02:00"), NOON, [here])
    change(ops, work, **values | {"ends_at_1": "05:00:00"})
    assert told(press(ops, work, "call_off"))[-1] == "The maintenance is called off."
    work.refresh_from_db()
    assert (work.ends_at, work.cancelled_at) == (local("2026-12-05 05:00"), NOON)
    assert press(ops, work, "call_off").status_code == 302
    assert Maintenance.objects.get().cancelled_at == NOON


def page_values(**fields):
    return {
        "title_zh": "标题", "title_en": "Title", "lead_zh": "导语", "lead_en": "Lead", "notice_zh": "", "notice_en": "",
    } | fields  # fmt: skip


def block_values(of, **fields):
    empty = dict.fromkeys(
        ("figure_zh", "figure_en", "unit_zh", "unit_en", "label_zh", "label_en", "source_zh", "source_en", "note"), ""
    )
    return {
        "page": of.pk, "position": 10, "published": "on", "heading_zh": "小节", "heading_en": "Section",
        "body_zh": "正文", "body_en": "Text",
    } | empty | fields  # fmt: skip


def test_sales_edits_pages_and_blocks(staff):
    sales = staff("sales")
    page = builders.page(updated_at=local("2026-01-01 00:00"))

    change(sales, page, **page_values(title_en="New title") | BLOCKS)
    page.refresh_from_db()
    assert (page.title_en, page.updated_at) == ("New title", NOON)

    type(page).objects.update(updated_at=local("2026-01-01 00:00"))
    assert add(sales, "block", **block_values(page)).status_code == 302
    block = Block.objects.get()
    page.refresh_from_db()
    assert (block.heading_en, block.key, page.updated_at) == ("Section", None, NOON)

    del (gone := block_values(page))["published"]
    change(sales, block, **gone)
    assert Block.objects.get().published is False


@pytest.mark.parametrize(
    "wrong",
    [
        {"heading_en": ""}, {"body_zh": " "}, {"source_zh": "材料"}, {"figure_zh": "10", "figure_en": "1"},
        {"position": "-1"}, {"page": "0"},
    ],
)  # fmt: skip
def test_a_block_in_one_language_or_without_its_source_is_refused(staff, wrong):
    answer = add(staff("sales"), "block", **block_values(builders.page()) | wrong)
    assert answer.status_code == 200
    assert answer.context["adminform"].form.errors
    assert not Block.objects.exists()


@pytest.mark.parametrize("wrong", [{"title_zh": ""}, {"lead_en": " "}, {"notice_en": "only English"}])
def test_a_page_in_one_language_is_refused(staff, wrong):
    page = builders.page()
    answer = change(staff("sales"), page, **page_values(**wrong) | BLOCKS)
    assert answer.context["adminform"].form.errors
    page.refresh_from_db()
    assert (page.title_zh, page.lead_en, page.notice_en) == ("标题", "Introduction", "")


def test_others_may_neither_add_nor_change_nor_press(staff):
    here = builders.region()
    incident = builders.incident(here, start="2026-11-30 08:00")
    work = builders.maintenance(here, start="2026-12-05 02:00", end="2026-12-05 04:00")
    page = builders.page()
    block = builders.block(page)
    watch = Watch.objects.get()
    clients = {group: staff(group) for group in ("operations", "sales", "finance", "auditor")}
    for client in (clients["sales"], clients["finance"], clients["auditor"]):
        assert add(client, "incident", **new_incident(here)).status_code == 403
        assert add(client, "maintenance").status_code == 403
        assert change(client, incident, title_en="x").status_code == 403
        assert change(client, watch, since="2020-01-01").status_code == 403
        assert press(client, incident, "tell", status="monitoring", **WORDS).status_code == 403
        assert press(client, incident, "resolve", ended_at="2026-11-30T11:00:00", **WORDS).status_code == 403
        assert press(client, work, "call_off").status_code == 403
    for client in (clients["operations"], clients["finance"], clients["auditor"]):
        assert change(client, page, **page_values()).status_code == 403
        assert change(client, block, **block_values(page)).status_code == 403
        assert add(client, "block", **block_values(page)).status_code == 403
    incident.refresh_from_db()
    work.refresh_from_db()
    assert (incident.status, incident.updates.count(), work.cancelled_at) == ("investigating", 1, None)
    assert (Incident.objects.count(), Block.objects.count(), LogEntry.objects.count()) == (1, 1, 0)


def test_since_when_a_region_is_recorded_is_set_by_operations(staff):
    ops, here = staff("operations"), builders.region(since=None)
    add(ops, "watch", region=here.pk, since="2026-10-01")
    watch = Watch.objects.get()
    change(ops, watch, since="2026-09-01")
    watch.refresh_from_db()
    assert (watch.region, watch.since.isoformat()) == (here, "2026-09-01")
    assert timezone.now() == NOON
