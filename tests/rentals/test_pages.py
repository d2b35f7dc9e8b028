"""The console pages of rentals."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation
from kombu.exceptions import OperationalError

from accounts.models import Membership
from marketplace.lib import clock
from rentals import actions
from rentals.models import Rental
from tests import factories
from tests.rentals.support import NOON, Shop, advance, nothing_changes

pytestmark = pytest.mark.django_db

VERBS = ("stop", "start", "terminate")


@pytest.fixture
def page(client, shop):
    """Signed in as the buyer, reading English."""
    client.force_login(shop.buyer)
    client.cookies["django_language"] = "en"
    return client


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """Pages nudge a worker after commit; what it would do is tested elsewhere."""
    messages = []
    monkeypatch.setattr("rentals.tasks.step.apply_async", lambda **message: messages.append(message["kwargs"]))
    return messages


def url(rental: Rental, name: str = "detail") -> str:
    return reverse(f"rentals:{name}", args=[rental.key])


def test_an_empty_list_leads_to_the_catalogue(page):
    answer = page.get(reverse("rentals:list"))

    assert answer.status_code == 200
    assert "No machine yet" in answer.content.decode()
    assert f'href="{reverse("catalog:list")}"' in answer.content.decode()


def test_the_list_shows_state_place_cards_cost_and_burn(page, shop, engine):
    rental = shop.running(at=clock.now() - timedelta(hours=3))

    text = page.get(reverse("rentals:list")).content.decode()

    assert rental.name in text
    assert 'data-status="running"' in text
    assert "NVIDIA GeForce RTX 4090 24GB × 2" in text
    assert "Fuzhou" in text
    assert "Demo" in text
    assert "¥5.00" in text
    assert "¥14.9" in text or "¥15.00" in text


def test_the_list_asks_the_same_number_of_questions_for_three_rentals_as_for_one(page, shop):
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as asked:
            page.get(reverse("rentals:list"))
        return len(asked)

    shop.rental()
    page.get(reverse("rentals:list"))
    with_one = count()
    shop.rental(), shop.rental(term="month")

    assert count() == with_one


def test_the_list_is_paged(page, shop, monkeypatch):
    monkeypatch.setattr("rentals.views.listing.PAGE", 2)
    names = [shop.rental(at=NOON + timedelta(minutes=n)).name for n in range(3)]

    first = page.get(reverse("rentals:list")).content.decode()
    second = page.get(reverse("rentals:list"), {"page": 2}).content.decode()

    assert [name in first for name in names] == [False, True, True]
    assert [name in second for name in names] == [True, False, False]


def test_a_running_rental_shows_login_cards_and_meter(page, shop, engine):
    rental = shop.running(at=clock.now() - timedelta(hours=1))

    text = page.get(url(rental)).content.decode()

    assert f"ssh -p {rental.ssh_port} root@127.0.0.1" in text
    assert rental.host_key_fingerprint in text
    for serial in rental.members.get().cards:
        assert serial in text
    assert "Card-hour × 2" in text
    assert "¥5.00" in text
    assert 'hx-trigger="every 15s, refresh"' in text
    assert "http-equiv" not in text
    assert "no GPU is attached" in text
    assert [f'href="{url(rental, verb)}"' in text for verb in VERBS] == [True, False, True]


def test_a_stopped_hourly_rental_no_longer_lists_cards(page, shop, engine):
    rental = shop.running()
    serials = rental.members.get().cards
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + timedelta(minutes=1))
    advance(rental, to="stopped")

    text = page.get(url(rental)).content.decode()

    assert "The cards have been released." in text
    assert not any(serial in text for serial in serials)
    assert "1 min 0 s: ¥0.08" in text
    assert "ssh -p" not in text


def test_a_moving_rental_shows_its_steps_and_looks_often(page, shop, engine):
    rental = advance(shop.rental(), to="booting")

    text = page.get(url(rental)).content.decode()

    assert 'hx-trigger="every 2s, refresh"' in text
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in text
    assert text.count('data-state="done"') == 2
    assert text.count('data-state="current"') == 1
    assert "ssh -p" not in text


def test_the_live_part_says_a_new_state_once(page, shop):
    rental = shop.rental()

    changed = page.get(url(rental, "live"), {"seen": "creating"}).content.decode()
    same = page.get(url(rental, "live"), {"seen": "reserved"}).content.decode()

    assert f'hx-swap-oob="innerHTML">{rental.name}: Reserved' in changed
    assert "hx-swap-oob" not in same
    assert "<html" not in same


def test_a_failed_rental_says_why_and_that_nothing_was_billed(page, shop, engine):
    rental = shop.rental()
    engine.faults(boot_failures=1)
    advance(rental, to="failed")

    text = page.get(url(rental)).content.decode()

    assert "The machine did not start." in text
    assert "Nothing was billed for it" in text
    assert "hx-trigger" not in text
    assert not any(f'href="{url(rental, verb)}"' in text for verb in VERBS)


def test_chinese_is_the_first_language(page, shop, engine):
    del page.cookies["django_language"]
    with translation.override("zh-hans"):
        text = page.get(url(shop.rental())).content.decode()

    assert '<html lang="zh-Hans">' in text
    assert "福州" in text


def test_each_question_says_what_it_costs_and_deletes(page, shop, engine):
    rental = shop.running()

    stop = page.get(url(rental, "stop")).content.decode()
    terminate = page.get(url(rental, "terminate")).content.decode()

    assert "only the 100 GB disk is billed: ¥0.05 per hour, ¥1.20 per day" in stop
    assert "After 15 days stopped" in stop
    assert "100 GB disk are deleted with every file on it" in terminate
    assert "In this state that is not possible" in page.get(url(rental, "start")).content.decode()


def test_the_questions_are_answered_by_a_plain_form(page, shop, engine, sent, django_capture_on_commit_callbacks):
    rental = shop.running()
    for verb, status in (("stop", "stopping"), ("start", "starting"), ("terminate", "destroying")):
        with django_capture_on_commit_callbacks(execute=True):
            answer = page.post(url(rental, verb))
        assert (answer.status_code, answer["Location"]) == (302, url(rental))
        rental.refresh_from_db()
        assert rental.status == status
        assert rental.events.get(kind="wish", what=verb).actor == shop.buyer
        if verb == "stop":
            advance(rental, to="stopped")
    assert sent == [{"rental_id": rental.pk}] * 3


def test_a_refusal_is_shown_on_the_question_and_changes_nothing(page, shop, engine):
    rental = shop.running()
    actions.request_stop(rental_id=rental.pk, actor=shop.buyer, at=rental.metered_from + timedelta(minutes=1))
    advance(rental, to="stopped")
    line = shop.organization.credit_line
    line.refresh_from_db()
    line.available_minor = 0
    line.save()

    with nothing_changes(rental):
        answer = page.post(url(rental, "start"))

    assert answer.status_code == 409
    assert "The credit of your organization is used up." in answer.content.decode()
    assert "Pay the open invoices" in answer.content.decode()


@pytest.mark.parametrize("role", [Membership.Role.FINANCE, Membership.Role.VIEWER])
def test_those_who_only_look_cannot_operate(client, shop, engine, role):
    rental = shop.running()
    client.force_login(factories.member(shop.organization, role))

    assert client.get(url(rental)).status_code == 200
    assert url(rental, "stop") not in client.get(url(rental)).content.decode()
    for verb in VERBS:
        with nothing_changes(rental):
            assert client.get(url(rental, verb)).status_code == 403
            assert client.post(url(rental, verb)).status_code == 403


def test_another_organizations_rental_is_not_found(client, shop):
    rental, stranger = shop.rental(), Shop()
    client.force_login(stranger.buyer)

    for name in ("detail", "live", *VERBS):
        assert client.get(url(rental, name)).status_code == 404
    for verb in VERBS:
        with nothing_changes(rental):
            assert client.post(url(rental, verb)).status_code == 404
    assert rental.name not in client.get(reverse("rentals:list")).content.decode()


def test_visitors_are_asked_to_sign_in(client, shop):
    rental = shop.rental()

    for name in ("detail", "live", *VERBS):
        assert client.get(url(rental, name)).status_code == 302


def test_a_lost_nudge_costs_the_page_nothing(page, shop, engine, monkeypatch, django_capture_on_commit_callbacks):
    def refuse(**_message):
        raise OperationalError

    monkeypatch.setattr("rentals.tasks.step.apply_async", refuse)
    rental = shop.running()
    with django_capture_on_commit_callbacks(execute=True):
        answer = page.post(url(rental, "stop"))

    assert answer.status_code == 302
    rental.refresh_from_db()
    assert rental.status == "stopping"
