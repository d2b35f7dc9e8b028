"""What a rental's page says of its cards and its auto-stop rules, and the forms that set them."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.urls import reverse

from accounts.models import Membership
from marketplace.lib import clock
from rentals import actions, utilisation
from rentals.models import AutoStopRule
from tests import factories
from tests.rentals.support import NOON, Shop, advance, in_shell, nothing_changes

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client, shop):
    """Signed in as the buyer, reading English."""
    client.force_login(shop.buyer)
    client.cookies["django_language"] = "en"
    return client


@pytest.fixture
def running(shop, engine):
    return shop.running(at=clock.now() - timedelta(hours=1))


def url(rental, name="detail") -> str:
    return reverse(f"rentals:{name}", args=[rental.key])


def text(page, rental, name="detail") -> str:
    answer = page.get(url(rental, name))
    assert answer.status_code == 200
    return answer.text


def post(page, rental, **fields):
    return page.post(url(rental, "auto_stop"), fields)


# --- utilisation -----------------------------------------------------------------------------------------------------


def test_the_panel_shows_each_card_and_how_old_the_reading_is(page, shop, running):
    at = clock.now().replace(microsecond=0)
    with in_shell(running, shop.private_key):
        utilisation.sample_utilisation(at=at)

    with time_machine.travel(at + timedelta(seconds=23), tick=False):
        shown = text(page, running)

    assert "busy, mean of 2 cards; read 23 s ago" in shown
    for serial in running.members.get().cards:
        assert shown.count(f"<code>{serial}</code></th>") == 1
    assert shown.count('max="100" value="25.00"') == 2
    assert len(re.findall(r"2,048 / <span[^>]*>24,576&nbsp;<span[^>]*>MiB<", shown)) == 2
    assert "Temperature" not in shown
    assert "Demonstration: no card is measured." in shown


def test_the_last_hour_is_drawn_from_its_table_and_a_minute_without_reading_is_a_gap(page, shop, running):
    at = datetime(2026, 12, 1, 10, 30, 20, tzinfo=UTC)
    for minutes in (5, 3):
        utilisation.sample_utilisation(at=at - timedelta(minutes=minutes))

    with time_machine.travel(at, tick=False):
        shown = text(page, running)

    assert "The last hour, up to 18:30" in shown
    rows = shown.partition('data-chart="line"')[2].partition("</table>")[0]
    assert rows.count("<tr>") == 1 + 6  # the head, and the minutes since the first reading
    assert '<th scope="row">18:27</th><td class="number" data-value="0.00">0&nbsp;%</td>' in rows
    assert '<th scope="row">18:26</th><td class="number" data-value="">—</td>' in rows


def test_silence_is_said_and_no_figure_is_shown(page, shop, running, engine):
    at = clock.now()
    engine.faults(exporter_down=True)
    utilisation.sample_utilisation(at=at - timedelta(minutes=5))
    assert "No reading yet." in text(page, running, "utilisation")
    engine.heal()
    utilisation.sample_utilisation(at=at - timedelta(minutes=4))

    shown = text(page, running, "utilisation")

    assert "The exporter does not answer at the moment. That does not count as idle." in shown
    assert "&nbsp;%" not in shown
    assert "<html" not in shown


def test_a_machine_that_does_not_run_shows_no_figure(page, shop, running):
    utilisation.sample_utilisation(at=clock.now())
    actions.request_stop(rental_id=running.pk, actor=None, at=clock.now())
    advance(running, to="stopped")

    assert "Shown while the machine runs." in text(page, running, "utilisation")


# --- auto-stop -------------------------------------------------------------------------------------------------------


def test_the_forms_set_rules_in_the_organizations_zone_and_currency(page, shop, running):
    answers = [
        post(page, running, kind="idle", minutes="30", threshold_percent="5"),
        post(page, running, kind="at_time", stop_at="2027-01-01T09:30"),
        post(page, running, kind="at_spend", amount="120.5"),
    ]

    assert {(answer.status_code, answer["Location"]) for answer in answers} == {(302, url(running) + "#auto-stop")}
    idle, at_time, at_spend = AutoStopRule.objects.order_by("pk")
    assert (idle.minutes, idle.threshold_percent, idle.created_by) == (30, 5, shop.buyer)
    assert at_time.stop_at == datetime(2027, 1, 1, 1, 30, tzinfo=UTC)
    assert (at_spend.amount_minor, at_spend.currency) == (12_050, "CNY")
    shown = text(page, running)
    assert "The auto-stop rule is in force." in shown
    assert "Every card below 5 % for 30 minutes" in shown
    assert ">2027-01-01 09:30</time>" in shown
    assert 'value="2027-01-01T09:30"' in shown
    assert "¥120.50" in shown
    assert 'value="120.5' in shown


@pytest.mark.parametrize(
    ("fields", "status", "near", "said"),
    [
        ({"kind": "idle", "minutes": "0", "threshold_percent": "5"}, 422, "idle-minutes", "greater than or equal to 1"),
        ({"kind": "idle", "minutes": "x", "threshold_percent": "5"}, 422, "idle-minutes", "whole number"),
        ({"kind": "idle", "minutes": "30"}, 422, "idle-threshold_percent", "required"),
        ({"kind": "at_time", "stop_at": "2020-01-01T00:00"}, 409, "at_time-stop_at", "Choose a time to come."),
        ({"kind": "at_time", "stop_at": "0001-01-01T00:00"}, 422, "at_time-stop_at", "valid date/time"),
        ({"kind": "at_time", "stop_at": "9999-12-31T23:59"}, 422, "at_time-stop_at", "valid date/time"),
        ({"kind": "at_time", "stop_at": "soon"}, 422, "at_time-stop_at", "valid date/time"),
        ({"kind": "at_spend", "amount": "1.001"}, 422, "at_spend-amount", "2 decimal places"),
        ({"kind": "at_spend", "amount": "0.01"}, 409, "at_spend-amount", "It has cost ¥5.00 already."),
        ({"kind": "at_spend", "amount": "NaN"}, 422, "at_spend-amount", "Enter a number"),
    ],
)
def test_a_wrong_figure_is_told_beside_its_field_and_changes_nothing(page, running, fields, status, near, said):
    with nothing_changes(running):
        answer = post(page, running, **fields)

    assert answer.status_code == status
    error = answer.text.partition(f'id="{near}_error"')[2].partition("</ul>")[0]
    assert said in error
    assert f'value="{list(fields.values())[1]}"' in answer.text
    assert not AutoStopRule.objects.exists()


def test_a_time_that_the_clocks_skip_is_refused(client, engine):
    shop = Shop(zone="Europe/Berlin")
    client.force_login(shop.buyer)
    rental = shop.rental()

    assert post(client, rental, kind="at_time", stop_at="2027-03-28T02:30").status_code == 422
    assert post(client, rental, kind="at_time", stop_at="2027-03-28T03:30").status_code == 302
    assert AutoStopRule.objects.get().stop_at == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)


def test_a_rule_can_be_removed(page, shop, running):
    post(page, running, kind="idle", minutes="30", threshold_percent="5")

    answer = page.post(url(running, "auto_stop_remove"), {"kind": "idle"})

    assert (answer.status_code, answer["Location"]) == (302, url(running) + "#auto-stop")
    assert AutoStopRule.objects.get().note == "removed"
    assert "The auto-stop rule was removed." in text(page, running)


@pytest.mark.parametrize(("name", "status"), [("auto_stop", 400), ("auto_stop_remove", 404)])
def test_no_such_kind_is_refused_and_looking_is_not_allowed(page, running, name, status):
    with nothing_changes(running):
        assert page.post(url(running, name), {"kind": "never"}).status_code == status
    assert page.get(url(running, name)).status_code == 405


def test_a_rule_that_fired_is_told_with_the_machine_it_stopped(page, shop, running):
    at = clock.now()
    actions.set_auto_stop(rental_id=running.pk, kind="at_time", actor=None, at=NOON, stop_at=at - timedelta(minutes=1))
    actions.enforce_auto_stop(at=at)

    shown = text(page, running)

    assert "Stopped by rule: the time that was set has come" in shown.partition("rental__timeline")[0]
    assert "It stopped the machine" in shown.partition('id="auto-stop"')[2]


def test_a_term_is_told_that_a_rule_saves_nothing(page, shop):
    rental = shop.rental(term="month")

    shown = text(page, rental)
    assert "it keeps its cards and its price, so a rule saves nothing" in shown
    assert 'name="kind"' not in shown
    with nothing_changes(rental):
        assert post(page, rental, kind="idle", minutes="30", threshold_percent="5").status_code == 409


@pytest.mark.parametrize("role", [Membership.Role.FINANCE, Membership.Role.VIEWER])
def test_those_who_only_look_see_rules_and_set_none(client, shop, running, role):
    actions.set_auto_stop(rental_id=running.pk, kind="idle", actor=None, at=NOON, minutes=30, threshold_percent=5)
    client.force_login(factories.member(shop.organization, role))
    client.cookies["django_language"] = "en"

    shown = text(client, running)
    assert "Every card below 5 % for 30 minutes" in shown
    assert 'name="kind"' not in shown
    with nothing_changes(running):
        assert post(client, running, kind="idle", minutes="1", threshold_percent="5").status_code == 403
        assert client.post(url(running, "auto_stop_remove"), {"kind": "idle"}).status_code == 403


def test_another_organizations_rules_are_not_found(client, running):
    client.force_login(Shop().buyer)

    with nothing_changes(running):
        assert post(client, running, kind="idle", minutes="1", threshold_percent="5").status_code == 404
        assert client.post(url(running, "auto_stop_remove"), {"kind": "idle"}).status_code == 404
        assert client.get(url(running, "utilisation")).status_code == 404


def test_the_desk_lists_the_rules_of_a_rental(client, shop, running):
    actions.set_auto_stop(rental_id=running.pk, kind="idle", actor=shop.buyer, at=NOON, minutes=30, threshold_percent=5)
    stop_at = datetime(2027, 1, 1, 1, 30, tzinfo=UTC)
    actions.set_auto_stop(rental_id=running.pk, kind="at_time", actor=None, at=NOON, stop_at=stop_at)
    actions.set_auto_stop(rental_id=running.pk, kind="at_spend", actor=None, at=NOON, amount_minor=12_050)
    actions.remove_auto_stop(rental_id=running.pk, kind="at_spend", actor=None, at=NOON)
    client.force_login(factories.user(is_staff=True, is_superuser=True))
    client.cookies["django_language"] = "en"

    shown = client.get(reverse("admin:rentals_rental_change", args=[running.pk])).text

    for words in ("below 5 % for 30 min", "2027-01-01 09:30", "¥120.50", "In force", "Removed"):
        assert words in shown
