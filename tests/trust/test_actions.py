"""An incident from its opening to its end, maintenance called off; what is refused leaves nothing."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, InternalError, connection, transaction

from tests import factories
from tests.trust import builders
from tests.trust.builders import NOON, local
from trust import actions
from trust.actions import IncidentRefused, MaintenanceRefused
from trust.models import Incident, IncidentUpdate, Maintenance

pytestmark = pytest.mark.django_db

WORDS = {"body_zh": "已切换", "body_en": "Switched over"}
NEW = {"title_zh": "断电", "title_en": "Power cut", "impact": "outage", "body_zh": "排查中", "body_en": "Looking"}


def story(incident):
    return [(one.status, one.body_en, one.at) for one in incident.updates.order_by("pk")]


def test_an_incident_lives_from_opening_to_resolution():
    person, here = factories.user(), builders.region()
    incident = actions.open_incident(regions=[here], started_at=local("2026-11-30 10:00"), actor=person, at=NOON, **NEW)
    actions.update_incident(
        incident_id=incident.pk, status="identified", actor=person, at=NOON + timedelta(minutes=1), **WORDS
    )
    actions.update_incident(
        incident_id=incident.pk, status="identified", actor=person, at=NOON + timedelta(minutes=2),
        body_zh="仍在处理", body_en="Still at it",
    )  # fmt: skip
    done = actions.resolve_incident(
        incident_id=incident.pk, ended_at=NOON, actor=person, at=NOON + timedelta(minutes=3),
        body_zh="已恢复", body_en="Back",
    )  # fmt: skip

    assert (done.status, done.ended_at, list(done.regions.all())) == ("resolved", NOON, [here])
    assert story(incident) == [
        ("investigating", "Looking", NOON),
        ("identified", "Switched over", NOON + timedelta(minutes=1)),
        ("identified", "Still at it", NOON + timedelta(minutes=2)),
        ("resolved", "Back", NOON + timedelta(minutes=3)),
    ]
    assert {one.actor for one in incident.updates.all()} == {person}


@pytest.mark.parametrize(
    ("wrong", "code", "field"),
    [
        ({"regions": []}, "no_region", "regions"),
        ({"started_at": NOON + timedelta(seconds=1)}, "future", "started_at"),
        ({"title_en": " "}, "language_missing", "title_en"),
        ({"body_zh": ""}, "language_missing", "body_zh"),
    ],
)
def test_an_opening_that_lacks_something_leaves_nothing(wrong, code, field):
    values = {"regions": [builders.region()], "started_at": NOON} | NEW | wrong
    with pytest.raises(IncidentRefused) as refused:
        actions.open_incident(**values, actor=None, at=NOON)
    assert (refused.value.code, refused.value.field) == (code, field)
    assert not Incident.objects.exists()
    assert not IncidentUpdate.objects.exists()


def test_a_resolved_incident_takes_no_more():
    incident = builders.incident(start="2026-11-30 08:00", end="2026-11-30 09:00")
    before = story(incident)
    with pytest.raises(IncidentRefused) as update:
        actions.update_incident(incident_id=incident.pk, status="monitoring", actor=None, at=NOON, **WORDS)
    with pytest.raises(IncidentRefused) as again:
        actions.resolve_incident(incident_id=incident.pk, ended_at=NOON, actor=None, at=NOON, **WORDS)
    incident.refresh_from_db()
    assert (update.value.code, again.value.code) == ("resolved", "resolved")
    assert (incident.status, incident.ended_at, story(incident)) == ("resolved", local("2026-11-30 09:00"), before)


@pytest.mark.parametrize(
    ("ended_at", "words", "code"),
    [
        (NOON + timedelta(seconds=1), WORDS, "future"),
        (local("2026-11-30 08:00"), WORDS, "before_start"),
        (NOON, WORDS | {"body_en": " "}, "language_missing"),
    ],
)
def test_an_end_that_cannot_be_leaves_the_incident_open(ended_at, words, code):
    incident = builders.incident(start="2026-11-30 08:00")
    with pytest.raises(IncidentRefused) as refused:
        actions.resolve_incident(incident_id=incident.pk, ended_at=ended_at, actor=None, at=NOON, **words)
    incident.refresh_from_db()
    assert refused.value.code == code
    assert (incident.status, incident.ended_at, len(story(incident))) == ("investigating", None, 1)


def test_resolving_takes_an_end():
    incident = builders.incident(start="2026-11-30 08:00")
    with pytest.raises(IncidentRefused) as refused:
        actions.update_incident(incident_id=incident.pk, status="resolved", actor=None, at=NOON, **WORDS)
    assert refused.value.code == "needs_end"
    assert len(story(incident)) == 1


def test_maintenance_is_called_off_once_and_before_it_is_over():
    work = builders.maintenance(start="2026-11-30 13:00", end="2026-11-30 14:00")
    assert actions.cancel_maintenance(maintenance_id=work.pk, at=NOON).cancelled_at == NOON
    with pytest.raises(MaintenanceRefused) as twice:
        actions.cancel_maintenance(maintenance_id=work.pk, at=NOON + timedelta(minutes=1))
    past = builders.maintenance(start="2026-11-30 10:00", end="2026-11-30 12:00")
    with pytest.raises(MaintenanceRefused) as late:
        actions.cancel_maintenance(maintenance_id=past.pk, at=NOON)
    work.refresh_from_db()
    past.refresh_from_db()
    assert (twice.value.code, late.value.code) == ("cancelled", "over")
    assert (work.cancelled_at, past.cancelled_at) == (NOON, None)


# --- the database holds it too ---------------------------------------------------------------------------------------
def refused(change):
    with pytest.raises((IntegrityError, InternalError)) as caught, transaction.atomic():
        change()
    return str(caught.value)


def test_the_database_refuses_what_cannot_be():
    open_one = Incident.objects.filter(pk=builders.incident(start="2026-11-30 08:00").pk)
    done = Incident.objects.filter(pk=builders.incident(start="2026-11-30 08:00", end="2026-11-30 09:00").pk)
    work = Maintenance.objects.filter(pk=builders.maintenance(start="2026-12-01 08:00", end="2026-12-01 09:00").pk)
    page = builders.page()
    block = builders.block(page)
    blocks = type(block).objects.filter(pk=block.pk)
    for change, name in (
        (lambda: open_one.update(status="resolved"), "incident_ended_when_resolved"),
        (lambda: open_one.update(ended_at=NOON), "incident_ended_when_resolved"),
        (lambda: done.update(ended_at=local("2026-11-30 08:00")), "incident_ends_after_start"),
        (lambda: done.update(status="monitoring", ended_at=None), "Invalid transition"),
        (lambda: open_one.update(title_en=""), "incident_in_both_languages"),
        (lambda: work.update(ends_at=local("2026-12-01 08:00")), "maintenance_ends_after_start"),
        (lambda: work.update(body_zh=""), "maintenance_in_both_languages"),
        (lambda: type(page).objects.update(title_zh=""), "page_in_both_languages"),
        (lambda: type(page).objects.update(notice_zh="x"), "page_notice_in_both_languages"),
        (lambda: blocks.update(body_en=""), "block_in_both_languages"),
        (lambda: blocks.update(source_en="x"), "block_options_in_both_languages"),
        (lambda: blocks.update(figure_zh="1", figure_en="1"), "block_figure_is_named_and_sourced"),
    ):
        assert name in refused(change), name


def test_every_change_is_kept_whoever_made_it():
    page = builders.page()
    type(page).objects.update(title_en="Changed by hand")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pgh_label, title_en FROM trust_pageevent ORDER BY pgh_id")
        assert cursor.fetchall() == [("insert", "Title"), ("update", "Changed by hand")]
