"""Automatic top-ups: once per crossing, tried three times, never twice for one charge, off when the card is no good."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.urls import reverse
from django.utils import timezone, translation

from accounts.models import Notification
from billing import actions, events, ledger, stripe_gateway
from billing.actions import autotopup
from billing.models import BillingAccount, Book, Posting, TopUp
from tests import factories
from tests.billing.stripe_side import deliver

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)


@pytest.fixture
def lab(sandbox):
    """¥100.00 on the balance and a rule: below ¥50.00 charge ¥200.00."""
    made = factories.organization()
    give(made, 10_000)
    with_card(made, sandbox)
    autotopup.set_auto_top_up(organization=made, below_minor=5_000, amount_minor=20_000)
    return made


def with_card(of, sandbox, token="pm_card_visa"):
    account = BillingAccount.objects.select_related("organization").get(pk=actions.account_of(organization=of).pk)
    customer = autotopup.ensure_customer(account, version=1)
    BillingAccount.objects.filter(pk=account.pk).update(
        stripe_payment_method_id=sandbox.attach_method(customer, token=token), saved_card="Visa ··4242"
    )


def give(of, amount):
    """So much more (or less) on the balance."""
    with transaction.atomic():
        ledger.post(
            account=actions.account_of(organization=of), kind=Posting.Kind.CORRECTION, fact=str(timezone.now()),
            currency="CNY", at=timezone.now(), entries={Book.WALLET: -amount, Book.CASH: amount},
        )  # fmt: skip


def balance(of):
    return ledger.balance(actions.account_of(organization=of), Book.WALLET)


def sweep(after=timedelta()):
    return autotopup.sweep_automatic(at=timezone.now() + after)


def test_nothing_is_charged_at_the_mark(lab, sandbox):
    give(lab, -5_000)

    sweep()

    assert (balance(lab), TopUp.objects.count(), sandbox.objects("payment_intent")) == (5_000, 0, [])


def test_below_the_mark_the_card_is_charged_once_a_crossing(lab, sandbox):
    give(lab, -5_001)
    for hours in range(3):
        sweep(hours * HOUR)
    assert (balance(lab), TopUp.objects.count()) == (24_999, 1)

    give(lab, -24_000)
    for hours in range(3, 6):
        sweep(hours * HOUR)
    assert (balance(lab), TopUp.objects.count()) == (20_999, 2)
    assert len(sandbox.objects("payment_intent")) == 2
    assert Notification.objects.filter(kind="balance_credited").count() == 2
    assert ledger.check() == []


def test_gifted_credit_counts(lab):
    actions.grant_gift(organization=lab, amount_minor=3_000, reason="x", request_key="g", at=timezone.now())
    give(lab, -7_000)

    sweep()

    assert not TopUp.objects.exists()


def test_who_topped_up_meanwhile_is_charged_nothing(lab, sandbox, monkeypatch):
    give(lab, -6_000)
    with monkeypatch.context() as patch:
        patch.setattr(autotopup, "for_each_due", lambda *_args, **_named: 0)
        sweep()
    give(lab, 50_000)

    sweep()

    assert TopUp.objects.get().status == "expired"
    assert sandbox.objects("payment_intent") == []


def test_three_refusals_switch_it_off_and_are_told_twice(lab, sandbox):
    with_card(lab, sandbox, "pm_card_chargeCustomerFail")
    give(lab, -6_000)

    for hours in (0, 0.5, 2, 3, 27, 30, 60):
        sweep(hours * HOUR)

    made, account = TopUp.objects.get(), actions.account_of(organization=lab)
    assert (made.status, made.declines, balance(lab)) == ("failed", 3, 4_000)
    assert (account.auto_top_up_minor, account.auto_top_up_below_minor) == (None, None)
    told = Notification.objects.filter(kind="top_up_declined").order_by("pk")
    assert [notice.params["what"] for notice in told] == ["again", "off"]


@pytest.mark.parametrize("kind", ["drop_after", "drop_before", "error"])
def test_an_unclear_answer_charges_once(lab, sandbox, kind):
    give(lab, -6_000)
    sandbox.faults.configure(
        {"requests": [{"kind": kind, "path": "/v1/payment_intents", "method": "POST", "times": 4}]}
    )

    for hours in range(6):
        sweep(hours * HOUR)

    paid = [intent for intent in sandbox.objects("payment_intent") if intent["status"] == "succeeded"]
    assert (len(paid), balance(lab)) == (1, 24_000)


def test_killed_after_the_charge_the_sweep_finds_it(lab, sandbox, monkeypatch):
    give(lab, -6_000)

    def killed(**_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(autotopup, "settle_charge", killed)
        with pytest.raises(KeyboardInterrupt):
            sweep()
    sweep(HOUR)

    assert (balance(lab), len(sandbox.objects("payment_intent"))) == (24_000, 1)


def test_what_cannot_be_set_is_refused(sandbox):
    bare = factories.organization()
    for fields, code in (({"below_minor": 5_000, "amount_minor": 20_000}, "no_card"),):
        with pytest.raises(autotopup.AutoTopUpRefused) as refusal:
            autotopup.set_auto_top_up(organization=bare, **fields)
        assert refusal.value.code == code
    with_card(bare, sandbox)
    with pytest.raises(autotopup.AutoTopUpRefused) as refusal:
        autotopup.set_auto_top_up(organization=bare, below_minor=5_000, amount_minor=4_999)
    assert refusal.value.code == "amount_below_mark"
    with pytest.raises(actions.TopUpRefused):
        autotopup.set_auto_top_up(organization=bare, below_minor=100, amount_minor=399)
    assert actions.account_of(organization=bare).auto_top_up_minor is None


def test_a_card_is_saved_set_and_removed_on_the_page(client, sandbox):
    of = factories.organization()
    client.force_login(of.memberships.get().user)
    with translation.override("en"):
        page, save = reverse("billing:auto_top_up"), reverse("billing:save_card")
        assert "No card is saved." in client.get(page).text
        assert client.post(save).status_code == 302
        (session,) = sandbox.objects("checkout.session")
        sandbox.pay_checkout(session["id"])
        client.get(page, {"session": session["id"]})
        account = actions.account_of(organization=of)
        assert account.stripe_payment_method_id
        assert account.saved_card in client.get(page).text

        assert client.post(page, {"below": "100", "amount": "50"}).status_code == 422
        client.post(page, {"below": "100", "amount": "500"})
        account.refresh_from_db()
        assert (account.auto_top_up_below_minor, account.auto_top_up_minor) == (10_000, 50_000)
        client.post(page, {"off": "1"})
        client.post(reverse("billing:remove_card"))
    account.refresh_from_db()
    assert (account.auto_top_up_minor, account.stripe_payment_method_id, account.saved_card) == (None, "", "")
    assert stripe_gateway.list_saved_methods(customer=account.stripe_customer_id) == ()


def test_anothers_setup_page_saves_nothing(client, sandbox):
    of = factories.organization()
    client.force_login(of.memberships.get().user)
    with translation.override("en"):
        client.get(reverse("billing:auto_top_up"), {"session": "cs_unknown"})

    assert actions.account_of(organization=of).stripe_payment_method_id == ""


def test_a_card_is_saved_by_webhook_where_nobody_came_back(client, sandbox):
    of = factories.organization()
    client.force_login(of.memberships.get().user)
    client.post(reverse("billing:save_card"))
    (session,) = sandbox.objects("checkout.session")
    sandbox.pay_checkout(session["id"])

    for event in sandbox.objects("event"):
        deliver(client, event)
    events.apply_waiting(at=timezone.now())

    assert actions.account_of(organization=of).saved_card.startswith("Visa")
