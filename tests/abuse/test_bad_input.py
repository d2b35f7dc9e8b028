"""Whatever a field, an address or a cookie holds, the answer is a page and never a failure of ours."""

import re
from urllib.parse import quote

import pytest
from django.conf import settings
from django.core.signals import got_request_exception
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from accounts.models import SshKey
from billing.models import Invoice, StripeEvent
from orders.models import Order
from tests import factories
from tests.abuse import shop
from tests.abuse.junk import UNSENDABLE, VALUES

pytestmark = pytest.mark.django_db
PARAMETERS = {
    "catalog:list": (
        *("page", "q", "term", "sort", "view", "family", "region", "size", "kind"),
        *("memory", "price_min", "rate", "free", "available"),
    ),
    "catalog:counts": ("offers",),
    "catalog:offer": ("term",),
    "orders:new": ("term", "quantity", "periods"),
    "orders:list": ("page",),
    "rentals:list": ("page", "q", "state", "project"),
    "rentals:activity": ("before",),
    "rentals:detail": ("seen",),
    "billing:invoices": ("page",),
    "billing:invoice": ("page",),
    "account_login": ("next",),
}


class _Undo(Exception):
    pass


def undone(send):
    """The answer, with everything it wrote taken back."""
    try:
        with transaction.atomic():
            answer = send()
            raise _Undo
    except _Undo:
        return answer


@pytest.fixture
def broken():
    """What failed while a request was answered."""
    failures = []

    def note(sender, request, **_):
        failures.append(f"{request.method} {request.get_full_path()[:200]}")

    got_request_exception.connect(note)
    yield failures
    got_request_exception.disconnect(note)


def test_no_address_fails_for_what_its_query_says(broken):
    customer = shop.customer()
    person = shop.signed_in(customer.owner)
    for name, parameters in PARAMETERS.items():
        for value in VALUES.values():
            query = "&".join(f"{parameter}={quote(value[:1500], errors='replace')}" for parameter in parameters)
            answer = person.get(f"{customer.addresses[name]}?{query}")
            assert answer.status_code in {200, 302, 400, 404}, (name, query[:200])
    assert broken == []


@pytest.mark.parametrize(
    "form",
    [
        *("order", "price", "accept a quote", "add a key", "sign up", "currency", "language"),
        *("stop when idle", "stop at a time", "stop at a cost"),
    ],
)
def test_no_form_fails_for_what_a_field_holds(broken, form):
    customer = shop.customer()
    address, data = customer.forms[form]
    for field in data:
        for name, value in VALUES.items():
            if name in UNSENDABLE:
                continue
            client = Client() if form == "sign up" else shop.signed_in(customer.owner)
            answer = undone(lambda: client.post(address, data | {field: value}))  # noqa: B023 - called at once
            assert answer.status_code in {200, 204, 302, 400, 409, 422, 429}, (field, name)
    assert broken == []


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("quantity", ("", "0", "-1", "1.5", "1e9", "1000000000", "9" * 5000, "NaN", "a\0b", "<script>")),
        ("periods", ("-1", "1.5", "1e9", "37", "NaN")),
        ("term", ("", "week", "HOUR")),
        ("image", ("", "nothing", "a\0b")),
        ("ssh_keys", ("", "00000000-0000-0000-0000-000000000000", "x")),
        ("seen_rate", ("", "NaN", "sNaN", "Infinity", "-1", "1e400", "2.50.1")),
        ("request_key", ("", "x" * 65, "a\0b")),
    ],
)
def test_a_refused_order_says_why_beside_the_field_and_changes_nothing(field, values):
    customer = shop.customer()
    address, data = customer.forms["order"]
    person = shop.signed_in(customer.owner)
    before = Order.objects.count()
    for value in values:
        answer = person.post(address, data | {field: value})
        assert answer.status_code == 422, value
        assert field in answer.context["form"].errors, value
        assert 'class="field__errors"' in answer.text or 'role="alert"' in answer.text, value
    assert Order.objects.count() == before


def test_what_was_typed_comes_back_as_text():
    customer = shop.customer()
    address, data = customer.forms["order"]
    script = "\"><script>alert('x')</script>"
    answer = shop.signed_in(customer.owner).post(address, dict.fromkeys(data, script))
    assert "<script>alert" not in answer.text


@pytest.mark.parametrize("name", ["a\r\nBcc: x@example.com", "\u202egnp.exe", "zero\u200bwidth"])
def test_a_name_that_cannot_be_printed_is_refused(client, name):
    customer = shop.customer()
    before = SshKey.objects.count()
    person = shop.signed_in(customer.owner)
    key = factories.new_public_key()

    answer = person.post(customer.addresses["accounts:keys"], {"name": name, "public_key": key})
    assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["name"])

    address, data = customer.forms["order"]
    answer = person.post(address, data | {"new_key": key, "new_key_name": name})
    assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["new_key_name"])

    assert SshKey.objects.count() == before


def patterns(resolver):
    for entry in resolver.url_patterns:
        if isinstance(entry, URLResolver):
            yield from patterns(entry) if entry.namespace != "admin" else ()
        elif isinstance(entry, URLPattern):
            yield entry


def test_our_addresses_take_no_free_text():
    """A `str` in an address accepts every byte; ids, slugs and keys have shapes of their own."""
    ours = {"accounts", "billing", "catalog", "orders", "rentals", "marketplace", "trust"}
    free = [
        entry.name
        for entry in patterns(get_resolver())
        if entry.callback.__module__.partition(".")[0] in ours
        and {type(one).__name__ for one in entry.pattern.converters.values()} & {"StringConverter", "PathConverter"}
    ]
    assert free == []


@pytest.mark.parametrize(
    "path",
    ["/%00", "/quotes/%00/", "/gpus/?q=%00", "/gpus/a%00/", "/accounts/login/?next=%00",
     "/accounts/confirm-email/a%00/", "/admin/login/?next=/%00"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["get", "post", "head", "options", "put", "delete", "patch"])
def test_a_nul_byte_in_an_address_is_a_bad_request(client, broken, path, method):
    assert getattr(client, method)(path).status_code in {400, 404}
    assert broken == []


def test_no_cookie_and_no_other_content_type_breaks_a_page(broken):
    customer = shop.customer()
    for cookie in ("currency", "django_language", "sessionid", "messages", "csrftoken"):
        for value in VALUES.values():
            header = f"{cookie}={quote(value[:500], errors='replace')}"
            for name in ("home", "catalog:list", "account_login"):
                assert Client().get(customer.addresses[name], headers={"cookie": header}).status_code == 200, header
    person = shop.signed_in(customer.owner)
    for content_type, body in (
        ("application/json", b"{"),
        ("text/plain", b"\xff"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=", b"x"),
        ("application/x-www-form-urlencoded; charset=utf-7", b"quantity=1"),
        ("application/x-www-form-urlencoded; charset=bogus", b"quantity=1"),
        ("application/x-www-form-urlencoded", b"%ff=%ff&quantity=%00&quantity=2"),
        ("application/x-www-form-urlencoded", b"&".join(b"a%d=1" % n for n in range(1100))),
    ):
        answer = person.generic("POST", customer.addresses["orders:new"], body, content_type=content_type)
        assert answer.status_code in {400, 422}, content_type
    assert broken == []


@pytest.mark.parametrize("name", ["set_currency", "set_language"])
@pytest.mark.parametrize(
    "target",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)",
     "http:evil.example", "///evil.example", "https:/evil.example", "\thttps://evil.example"],
)  # fmt: skip
def test_no_switch_leads_to_another_site(client, name, target):
    answer = client.post(reverse(name), {"currency": "USD", "language": "en", "next": target})
    assert answer.status_code == 302
    assert re.fullmatch(r"/(?![/\\]).*|/", answer.url), answer.url


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_logging_in_leads_to_no_other_site(client, target):
    person = factories.user()
    factories.organization(person)
    answer = client.post(
        f"{reverse('account_login')}?next={quote(target)}",
        {"login": person.email, "password": factories.PASSWORD, "next": target},
    )
    assert (answer.status_code, answer.url) == (302, str(settings.LOGIN_REDIRECT_URL))


def test_a_stolen_form_without_its_token_does_nothing():
    customer = shop.customer()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(customer.owner, backend="django.contrib.auth.backends.ModelBackend")
    counted = (Order.objects.count(), SshKey.objects.count(), Invoice.objects.count())
    for address, data in customer.forms.values():
        assert strict.post(address, data).status_code == 403, address
    assert (Order.objects.count(), SshKey.objects.count(), Invoice.objects.count()) == counted
    assert not StripeEvent.objects.exists()
