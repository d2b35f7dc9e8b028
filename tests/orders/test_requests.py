"""Asking for a quote: members and visitors, once, told to sales at once, answered at the same address."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.db import connection
from django.db.utils import IntegrityError
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation

from marketplace.lib import clock
from orders import actions
from orders.basket import Item
from orders.models import Order, Quote
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db
HERE = "orders:request_quote"


@pytest.fixture(autouse=True)
def english():
    with translation.override("en"):
        yield


def text(response):
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.content.decode())))


def sign_in(client, person):
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")


def visitor(**changes):
    """What a visitor's form sends."""
    return {
        "need": "gpu", "note": "", "name": "李雷", "company": "福州智算", "email": "li@example.com",
        "phone": "138 0013 8000", "form_key": "f" * 32,
    } | changes  # fmt: skip


def line(offer, rest="month:3:2"):
    return f"{offer.slug}:{rest}"


def request_of(**changes):
    values = {
        "organization": None, "actor": None, "currency": "CNY", "need": "gpu", "note": "24 cards", "items": [],
        "contact": actions.Contact("李雷", "福州智算", "li@example.com", "+8613800138000"), "request_key": "k",
        "at": NOON,
    }  # fmt: skip
    return actions.request_quote(**values | changes)


# --- the action ------------------------------------------------------------------------------------------------------
def test_a_request_is_a_draft_with_its_lines_at_list_price(shop):
    special = factories.offer(quote_only=True)
    items = [
        Item(shop.offer.slug, "month", 3, 2),
        Item(special.slug, "year", 1, 1),
        Item(shop.offer.slug, "hour", 720, 1),
    ]

    quote = request_of(organization=shop.organization, actor=shop.owner, items=items, note=" soon ")

    assert (quote.status, quote.origin, quote.salesperson, quote.currency) == ("draft", "customer", None, "CNY")
    assert quote.number == f"QT261130{quote.pk:06d}"
    assert quote.valid_until == NOON + timedelta(days=30)
    assert quote.request_note == "soon"
    assert quote.asked == [str(item) for item in items]
    priced = [(line.offer, line.term, line.periods, line.quantity, line.amount_minor) for line in quote.lines.all()]
    assert priced == [(shop.offer, "month", 3, 2, 1_536_000), (shop.offer, "hour", 1, 1, 0)]
    assert [(event.status, event.actor, event.at) for event in quote.events.all()] == [("draft", shop.owner, NOON)]


def test_the_same_request_twice_is_one(shop):
    first = request_of(organization=shop.organization, items=[Item(shop.offer.slug, "month", 3, 2)])

    assert request_of(organization=shop.organization, items=[Item(shop.offer.slug, "month", 3, 2)]) == first
    assert Quote.objects.count() == 1
    assert first.lines.count() == 1


def test_nothing_asked_is_refused(db):
    with pytest.raises(actions.QuoteRefused, match="Say what you need"):
        request_of(note="  ")
    with pytest.raises(actions.QuoteRefused, match="20 lines"):
        request_of(items=[Item("a", "month", 1, 1)] * 21)
    assert not Quote.objects.exists()


def test_a_line_that_is_gone_or_has_no_image_stays_in_what_was_asked(shop):
    shop.image.enabled = False
    shop.image.save()
    quote = request_of(items=[Item("gone", "month", 1, 1), Item(shop.offer.slug, "month", 1, 1)])

    assert not quote.lines.exists()
    assert quote.asked == ["gone:month:1:1", f"{shop.offer.slug}:month:1:1"]


def test_a_visitors_request_is_sent_only_once_it_has_an_organization(shop):
    seller = factories.user(is_staff=True)
    quote = request_of(items=[Item(shop.offer.slug, "month", 1, 1)])
    with pytest.raises(actions.QuoteRefused, match="Assign this request"):
        actions.send_quote(quote_id=quote.pk, actor=seller, at=NOON)

    actions.assign_quote(quote_id=quote.pk, organization=shop.organization, actor=seller, at=NOON)
    sent = actions.send_quote(quote_id=quote.pk, actor=seller, at=NOON)
    order = actions.accept_quote(
        quote_id=quote.pk, project=shop.project, ssh_keys=[shop.key], actor=shop.owner, at=NOON
    )

    assert (sent.organization, sent.salesperson) == (shop.organization, seller)
    assert order.total_minor == 256_000
    with pytest.raises(actions.QuoteRefused):
        actions.assign_quote(quote_id=quote.pk, organization=shop.organization, actor=seller, at=NOON)


def test_an_organization_with_another_currency_needs_lines_of_its_own(shop):
    dollars = factories.organization(currency="USD")
    seller = factories.user(is_staff=True)
    quote = request_of(items=[Item(shop.offer.slug, "month", 1, 1)])

    with pytest.raises(actions.QuoteRefused, match="another currency"):
        actions.assign_quote(quote_id=quote.pk, organization=dollars, actor=seller, at=NOON)

    assert Quote.objects.get().organization is None
    actions.remove_quote_line(line_id=quote.lines.get().pk)
    assert actions.assign_quote(quote_id=quote.pk, organization=dollars, actor=seller, at=NOON).currency == "USD"


def test_the_database_lets_no_quote_without_an_organization_be_sent(shop):
    quote = request_of()

    with pytest.raises(IntegrityError, match="sent_quote_has_organization"):
        Quote.objects.filter(pk=quote.pk).update(status="sent")


def test_the_next_version_carries_what_was_asked(shop):
    seller = factories.user(is_staff=True)
    quote = request_of(organization=shop.organization, items=[Item(shop.offer.slug, "month", 1, 1)], need="colocation")

    revised = actions.revise_quote(quote_id=quote.pk, actor=seller, at=NOON)

    for name in ("origin", "need", "contact_name", "contact_email", "contact_phone", "request_note", "asked"):
        assert getattr(revised, name) == getattr(quote, name)
    assert revised.request_key is None


# --- the page --------------------------------------------------------------------------------------------------------
def test_a_visitor_asks_and_gets_a_reference(client, shop):
    response = client.post(reverse(HERE), visitor(item=[line(shop.offer)], note="<script>x</script>\n明年一月"))

    quote = Quote.objects.get()
    assert response.status_code == 302
    assert response.url == reverse("orders:quote", args=[quote.token])
    assert (quote.organization, quote.contact_name, quote.contact_company) == (None, "李雷", "福州智算")
    assert (quote.contact_email, quote.contact_phone) == ("li@example.com", "+8613800138000")
    page = client.get(response.url)
    shown = text(page)
    for words in (quote.number, "Your request has arrived", "+8613800138000", "3 months", "<script>x</script>"):
        assert words in shown
    assert "<script>x" not in page.content.decode()
    assert "¥" not in shown
    assert page["X-Robots-Tag"] == "noindex"
    assert page["Cache-Control"] == "private, no-store"


def test_a_member_is_known(client, shop):
    sign_in(client, shop.owner)
    page = text(client.get(reverse(HERE), {"item": line(shop.offer), "note": "for January", "need": "works"}))
    assert f"The answer goes to {shop.owner.email}" in page
    assert "Your name" not in page

    client.post(reverse(HERE), {"item": [line(shop.offer)], "need": "gpu", "note": "", "phone": "", "form_key": "k"})

    quote = Quote.objects.get()
    assert (quote.organization, quote.contact_email, quote.contact_phone) == (shop.organization, shop.owner.email, "")
    assert quote.contact_company == shop.organization.name


def test_staff_without_an_organization_ask_as_visitors_do(client, shop):
    sign_in(client, factories.user(is_staff=True))

    assert "Your name" in text(client.get(reverse(HERE)))


def test_sending_twice_is_one_request_and_changed_words_are_another(client, shop):
    first = client.post(reverse(HERE), visitor(note="8 cards"))
    second = client.post(reverse(HERE), visitor(note="8 cards"))
    third = client.post(reverse(HERE), visitor(note="16 cards"))

    assert first.url == second.url != third.url
    assert [quote.request_note for quote in Quote.objects.order_by("pk")] == ["8 cards", "16 cards"]


def test_a_need_in_words_is_enough(client, db):
    for need in Quote.Need.values:
        assert client.post(reverse(HERE), visitor(need=need, note=f"about {need}")).status_code == 302

    assert sorted(Quote.objects.values_list("need", flat=True)) == sorted(Quote.Need.values)


@pytest.mark.parametrize(
    "changes",
    [
        {"note": ""}, {"note": "   "}, {"note": "x" * 2001}, {"need": "everything"}, {"name": ""}, {"name": "x" * 61},
        {"name": "Li\nLei"}, {"name": "\u202eLi"}, {"company": "A\x07B"}, {"company": "A\r\nBcc: b"},
        {"company": ""}, {"company": "x" * 101}, {"email": ""}, {"email": "nobody"},
        {"email": f"{'x' * 250}@example.com"},
        {"phone": ""}, {"phone": "12345"}, {"phone": "call me"}, {"phone": "1" * 41}, {"form_key": ""},
        {"form_key": "x" * 65},
    ],
)  # fmt: skip
def test_bad_input_is_told_and_keeps_what_was_typed(client, db, changes):
    response = client.post(reverse(HERE), visitor(note="8 cards from January") | changes)

    assert response.status_code == 422
    assert not Quote.objects.exists()
    if "name" not in changes:
        assert 'value="李雷"' in response.content.decode()
    if "note" not in changes:
        assert "8 cards from January" in response.content.decode()


def test_too_many_requests_are_slowed_and_nothing_typed_is_lost(client, settings, db):
    settings.QUOTE_REQUESTS_PER_HOUR = 2
    for number in range(2):
        assert client.post(reverse(HERE), visitor(note=f"need {number}")).status_code == 302

    refused = client.post(reverse(HERE), visitor(note="need 2"))

    assert refused.status_code == 429
    assert "need 2" in refused.content.decode()
    assert 'value="li@example.com"' in refused.content.decode()
    assert Quote.objects.count() == 2
    # What has been sent is not refused, and another place is not slowed.
    assert client.post(reverse(HERE), visitor(note="need 1")).status_code == 302
    assert client.post(reverse(HERE), visitor(note="need 2"), REMOTE_ADDR="203.0.113.9").status_code == 302


def test_lines_that_cannot_be_read_or_are_not_sold_are_told(client, shop):
    withdrawn = factories.offer(enabled=False)

    page = text(client.get(reverse(HERE), {"item": ["junk", line(withdrawn), line(shop.offer)]}))

    assert "Part of the address could not be read" in page
    assert "No longer on sale" in page
    assert "¥15,360.00" in page


def test_a_stranger_costs_three_statements(client, shop):
    items = [line(factories.offer(), "month:1:1") for _ in range(10)]
    client.get(reverse(HERE), {"item": items})

    with CaptureQueriesContext(connection) as queries:
        assert client.get(reverse(HERE), {"item": items}).status_code == 200

    assert len(queries) == 3


# --- afterwards ------------------------------------------------------------------------------------------------------
@pytest.fixture
def asked(shop):
    return request_of(
        organization=shop.organization, actor=shop.owner, items=[Item(shop.offer.slug, "month", 3, 2)], at=clock.now()
    )


def test_the_quote_stands_at_the_address_of_the_request(client, shop, asked):
    address = reverse("orders:quote", args=[asked.token])
    assert "Your request has arrived" in text(client.get(address))
    for name in ("accept_quote", "decline_quote"):
        sign_in(client, shop.owner)
        assert client.post(reverse(f"orders:{name}", args=[asked.token])).status_code == 404
    assert not Order.objects.exists()

    actions.send_quote(quote_id=asked.pk, actor=factories.user(is_staff=True), at=clock.now())

    page = text(client.get(address))
    assert "¥15,360.00" in page
    assert "Accept and order" in page


def test_a_price_that_sales_is_working_on_is_nobody_elses(client, shop, asked):
    seller = factories.user(is_staff=True)
    actions.send_quote(quote_id=asked.pk, actor=seller, at=clock.now())
    revised = actions.revise_quote(quote_id=asked.pk, actor=seller, at=clock.now())

    assert "15,360" not in text(client.get(reverse("orders:quote", args=[revised.token])))
    assert "A newer version replaces this quote." in text(client.get(reverse("orders:quote", args=[asked.token])))


def test_the_list_says_the_state_of_each_in_words(client, shop, asked):
    seller = factories.user(is_staff=True)
    now = clock.now()
    sign_in(client, shop.owner)
    assert "Requested: a salesperson is preparing it" in text(client.get(reverse("orders:quotes")))

    actions.send_quote(quote_id=asked.pk, actor=seller, at=now)
    page = text(client.get(reverse("orders:quotes")))
    assert "Ready: open it and accept" in page
    assert "¥15,360.00" in page
    order = actions.accept_quote(quote_id=asked.pk, project=shop.project, ssh_keys=[shop.key], actor=shop.owner, at=now)
    page = text(client.get(reverse("orders:quotes")))
    assert f"Accepted {order.number}" in page

    draft = actions.create_quote(
        organization=shop.organization, actor=seller, valid_until=now + timedelta(days=1), at=now
    )
    assert draft.number not in text(client.get(reverse("orders:quotes")))
    request_of(organization=factories.organization(), request_key="other", note="anothers")
    assert text(client.get(reverse("orders:quotes"))).count("QT") == 1


def test_declined_expired_and_replaced_quotes_say_so(client, shop):
    seller, now = factories.user(is_staff=True), clock.now()

    def sent(key):
        quote = request_of(
            organization=shop.organization, items=[Item(shop.offer.slug, "month", 1, 1)], request_key=key, at=now
        )
        return actions.send_quote(quote_id=quote.pk, actor=seller, at=now)

    actions.decline_quote(quote_id=sent("a").pk, actor=shop.owner, at=now)
    Quote.objects.filter(pk=sent("b").pk).update(valid_until=now - timedelta(seconds=1))
    actions.revise_quote(quote_id=sent("c").pk, actor=seller, at=now)
    sign_in(client, shop.owner)

    page = text(client.get(reverse("orders:quotes")))

    for words in ("Declined by you", "Expired", "Replaced by a newer version", "Requested"):
        assert words in page
    assert "No quotes yet" not in page


def test_an_empty_list_says_what_to_do(client, shop):
    sign_in(client, shop.owner)

    page = client.get(reverse("orders:quotes"))

    assert "No quotes yet" in text(page)
    assert reverse(HERE) in page.content.decode()


def test_the_quote_as_a_paper(client, shop, asked):
    address = reverse("orders:quote", args=[asked.token])
    assert "Amount in capitals" not in text(client.get(f"{address}?print=1"))
    actions.send_quote(quote_id=asked.pk, actor=factories.user(is_staff=True), at=clock.now())

    paper = client.get(f"{address}?print=1")

    shown = text(paper)
    for words in (asked.number, "¥15,360.00", "人民币壹万伍仟叁佰陆拾元整", "Seller", "Buyer", shop.organization.name):
        assert words in shown
    assert "site-header" not in paper.content.decode()
    assert "<form" not in paper.content.decode()


def test_sales_sees_the_request_with_its_contact(client, shop):
    client.cookies["django_language"] = "en"  # the desk has no language in its addresses
    client.post(reverse(HERE), visitor(item=[line(shop.offer)], note="明年一月"))
    seller = factories.user(is_staff=True, is_superuser=True)
    sign_in(client, seller)
    quote = Quote.objects.get()

    overview = text(client.get(reverse("admin:index")))
    listed = client.get(reverse("admin:orders_quote_changelist"), {"origin__exact": "customer"})
    page = client.get(reverse("admin:orders_quote_change", args=[quote.pk]))

    assert "Quotes requested 1" in overview
    assert quote.number in text(listed)
    assert "福州智算 · 李雷" in text(listed)
    for words in ("明年一月", "li@example.com", "+8613800138000", "2 × NVIDIA GeForce RTX 4090 24GB × 2", "3 months"):
        assert words in text(page)
    assert "Assign to organization" in text(page)

    button = reverse("admin:orders_quote_press", args=[quote.pk, "assign"])
    assert client.post(button, {"organization": shop.organization.pk}).status_code == 302
    assert Quote.objects.get().organization == shop.organization


def test_the_list_costs_the_same_for_one_quote_and_three(client, shop, asked):
    sign_in(client, shop.owner)
    client.get(reverse("orders:quotes"))
    with CaptureQueriesContext(connection) as one:
        assert client.get(reverse("orders:quotes")).status_code == 200
    for key in ("second", "third"):
        quote = request_of(
            organization=shop.organization, items=[Item(factories.offer().slug, "year", 1, 1)], request_key=key,
            at=clock.now(),
        )  # fmt: skip
        actions.send_quote(quote_id=quote.pk, actor=factories.user(is_staff=True), at=clock.now())

    with CaptureQueriesContext(connection) as three:
        assert client.get(reverse("orders:quotes")).status_code == 200

    assert len(three) == len(one)
