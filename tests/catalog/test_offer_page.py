"""The page of one offer: every figure with its source, what was measured and promised, prices and their history."""

import json
import re
from datetime import UTC, date, datetime, timedelta

import pytest
from django.urls import reverse
from django.utils import timezone, translation

from catalog import loading, waitlist
from catalog.models import DeliveryRecord, Gpu, Host, Offer, Question, Region, Waitlist
from marketplace.lib import clock
from orders import actions as orders
from orders.models import Subscription
from tests import factories
from tests.catalog import builders
from tests.factories import NOON

BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture(autouse=True)
def english(client):
    client.cookies["django_language"] = "en"
    with translation.override("en"):
        yield


def shown(client, offer, query="", status=200):
    response = client.get(reverse("catalog:offer", args=[getattr(offer, "slug", offer)]) + query)
    assert response.status_code == status
    return response.content.decode()


def text(html):
    """What is read, without markup."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html.replace("&nbsp;", " ").replace("\xa0", " ")))


@pytest.fixture
def member(client):
    user = factories.user()
    organization = factories.organization(user)
    client.force_login(user, backend=BACKEND)
    return organization


@pytest.fixture
def sold_out():
    pool = factories.pool()
    offer = factories.offer(pool, cards=2)
    Host.objects.update(cards_free=0)
    Gpu.objects.update(healthy=False)
    return offer


# --- cost ------------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
@pytest.mark.parametrize("rows", [20, 200])
def test_the_page_costs_three_statements_whatever_the_catalogue_has(client, django_assert_num_queries, rows):
    pool = builders.pool(builders.gpu_model(sources={"memory_gb": ["ML"]}))
    builders.host(pool)
    offers = [builders.offer(pool) for _ in range(rows)]
    with django_assert_num_queries(3):
        shown(client, offers[0])
    with django_assert_num_queries(1):
        shown(client, offers[0])


@pytest.mark.django_db
def test_what_changes_shows_in_the_next_answer(client):
    offer = builders.offer(builders.pool())
    assert "Sold out" in shown(client, offer)
    builders.host(offer.pool)
    assert "8 cards" in shown(client, offer)
    Question.objects.create(question_zh="问", question_en="Why?", answer_zh="答", answer_en="Because.")
    assert "Because." in shown(client, offer)
    Region.objects.update(data_stays_en="In a cave.")
    assert "In a cave." in shown(client, offer)
    measured(offer, delivered=1, median_seconds=47, p90_seconds=59)
    assert "47 s" in shown(client, offer)


# --- figures ---------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_every_figure_names_its_source_and_the_uncertain_ones_their_reason(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    html = shown(client, "ascend-910b3-64gb-8x-fuzhou")

    figures = re.findall(r'<div class="specs__item"><dt>(.*?)</dt><dd>(.*?)</dd></div>', html)
    measured_rows = {"Machines delivered"}
    without = [
        name for name, value in figures if "—" not in value and "#source-" not in value and name not in measured_rows
    ]
    assert without == []
    numbers = set(re.findall(r'href="#source-(\d+)"', html))
    assert numbers == set(re.findall(r'id="source-(\d+)"', html))
    bandwidth = dict(figures)["Memory bandwidth"]
    assert "sourced for B2 only" in bandwidth
    assert "Our configuration of this offer" in html


@pytest.mark.django_db
def test_a_network_that_nobody_tested_says_so_and_a_test_is_named_with_its_date(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    offer = Offer.objects.get(slug="h100-sxm5-80gb-8x-fuzhou")
    html = text(shown(client, offer))
    assert "Not tested yet" in html
    assert "Design value (DGX H100); no acceptance test is recorded yet." in html

    Offer.objects.filter(pk=offer.pk).update(
        fabric_tested_on=date(2026, 11, 20), fabric_report="https://example.com/reports/7.pdf"
    )
    html = shown(client, offer)
    assert "Not tested yet" not in html
    assert "Acceptance test of 2026-11-20." in text(html)
    assert 'href="https://example.com/reports/7.pdf"' in html

    Offer.objects.filter(pk=offer.pk).update(fabric_report="javascript:alert(1)")
    html = shown(client, offer)
    assert 'href="javascript' not in html
    assert "javascript:alert(1)" in html


# --- measured and promised -------------------------------------------------------------------------------------------
def measured(offer, **figures):
    at = clock.now()
    known = {"delivered": 0, "failed": 0, "faults": 0, "answered": 0} | figures
    return DeliveryRecord.objects.create(
        pool=offer.pool, measured_on=at.date(), measured_at=at, since=at - timedelta(days=90), **known
    )


@pytest.mark.django_db
def test_delivery_is_what_was_measured_and_never_invented(client):
    offer = builders.offer(builders.pool(), response_minutes=30)
    html = text(shown(client, offer))
    assert "No orders measured yet." in html
    assert "From confirmed order" not in html
    assert "30 min" in html

    record = measured(offer, delivered=24, failed=1, median_seconds=42, p90_seconds=75, faults=2)
    html = text(shown(client, offer))
    assert "From confirmed order to verified login 42 s median" in html
    assert "Nine out of ten within 1 min 15 s" in html
    assert "Machines delivered 24" in html
    assert "none answered yet" in html
    assert "These are demonstration machines without GPUs." in html

    DeliveryRecord.objects.filter(pk=record.pk).update(answered=1, median_answer_seconds=300)
    assert "From fault to first answer 5 min 0 s median" in text(shown(client, offer))


@pytest.mark.django_db
def test_only_the_newest_record_of_the_own_pool_counts(client):
    offer, other = builders.offer(builders.pool()), builders.offer(builders.pool())
    measured(other, delivered=1, median_seconds=11, p90_seconds=11)
    old = measured(offer, delivered=1, median_seconds=22, p90_seconds=22)
    DeliveryRecord.objects.filter(pk=old.pk).update(measured_on=date(2026, 1, 1))
    measured(offer, delivered=2, median_seconds=33, p90_seconds=33)
    html = text(shown(client, offer))
    assert ("33 s" in html, "22 s" in html, "11 s" in html) == (True, False, False)


# --- prices ----------------------------------------------------------------------------------------------------------
def rows_of_history(html):
    table = re.search(r'<table[^>]*data-chart="line".*?</table>', html, re.DOTALL)[0]
    rows = re.findall(r"<tr data-x.*?</tr>", table, re.DOTALL)
    return [re.findall(r'<td class="number"(?: data-value="([\d.]+)")?>', row) for row in rows]


@pytest.mark.django_db
def test_the_history_has_a_row_for_every_change_and_none_for_what_is_planned(client):
    now = timezone.now()
    days = [now - timedelta(days=n) for n in (90, 60, 30)]
    offer = builders.offer(builders.pool(), rates=())
    builders.price(offer, "card_hour", "24", start=days[0], end=days[1])
    builders.price(offer, "card_hour", "22", start=days[1])
    builders.price(offer, "month", "12000", start=days[0], end=days[2])
    builders.price(offer, "year", "100", start=now + timedelta(days=1))
    builders.price(offer, "card_hour", "3.3", currency="USD", start=days[0])

    html = shown(client, offer)

    assert rows_of_history(html) == [["24.00", "16.44"], ["22.00", "16.44"], ["22.00", ""]]
    assert "2 changes of price." in text(html)
    assert "data-until-now" in html
    assert rows_of_history(shown(client, offer)) == rows_of_history(html)


@pytest.mark.django_db
def test_the_page_says_the_same_to_machines_in_the_currency_it_shows(client):
    offer = builders.offer(builders.pool(), cards=2)
    builders.price(offer, "card_hour", "3.305", currency="USD")
    Offer.objects.filter(pk=offer.pk).update(region=builders.region("cn-x", name_en="</script><b>&"))

    def data(html):
        return json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', html, re.DOTALL)[1])

    product = data(shown(client, offer))
    assert (product["@type"], product["sku"]) == ("Product", offer.slug)
    assert product["name"].endswith("</script><b>&")
    assert product["url"] == "http://testserver" + reverse("catalog:offer", args=[offer.slug])
    assert [(one["price"], one["priceCurrency"], one["availability"]) for one in product["offers"]] == [
        ("44.00", "CNY", "https://schema.org/SoldOut"),
        ("24000.00", "CNY", "https://schema.org/SoldOut"),
        ("244800.00", "CNY", "https://schema.org/SoldOut"),
    ]
    builders.host(offer.pool)
    client.cookies["currency"] = "USD"
    (only,) = data(shown(client, offer))["offers"]
    assert (only["price"], only["availability"]) == ("6.61", "https://schema.org/InStock")


@pytest.mark.django_db
def test_what_has_no_price_is_no_offer_to_machines(client):
    loading.load(at=timezone.now() - timedelta(days=1))
    assert '"offers"' not in shown(client, "ascend-920-8x-fuzhou")


# --- words -----------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_questions_are_of_the_offer_then_of_the_card_then_general(client):
    offer, other = builders.offer(builders.pool()), builders.offer(builders.pool(builders.gpu_model("l40s-48gb")))

    def ask(name, **about):
        Question.objects.create(
            question_zh=f"{name}？", question_en=f"{name}?", answer_zh="甲\n\n乙", answer_en="One <b>.\n\nTwo.", **about
        )

    ask("general", position=1)
    ask("of the card", gpu_model=offer.gpu_model)
    ask("of the offer", offer=offer)
    ask("of another card", gpu_model=other.gpu_model)
    ask("of another offer", offer=other)
    ask("hidden", published=False)

    html = shown(client, offer)

    asked = re.findall(r"<summary>([^<]*)\?</summary>", html)
    assert asked == ["of the offer", "of the card", "general"]
    assert "<p>One &lt;b&gt;.</p><p>Two.</p>" in html


@pytest.mark.django_db
def test_the_region_says_where_data_stays(client):
    offer = builders.offer(builders.pool())
    assert "Nothing is stated for this region yet." in text(shown(client, offer))
    Region.objects.update(
        crossing="kept", data_stays_en="In Fuzhou.", crossing_en="We send nothing.", data_stays_zh="在福州。"
    )
    html = text(shown(client, offer))
    assert "In Fuzhou." in html
    assert "Stays in mainland China" in html
    assert "We send nothing." in html


@pytest.mark.django_db
def test_other_models_of_similar_memory_are_named_after_the_own_ones(client):
    h100 = builders.pool()
    offer = builders.offer(h100, 2)
    own = builders.offer(h100, 4)
    a100 = builders.offer(builders.pool(builders.gpu_model("a100", name="NVIDIA A100", memory_gb=80)), 2)
    builders.offer(builders.pool(builders.gpu_model("h20", name="NVIDIA H20", memory_gb=96)), 1)  # other size
    h20 = builders.offer(builders.pool(builders.gpu_model("h20")), 2)
    far = builders.offer(builders.pool(builders.gpu_model("h200", name="NVIDIA H200", memory_gb=141)), 2)

    html = shown(client, offer)

    own_part, similar_part = html.split("Other cards of similar memory", 1)
    assert own.slug in own_part
    assert [slug for slug in (a100.slug, h20.slug, far.slug) if slug in similar_part] == [a100.slug, h20.slug]
    assert similar_part.index(a100.slug) < similar_part.index(h20.slug)
    assert offer.slug + "/waitlist" not in own_part.split("Other sizes")[-1]


# --- the waitlist ----------------------------------------------------------------------------------------------------
def join_address(offer):
    return reverse("catalog:waitlist_join", args=[offer.slug])


@pytest.mark.django_db
def test_a_sold_out_offer_says_when_the_first_term_ends_and_costs_no_statement_more(client, django_assert_num_queries):
    offer = factories.offer(cards=8)
    organization = factories.organization()
    half = factories.offer(offer.pool, cards=4)
    for year in (2127, 2126):
        made = factories.order(organization, half, term="month")
        orders.confirm(order_id=made.pk, at=NOON)
        Subscription.objects.filter(order_line__order=made).update(
            started_at=NOON, ends_at=datetime(year, 1, 31, tzinfo=UTC)
        )

    with django_assert_num_queries(3):
        html = text(shown(client, offer))

    assert "The first running term ends on 2126-01-31" in html


@pytest.mark.django_db
def test_a_visitor_is_led_to_the_login_and_back(client, sold_out):
    assert f'href="{join_address(sold_out)}"' in shown(client, sold_out)
    for method in (client.get, client.post):
        answer = method(join_address(sold_out))
        assert answer.status_code == 302
        assert answer.url == f"{reverse('account_login')}?next={join_address(sold_out)}"


@pytest.mark.django_db
def test_a_member_joins_sees_the_place_and_leaves(client, member, sold_out):
    assert client.get(join_address(sold_out)).status_code == 200
    for _click in range(2):
        answer = client.post(join_address(sold_out), {"units": "2"})
        assert (answer.status_code, answer.url) == (302, reverse("catalog:offer", args=[sold_out.slug]))
    entry = Waitlist.objects.get()
    assert (entry.organization, entry.units, entry.user) == (member, 2, member.memberships.get().user)
    html = shown(client, sold_out)
    assert "You are waiting for 2 units." in html
    assert "Yours is the first entry." in html
    assert join_address(sold_out) not in html

    leave = reverse("catalog:waitlist_leave", args=[entry.key])
    for _click in range(2):
        assert client.post(leave).status_code == 302
    entry.refresh_from_db()
    assert entry.left_at is not None
    assert "You are waiting" not in shown(client, sold_out)


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "may"), [("engineer", True), ("admin", True), ("finance", False), ("viewer", False)])
def test_who_may_not_order_may_not_wait_either(client, member, sold_out, role, may):
    waiting = waitlist.join(
        offer=sold_out, organization=member, user=member.memberships.get().user, units=3, at=clock.now()
    )
    client.force_login(factories.member(member, role), backend="django.contrib.auth.backends.ModelBackend")

    html = shown(client, sold_out)
    answers = [
        client.get(join_address(sold_out)),
        client.post(join_address(sold_out), {"units": "1"}),
        client.post(reverse("catalog:waitlist_leave", args=[waiting.key])),
    ]

    assert "You are waiting for 3 units." in html
    assert ("Your role may not join the waitlist" in html) is not may
    assert ("Leave the waitlist" in html) is may
    assert [answer.status_code for answer in answers] == ([200, 302, 302] if may else [403] * 3)
    waiting.refresh_from_db()
    assert (waiting.units, waiting.left_at is None) == ((1, False) if may else (3, True))


@pytest.mark.django_db
@pytest.mark.parametrize("units", ["", "0", "-1", "1.5", "101", "x", "１" * 40])
def test_a_number_of_units_that_makes_no_sense_changes_nothing(client, member, sold_out, units):
    answer = client.post(join_address(sold_out), {"units": units})
    assert answer.status_code == 422
    assert "field__errors" in answer.text
    assert not Waitlist.objects.exists()


@pytest.mark.django_db
def test_what_became_free_meanwhile_is_ordered_not_waited_for(client, member, sold_out):
    Gpu.objects.update(healthy=True)
    Host.objects.update(cards_free=8)
    answer = client.post(join_address(sold_out), {"units": "1"})
    assert answer.status_code == 409
    assert "As many units are free right now." in answer.text
    assert reverse("orders:new", args=[sold_out.slug]) in answer.text
    assert not Waitlist.objects.exists()


@pytest.mark.django_db
def test_a_form_of_another_organization_is_not_sent_for_this_one(client, member, sold_out):
    other = factories.organization()
    answer = client.post(join_address(sold_out), {"units": "1", "acting_for": str(other.key)})
    assert answer.status_code == 409
    assert not Waitlist.objects.exists()


@pytest.mark.django_db
def test_an_unknown_offer_has_no_waitlist(client, member, sold_out):
    Offer.objects.update(enabled=False)
    assert client.get(join_address(sold_out)).status_code == 404
    assert client.post(join_address(sold_out), {"units": "1"}).status_code == 404


@pytest.mark.django_db
def test_whose_turn_it_is_reads_so_and_may_join_again(client, member, sold_out):
    client.post(join_address(sold_out), {"units": "1"})
    Waitlist.objects.update(notified_at=clock.now())
    html = text(shown(client, sold_out))
    assert "that 1 unit was free" in html
    assert "If they are gone again, join once more." in html
    client.post(join_address(sold_out), {"units": "1"})
    assert Waitlist.objects.count() == 2
    assert "You are waiting for 1 unit." in shown(client, sold_out)


@pytest.mark.django_db
def test_the_page_costs_a_member_the_same_with_and_without_entries(client, member, sold_out, django_assert_num_queries):
    shown(client, sold_out)
    with django_assert_num_queries(NUMBER := 9):
        shown(client, sold_out)
    client.post(join_address(sold_out), {"units": "1"})
    shown(client, sold_out)
    with django_assert_num_queries(NUMBER):
        shown(client, sold_out)
