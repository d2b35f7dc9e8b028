"""Sales hears of every request for a quote by mail: once, also when the mail server was away for a while."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend

from accounts import actions as accounts
from orders import sales_mail, tasks
from orders.actions import Contact, create_quote, request_quote
from orders.basket import Item
from orders.models import Quote
from tests import factories
from tests.factories import NOON

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


class Away(EmailBackend):
    """A mail server that does not answer."""

    def send_messages(self, messages):
        raise ConnectionRefusedError


@pytest.fixture(autouse=True)
def sales(settings):
    settings.SITE_URL = "https://gpu.example.com"
    accounts.sync_staff_groups()
    seller = factories.user("seller@example.com", is_staff=True)
    others = [
        factories.user("gone@example.com", is_staff=True, is_active=False),
        factories.user("former@example.com"),
    ]
    for one in (seller, *others):
        one.groups.set(Group.objects.filter(name="sales"))
    factories.user("ops@example.com", is_staff=True).groups.set(Group.objects.filter(name="operations"))
    return seller


def ask(key="k", **changes):
    values = {
        "organization": None, "actor": None, "currency": "CNY", "need": "colocation", "note": "40 kW\nfrom January",
        "items": [], "contact": Contact("李雷", "福州智算", "li@example.com", "+8613800138000"), "request_key": key,
        "at": NOON,
    }  # fmt: skip
    return request_quote(**values | changes)


def test_a_request_is_mailed_to_sales_once():
    offer = factories.offer()
    quote = ask(items=[Item(offer.slug, "month", 3, 2)])
    assert ask() == quote

    assert [sales_mail.tell_sales(at=NOON + n * MINUTE) for n in range(3)] == [True, False, False]

    (sent,) = mail.outbox
    assert sent.to == ["seller@example.com"]
    assert quote.number in sent.subject
    assert sent.subject.endswith("福州智算")
    assert sent.extra_headers["Message-ID"] == f"<quote-{quote.key}@gpu.example.com>"
    said = (quote.number, "福州智算", "李雷", "li@example.com", "+8613800138000", "40 kW\nfrom January", offer.slug)
    assert [text for text in said if text not in sent.body] == []
    assert f"https://gpu.example.com/admin/orders/quote/{quote.pk}/change/" in sent.body
    quote.refresh_from_db()
    assert quote.sales_mail_due_at is None


def test_each_request_is_a_mail_of_its_own_and_the_oldest_goes_first():
    numbers = [ask(f"k{n}", at=NOON + n * MINUTE).number for n in range(3)]

    tasks.tell_sales()

    assert [number for number, sent in zip(numbers, mail.outbox, strict=True) if number not in sent.subject] == []


def test_a_mail_waits_for_the_server_and_goes_out_once(settings):
    quote, backend = ask(), settings.EMAIL_BACKEND
    settings.EMAIL_BACKEND = f"{__name__}.Away"
    assert not sales_mail.tell_sales(at=NOON)
    quote.refresh_from_db()
    assert quote.sales_mail_due_at == NOON + MINUTE
    assert not sales_mail.tell_sales(at=NOON + 90 * MINUTE)
    quote.refresh_from_db()
    assert quote.sales_mail_due_at == NOON + 150 * MINUTE

    settings.EMAIL_BACKEND = backend
    assert not sales_mail.tell_sales(at=NOON + 149 * MINUTE)
    assert sales_mail.tell_sales(at=NOON + 150 * MINUTE)
    assert len(mail.outbox) == 1


def test_nobody_to_tell_waits_for_three_days(sales):
    quote = ask()
    sales.groups.clear()

    assert not sales_mail.tell_sales(at=NOON + timedelta(days=2))
    quote.refresh_from_db()
    assert quote.sales_mail_due_at == NOON + timedelta(days=2, hours=1)
    assert not sales_mail.tell_sales(at=NOON + timedelta(days=4))
    quote.refresh_from_db()
    assert quote.sales_mail_due_at is None
    assert mail.outbox == []


def test_a_leased_request_is_nobody_elses_until_the_lease_runs_out():
    quote = ask()
    assert sales_mail._claim(NOON).pk == quote.pk
    assert not sales_mail.tell_sales(at=NOON + 4 * MINUTE)
    assert mail.outbox == []
    assert sales_mail.tell_sales(at=NOON + 5 * MINUTE)


def test_what_sales_writes_itself_is_not_mailed(sales):
    create_quote(organization=factories.organization(), actor=sales, valid_until=NOON + timedelta(days=9), at=NOON)
    assert not Quote.objects.filter(sales_mail_due_at__isnull=False).exists()
