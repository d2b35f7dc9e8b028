"""Top-ups by Checkout: one a form, credited once per payment, however and whenever the payment is heard of."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from billing import actions, events, ledger, stripe_gateway
from billing.actions import topups
from billing.models import Book, Posting, TopUp
from tests import factories
from tests.billing.stripe_side import deliver

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
URLS = {"success_url": "https://example.com/done", "cancel_url": "https://example.com/back"}


@pytest.fixture
def lab():
    return factories.organization()


def begin(lab, amount=50_000, key="form-1", at=None):
    return actions.begin_top_up(organization=lab, amount_minor=amount, request_key=key, at=at or timezone.now())


def opened(lab, **fields):
    return actions.open_top_up(top_up_id=begin(lab, **fields).pk, at=timezone.now(), **URLS)


def balance(lab):
    return ledger.balance(actions.account_of(organization=lab), Book.WALLET)


@pytest.mark.parametrize(("amount", "code"), [(399, "amount_too_small"), (100_000_000, "amount_too_large")])
def test_an_amount_that_one_charge_cannot_hold_is_refused(lab, amount, code):
    with pytest.raises(actions.TopUpRefused) as refusal:
        begin(lab, amount)

    assert (refusal.value.code, refusal.value.field) == (code, "amount")
    assert not TopUp.objects.exists()


@pytest.mark.parametrize("amount", [400, 99_999_999])
def test_the_least_and_the_most_are_taken(lab, amount):
    assert begin(lab, amount).amount_minor == amount


def test_one_form_is_one_top_up_and_another_amount_another(lab):
    assert begin(lab) == begin(lab)
    assert begin(lab, 60_000) != begin(lab)
    assert TopUp.objects.count() == 2


def test_it_opens_a_page_over_exactly_the_amount(lab, sandbox):
    made = opened(lab)

    session = stripe_gateway.retrieve_checkout(session_id=made.stripe_session_id)
    assert (made.status, made.checkout_url) == ("open", session.url)
    assert (session.amount_total, session.currency, session.topup_key) == (50_000, "CNY", str(made.key))
    assert abs(session.expires_at - made.expires_at) < timedelta(seconds=1)
    assert opened(lab).stripe_session_id == session.id
    assert (len(sandbox.objects("checkout.session")), balance(lab)) == (1, 0)


def test_a_payment_is_credited_once_however_often_it_is_heard_of(lab, sandbox):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id)
    session = stripe_gateway.retrieve_checkout(session_id=made.stripe_session_id)

    for _time in range(3):
        assert actions.settle_checkout(session=session, at=timezone.now())
        actions.settle_top_up(top_up_id=made.pk, at=timezone.now())
        actions.sweep_top_ups(at=timezone.now() + 60 * MINUTE)

    made.refresh_from_db()
    assert (made.status, made.payment_intent) == ("paid", session.payment_intent)
    assert balance(lab) == 50_000
    assert list(Posting.objects.values_list("kind", "fact")) == [("top_up", session.payment_intent)]
    assert ledger.trial_balance() == {"CNY": {"cash": 50_000, "wallet": -50_000}}
    assert ledger.check() == []


def test_the_sweep_finds_what_no_webhook_told(lab, sandbox):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id)

    assert actions.sweep_top_ups(at=timezone.now()) == 0
    assert actions.sweep_top_ups(at=timezone.now() + 3 * MINUTE) == 1

    assert balance(lab) == 50_000


def test_a_later_payment_waits_and_is_credited_when_it_came(lab, sandbox):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id, outcome="later", method="alipay")

    assert actions.settle_top_up(top_up_id=made.pk, at=timezone.now()).status == "open"
    assert balance(lab) == 0
    sandbox.settle_checkout(made.stripe_session_id, succeeded=True)
    assert actions.settle_top_up(top_up_id=made.pk, at=timezone.now()).status == "paid"
    assert balance(lab) == 50_000


def test_a_payment_that_fails_after_the_page_credits_nothing(lab, sandbox):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id, outcome="later", method="alipay")
    sandbox.settle_checkout(made.stripe_session_id, succeeded=False)

    after = actions.settle_top_up(top_up_id=made.pk, at=timezone.now())

    assert (after.status, balance(lab)) == ("failed", 0)
    assert after.next_check_at is None


def test_a_declined_card_leaves_the_page_open(lab, sandbox):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id, outcome="declined")

    assert actions.settle_top_up(top_up_id=made.pk, at=timezone.now()).status == "open"
    sandbox.pay_checkout(made.stripe_session_id)
    assert actions.settle_top_up(top_up_id=made.pk, at=timezone.now()).status == "paid"


def test_a_page_that_expires_ends_the_top_up_and_late_money_is_credited_all_the_same(lab, sandbox):
    made = opened(lab)
    stripe_gateway.expire_checkout(session_id=made.stripe_session_id)

    assert actions.settle_top_up(top_up_id=made.pk, at=timezone.now()).status == "expired"
    assert actions.record_top_up(
        top_up_id=made.pk, payment_intent="pi_late", amount_minor=50_000, currency="CNY", at=timezone.now()
    )

    made.refresh_from_db()
    assert (made.status, balance(lab)) == ("paid", 50_000)


def test_a_second_payment_for_the_same_top_up_is_a_top_up_of_its_own(lab, caplog):
    made = begin(lab)
    for intent in ("pi_1", "pi_2", "pi_1", "pi_2"):
        actions.record_top_up(
            top_up_id=made.pk, payment_intent=intent, amount_minor=50_000, currency="CNY", at=timezone.now()
        )

    assert balance(lab) == 100_000
    assert sorted(TopUp.objects.values_list("payment_intent", "status")) == [("pi_1", "paid"), ("pi_2", "paid")]
    assert "paid twice" in caplog.text


def test_what_came_is_what_is_credited(lab, caplog):
    made = begin(lab)

    actions.record_top_up(
        top_up_id=made.pk, payment_intent="pi_1", amount_minor=49_000, currency="CNY", at=timezone.now()
    )

    assert balance(lab) == 49_000
    assert "49000 came" in caplog.text


def test_money_in_another_currency_is_refused(lab):
    made = begin(lab)

    with pytest.raises(actions.TopUpRefused):
        actions.record_top_up(
            top_up_id=made.pk, payment_intent="pi_1", amount_minor=50_000, currency="USD", at=timezone.now()
        )

    made.refresh_from_db()
    assert (made.status, Posting.objects.count()) == ("created", 0)


def test_what_never_got_a_page_expires_by_the_sweep(lab, sandbox):
    at = timezone.now()
    made = begin(lab, at=at)

    actions.sweep_top_ups(at=at + 60 * MINUTE)
    made.refresh_from_db()
    assert made.status == "created"
    actions.sweep_top_ups(at=at + 90 * MINUTE)
    made.refresh_from_db()
    assert made.status == "expired"


def test_a_form_that_is_too_old_begins_again(lab, sandbox):
    made = begin(lab, at=timezone.now() - 40 * MINUTE)

    with pytest.raises(actions.TopUpRefused) as refusal:
        actions.open_top_up(top_up_id=made.pk, at=timezone.now(), **URLS)

    assert refusal.value.code == "page_over"
    assert sandbox.objects("checkout.session") == []


@pytest.mark.parametrize("fault", ["drop_after", "drop_before", "error"])
def test_an_unclear_answer_leaves_one_page(lab, sandbox, fault):
    made = begin(lab)
    sandbox.faults.configure({"requests": [{"kind": fault, "path": "/v1/checkout", "method": "POST", "times": 3}]})

    for _press in range(5):
        try:
            made = actions.open_top_up(top_up_id=made.pk, at=timezone.now(), **URLS)
        except stripe_gateway.GatewayError:
            made.refresh_from_db()

    assert made.status == "open"
    live = [session for session in sandbox.objects("checkout.session") if session["status"] == "open"]
    assert [session["id"] for session in live] == [made.stripe_session_id]


def test_killed_after_stripe_made_the_page_the_next_press_finds_it(lab, sandbox, monkeypatch):
    made = begin(lab)
    remember = topups._remember_page
    monkeypatch.setattr(topups, "_remember_page", killed)
    with pytest.raises(KeyboardInterrupt):
        actions.open_top_up(top_up_id=made.pk, at=timezone.now(), **URLS)
    monkeypatch.setattr(topups, "_remember_page", remember)

    (session,) = sandbox.objects("checkout.session")
    sandbox.pay_checkout(session["id"])
    actions.sweep_top_ups(at=timezone.now() + 5 * MINUTE)

    made.refresh_from_db()
    assert (made.status, balance(lab)) == ("paid", 50_000)


def killed(*_args, **_kwargs):
    raise KeyboardInterrupt


def test_another_page_than_ours_changes_nothing(lab, sandbox):
    made = opened(lab)
    session = stripe_gateway.retrieve_checkout(session_id=made.stripe_session_id)
    strange = stripe_gateway.CheckoutSession(
        **{name: getattr(session, name) for name in session.__slots__ if name != "metadata"}, metadata={}
    )

    assert not actions.settle_checkout(session=strange, at=timezone.now())


def test_history_is_written_by_the_database(lab, sandbox):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id)
    actions.settle_top_up(top_up_id=made.pk, at=timezone.now())

    events = made.events.order_by("pgh_id").values_list("status", flat=True)
    assert list(dict.fromkeys(events)) == ["created", "open", "paid"]
    with pytest.raises(topups.IllegalTopUp), transaction.atomic():
        topups.move_top_up(topups.locked_top_up(made.pk), "open", at=timezone.now())


@pytest.mark.parametrize("order", [1, -1])
def test_webhooks_in_any_order_and_doubled_credit_once(client, lab, sandbox, order):
    made = opened(lab)
    sandbox.pay_checkout(made.stripe_session_id)
    told = [event for event in sandbox.objects("event") if event["type"].startswith(("checkout.", "payment_intent."))]
    assert "checkout.session.completed" in {event["type"] for event in told}

    for event in [*told[::order], *told]:
        assert deliver(client, event) == 200
        events.apply_waiting(at=timezone.now())

    made.refresh_from_db()
    assert (made.status, balance(lab), Posting.objects.count()) == ("paid", 50_000, 1)
