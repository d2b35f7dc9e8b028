"""Checkout Sessions: pages that take money in advance or collect a means of payment."""

import re
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest
import stripe

from billing import stripe_gateway as gw
from tests.stripe.conftest import point_at, post, sandbox_server, sdk

KEY = "5b0c2f9e-1c55-4f63-8a0d-000000000001"
MINUTE, HOUR = 60, 3600


@pytest.fixture
def customer(gateway):
    return gateway.ensure_customer(key="org-1", name="甲公司", email="a@example.cn")


def soon(sandbox, *, seconds=HOUR):
    """An expiry as a top-up would keep it: a fact, once chosen."""
    return datetime.fromtimestamp(sandbox.state()["now"] + seconds, UTC)


def wanted(sandbox, customer, **changes):
    facts = {
        "topup_key": KEY, "version": 1, "amount": 50_000, "currency": "CNY", "customer": customer,
        "methods": ("card", "alipay", "wechat_pay"), "description": "余额充值",
        "success_url": "https://shop.example/wallet/?session={CHECKOUT_SESSION_ID}",
        "cancel_url": "https://shop.example/wallet/cancelled/", "expires_at": soon(sandbox),
    }  # fmt: skip
    return facts | changes


@pytest.fixture
def session(gateway, sandbox, customer):
    return gateway.create_checkout(**wanted(sandbox, customer))


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def press(session, action, method="card"):
    """Press a button of the page; where it leads."""
    request = urllib.request.Request(f"{session.url}/{action}", data=f"method={method}".encode())
    with pytest.raises(urllib.error.HTTPError) as answer:
        urllib.request.build_opener(NoRedirect).open(request, timeout=5)
    answer.value.close()
    assert answer.value.code == 303
    return answer.value.headers["Location"]


def page(session, language="zh-CN"):
    with post(session.url, None, {"Accept-Language": language}) as answer:
        return answer.read().decode(), answer.headers["Content-Security-Policy"]


def test_a_session_comes_back_as_plain_values(gateway, sandbox, customer):
    expires_at = soon(sandbox)
    made = gateway.create_checkout(**wanted(sandbox, customer, expires_at=expires_at, metadata={"organization": "o-1"}))

    assert made == gw.CheckoutSession(
        id=made.id,
        url=made.url,
        mode="payment",
        status="open",
        payment_status="unpaid",
        payment_intent="",
        setup_intent="",
        amount_total=50_000,
        currency="CNY",
        client_reference_id=KEY,
        customer=customer,
        metadata={"organization": "o-1", "topup_key": KEY, "topup_version": "1"},
        created=made.created,
        expires_at=expires_at,
    )
    assert made.topup_key == KEY
    assert len(made.id) == 66
    assert gateway.retrieve_checkout(session_id=made.id) == made


def test_the_same_facts_are_the_same_page(gateway, sandbox, customer):
    facts = wanted(sandbox, customer)

    assert gateway.create_checkout(**facts) == gateway.create_checkout(**facts)
    assert len(sandbox.objects("checkout.session")) == 1
    with pytest.raises(gw.KeyReused):
        gateway.create_checkout(**facts | {"amount": 60_000})
    assert [key for method, _, key in sandbox.requests if method == "POST"][1:] == [f"topup:{KEY}:v1:checkout"] * 3


def test_the_page_works_without_script_in_both_languages(session):
    chinese, policy = page(session)
    english, _ = page(session, "en")

    for text in (
        "演示环境：不会产生任何真实扣款",
        "支付 ¥500.00",
        "余额充值",
        "甲公司",
        "支付宝",
        "微信支付",
        "模拟支付失败",
    ):
        assert text in chinese
    for text in ("Pay ¥500.00", "Alipay", "WeChat Pay", "Simulate a failed payment"):
        assert text in english
    assert "<script" not in chinese
    assert re.findall(r'value="(\w+)"( checked)?', chinese) == [
        ("card", " checked"),
        ("alipay", ""),
        ("wechat_pay", ""),
    ]
    assert "form-action 'self' https://shop.example;" in policy
    assert 'href="https://shop.example/wallet/cancelled/"' in chinese


@pytest.mark.parametrize("method", ["card", "alipay", "wechat_pay"])
def test_paying_completes_the_session_and_leads_on(gateway, sandbox, session, method):
    assert press(session, "pay", method) == f"https://shop.example/wallet/?session={session.id}"

    paid = gateway.retrieve_checkout(session_id=session.id)
    assert (paid.status, paid.payment_status, paid.is_paid, paid.url) == ("complete", "paid", True, "")
    intent = gateway.retrieve_payment_intent(payment_intent_id=paid.payment_intent)
    assert (intent.status, intent.amount_received, intent.currency, intent.topup_key) == (
        "succeeded",
        50_000,
        "CNY",
        KEY,
    )
    assert sandbox.objects("payment_intent")[0]["payment_method_types"] == [method]
    assert [event["type"] for event in sandbox.objects("event")][1:] == [
        "payment_intent.created",
        "charge.succeeded",
        "payment_intent.succeeded",
        "checkout.session.completed",
    ]


def test_pressing_pay_twice_pays_once(gateway, sandbox, session):
    for _ in range(2):
        press(session, "pay")

    assert len(sandbox.objects("charge")) == 1


def test_a_declined_payment_leaves_the_page_open(gateway, sandbox, session):
    assert press(session, "fail").startswith("/c/")
    assert "支付失败" in post(f"{session.url}?failed=1&locale=zh", None).read().decode()
    assert gateway.retrieve_checkout(session_id=session.id).status == "open"

    press(session, "pay")

    (intent,) = gateway.find_charges(customer=session.customer, topup_key=KEY)
    assert intent.status == "succeeded"
    assert [charge["status"] for charge in sandbox.objects("charge")] == ["failed", "succeeded"]


@pytest.mark.parametrize(
    ("succeeded", "event", "status", "intent_status"),
    [
        (True, "checkout.session.async_payment_succeeded", "paid", "succeeded"),
        (False, "checkout.session.async_payment_failed", "unpaid", "requires_payment_method"),
    ],
)
def test_money_promised_for_later_comes_or_does_not(gateway, sandbox, session, succeeded, event, status, intent_status):
    press(session, "later", "alipay")
    waiting = gateway.retrieve_checkout(session_id=session.id)
    assert (waiting.status, waiting.payment_status) == ("complete", "unpaid")
    assert gateway.retrieve_payment_intent(payment_intent_id=waiting.payment_intent).status == "processing"

    for _ in range(2):
        sandbox.settle_checkout(session.id, succeeded=succeeded)

    done = gateway.retrieve_checkout(session_id=session.id)
    assert (done.status, done.payment_status) == ("complete", status)
    assert gateway.retrieve_payment_intent(payment_intent_id=done.payment_intent).status == intent_status
    assert [e["type"] for e in sandbox.objects("event") if e["type"].startswith("checkout.")] == [
        "checkout.session.completed",
        event,
    ]


def test_time_alone_settles_what_was_promised(settings):
    with sandbox_server(settle_after=0.0) as server:
        point_at(settings, server)
        customer = gw.ensure_customer(key="org-1", name="甲", email="a@example.cn")
        made = gw.create_checkout(**wanted(server, customer))
        server.pay_checkout(made.id, outcome="later_failed", method="alipay")
        server.advance_due()

        assert [e["type"] for e in server.objects("event")][-1] == "checkout.session.async_payment_failed"
        assert server.take_violations() == []


def test_an_expired_page_takes_no_money(gateway, sandbox, session):
    assert gateway.expire_checkout(session_id=session.id).status == "expired"
    assert gateway.expire_checkout(session_id=session.id).status == "expired"

    assert "此页面已过期" in page(session)[0]
    press(session, "pay")

    assert sandbox.objects("charge") == []
    assert [e["type"] for e in sandbox.objects("event")][-1] == "checkout.session.expired"


def test_expiring_a_paid_page_says_that_it_was_paid(gateway, session):
    press(session, "pay")

    seen = gateway.expire_checkout(session_id=session.id)

    assert (seen.status, seen.is_paid) == ("complete", True)


def test_the_clock_ends_a_page(gateway, sandbox, session):
    sandbox.advance_clock(HOUR - 60)
    assert gateway.retrieve_checkout(session_id=session.id).status == "open"

    sandbox.advance_clock(120)

    assert gateway.retrieve_checkout(session_id=session.id).status == "expired"
    assert [e["type"] for e in sandbox.objects("event")][-1] == "checkout.session.expired"


@pytest.mark.parametrize(
    ("seconds", "taken"), [(29 * MINUTE, False), (31 * MINUTE, True), (24 * HOUR - 5, True), (25 * HOUR, False)]
)
def test_a_page_lasts_from_half_an_hour_to_a_day(gateway, sandbox, customer, seconds, taken):
    facts = wanted(sandbox, customer, expires_at=soon(sandbox, seconds=seconds))
    if taken:
        assert gateway.create_checkout(**facts).status == "open"
        return
    with pytest.raises(gw.Refused) as caught:
        gateway.create_checkout(**facts)
    assert caught.value.param == "expires_at"
    assert sandbox.objects("checkout.session") == []


@pytest.mark.parametrize(("amount", "reason"), [(399, "amount_too_small"), (100_000_000, "amount_too_large")])
def test_amounts_that_cannot_be_charged_are_refused(gateway, sandbox, customer, amount, reason):
    with pytest.raises(gw.Refused) as caught:
        gateway.create_checkout(**wanted(sandbox, customer, amount=amount))

    assert caught.value.reason == reason


def test_wechat_pay_needs_to_know_its_client(api, sandbox, customer):
    params = {
        "mode": "payment", "customer": customer, "payment_method_types": ["wechat_pay"],
        "line_items": [{"price_data": {"currency": "cny", "unit_amount": 500, "product_data": {"name": "x"}},
                        "quantity": 1}],
    }  # fmt: skip
    with pytest.raises(stripe.InvalidRequestError) as caught:
        api.checkout.sessions.create(params)

    assert caught.value.param == "payment_method_options[wechat_pay][client]"


def test_what_an_unclear_answer_left_behind_is_found(gateway, sandbox, customer):
    gateway.create_checkout(**wanted(sandbox, customer, topup_key="another"))
    sandbox.faults.configure({"requests": [{"kind": "error_after", "path": "/v1/checkout"}]})
    with pytest.raises(gw.UnknownOutcome) as caught:
        gateway.create_checkout(**wanted(sandbox, customer))
    assert caught.value.stored

    (left,) = gateway.find_checkouts(customer=customer, topup_key=KEY, since=datetime.now(UTC) - timedelta(minutes=5))

    assert (left.topup_key, left.status) == (KEY, "open")


def test_sessions_are_listed_by_time(gateway, sandbox, customer):
    first = gateway.create_checkout(**wanted(sandbox, customer))
    sandbox.advance_clock(2 * HOUR)
    second = gateway.create_checkout(**wanted(sandbox, customer, version=2))
    start = first.created

    listed = gateway.list_checkouts(created_from=start, created_to=second.created + timedelta(seconds=1))
    assert [each.id for each in listed] == [second.id, first.id]
    assert [
        each.id for each in gateway.list_checkouts(created_from=start, created_to=start + timedelta(minutes=1))
    ] == [first.id]


def test_a_card_is_left_for_later_charges(gateway, sandbox, customer):
    made = gateway.create_setup_checkout(
        setup_key="setup-1", version=1, currency="CNY", customer=customer, success_url="https://shop.example/ok",
        cancel_url="https://shop.example/no", expires_at=soon(sandbox),
    )  # fmt: skip
    assert (made.mode, made.payment_status, made.amount_total) == ("setup", "no_payment_required", 0)
    assert gateway.retrieve_setup_method(setup_intent=made.setup_intent) is None

    assert press(made, "pay") == "https://shop.example/ok"

    method = gateway.retrieve_setup_method(setup_intent=made.setup_intent)
    assert (method.kind, method.brand, method.last4, method.exp_year, method.customer) == (
        "card", "visa", "4242", 2034, customer,
    )  # fmt: skip
    assert gateway.list_saved_methods(customer=customer) == (method,)
    assert gateway.retrieve_checkout(session_id=made.id).status == "complete"
    assert sandbox.objects("charge") == []


def test_a_card_may_be_kept_while_paying(gateway, sandbox, customer):
    made = gateway.create_checkout(**wanted(sandbox, customer, save_method=True))
    press(made, "pay")

    (method,) = gateway.list_saved_methods(customer=customer)
    intent = gateway.retrieve_payment_intent(
        payment_intent_id=gateway.retrieve_checkout(session_id=made.id).payment_intent
    )
    assert intent.payment_method == method.id


@pytest.mark.parametrize(("path", "data"), [("/c/nobody", None), ("/c/nobody/pay", b"")])
def test_an_unknown_page_is_not_found(sandbox, path, data):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{sandbox.url}{path}", data)

    assert caught.value.code == 404
    caught.value.close()


@pytest.mark.parametrize("action", ["explode", "pay/twice"])
def test_an_unknown_button_does_nothing(sandbox, session, action):
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(f"{session.url}/{action}", b"method=card")

    assert caught.value.code == 404
    caught.value.close()
    assert sandbox.objects("charge") == []


def test_expiring_through_the_api_refuses_a_complete_one(sandbox, session):
    press(session, "pay")

    with pytest.raises(stripe.InvalidRequestError, match="complete"):
        sdk(sandbox).checkout.sessions.expire(session.id)
