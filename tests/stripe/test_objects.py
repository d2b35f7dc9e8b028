"""Objects, arithmetic, states and refusals, through the real SDK."""

from decimal import Decimal

import pytest
import stripe

from tests.stripe.conftest import open_invoice, sdk


@pytest.fixture
def customer(api):
    return api.customers.create({"name": "甲公司", "email": "a@example.cn", "metadata": {"customer_key": "org-1"}})


@pytest.fixture
def draft(api, customer):
    return api.invoices.create(
        {"customer": customer.id, "currency": "cny", "collection_method": "send_invoice", "days_until_due": 15}
    )


def item(api, draft, **extra):
    return api.invoice_items.create({"customer": draft.customer, "invoice": draft.id, "currency": "cny", **extra})


def refusal(call):
    with pytest.raises(stripe.InvalidRequestError) as caught:
        call()
    return caught.value


def test_a_customer_is_kept_listed_and_changed(api, customer):
    api.customers.create({"email": "b@example.cn"})

    assert [c.id for c in api.customers.list({"email": "a@example.cn"}).data] == [customer.id]
    api.customers.update(customer.id, {"metadata": {"customer_key": "", "note": "VIP"}})
    assert api.customers.retrieve(customer.id).metadata.to_dict() == {"note": "VIP"}


@pytest.mark.parametrize(
    "metadata", [{"k" * 41: "v"}, {"k": "v" * 501}, {f"k{n}": "v" for n in range(51)}], ids=["name", "value", "count"]
)
def test_metadata_limits_hold(api, sandbox, metadata):
    refusal(lambda: api.customers.create({"metadata": metadata}))
    sandbox.take_violations()

    assert api.customers.list().data == []


def test_inclusive_tax_is_rounded_per_line_and_leaves_the_total_gross(api, draft):
    rate = api.tax_rates.create({"display_name": "增值税", "inclusive": True, "percentage": 6})
    for amount in (1000, 999, 1, -500):
        item(api, draft, amount=amount, tax_rates=[rate.id])

    invoice = api.invoices.retrieve(draft.id)

    # 1000/1.06*0.06 = 56.60, 999 → 56.55, 1 → 0.06, -500 → -28.30
    assert (invoice.total, invoice.subtotal, invoice.total_taxes[0].amount) == (1500, 1500, 57 + 57 + 0 - 28)
    assert invoice.total_excluding_tax == 1500 - 86
    assert [line.taxes[0].amount for line in invoice.lines.data] == [57, 57, 0, -28]


def test_exclusive_tax_comes_on_top(api, draft):
    rate = api.tax_rates.create({"display_name": "VAT", "inclusive": False, "percentage": 13})
    item(api, draft, amount=1000, tax_rates=[rate.id])

    invoice = api.invoices.retrieve(draft.id)

    assert (invoice.subtotal, invoice.total, invoice.total_excluding_tax) == (1000, 1130, 1000)


@pytest.mark.parametrize(
    ("unit", "quantity", "amount"), [("0.5", "3", 2), ("2200", "1.000277777778", 2201), ("0.00004", "12500", 1)]
)
def test_unit_amount_times_quantity_is_rounded_once(api, draft, unit, quantity, amount):
    made = item(api, draft, unit_amount_decimal=Decimal(unit), quantity_decimal=Decimal(quantity))

    assert (made.amount, made.quantity_decimal, made.pricing.unit_amount_decimal) == (
        amount,
        Decimal(quantity),
        Decimal(unit),
    )


@pytest.mark.parametrize(
    ("extra", "param"),
    [
        ({"amount": 1, "unit_amount_decimal": Decimal(1)}, "amount"),
        ({}, "amount"),
        ({"unit_amount_decimal": Decimal("1.0000000000001")}, "unit_amount_decimal"),
        ({"unit_amount_decimal": Decimal("0.00000001")}, "unit_amount_decimal"),  # the SDK writes 1E-8
        ({"amount": 1, "currency": "usd"}, "currency"),
        ({"amount": 1, "tax_rates": ["txr_none"]}, "tax_rates"),
        ({"amount": 1, "period": {"start": 2, "end": 1}}, "period[end]"),
        ({"amount": 1, "invoice": "in_none"}, "invoice"),
    ],
)
def test_an_item_that_makes_no_sense_is_refused(api, draft, extra, param):
    assert refusal(lambda: item(api, draft, **extra)).param == param
    assert api.invoice_items.list({"invoice": draft.id}).data == []


def test_lines_keep_the_order_of_adding_over_pages(api, draft):
    for amount in range(1, 24):
        item(api, draft, amount=amount, metadata={"line_uuid": str(amount)})

    lines = list(api.invoices.line_items.list(draft.id, {"limit": 10}).auto_paging_iter())

    assert [line.amount for line in lines] == list(range(1, 24))
    assert [line.metadata["line_uuid"] for line in lines] == [str(n) for n in range(1, 24)]
    embedded = api.invoices.retrieve(draft.id).lines
    assert (len(embedded.data), embedded.has_more) == (10, True)


def test_an_invoice_takes_250_items_and_no_more(api, draft):
    for _ in range(250):
        item(api, draft, amount=1)

    refusal(lambda: item(api, draft, amount=1))

    assert api.invoices.retrieve(draft.id).total == 250


def test_pending_items_stay_out_unless_asked_for(api, customer, draft):
    pending = api.invoice_items.create({"customer": customer.id, "amount": 700, "currency": "cny"})

    assert api.invoices.finalize_invoice(draft.id).total == 0
    assert [i.id for i in api.invoice_items.list({"pending": True}).data] == [pending.id]
    taken = api.invoices.create(
        {"customer": customer.id, "currency": "cny", "pending_invoice_items_behavior": "include"}
    )
    assert taken.total == 700


def test_a_draft_has_no_page_and_can_be_deleted_with_its_items(api, draft):
    item(api, draft, amount=500)
    assert (draft.status, draft.hosted_invoice_url, draft.number) == ("draft", None, None)

    assert api.invoices.delete(draft.id).deleted is True

    assert refusal(lambda: api.invoices.retrieve(draft.id)).code == "resource_missing"
    assert api.invoice_items.list().data == []


def test_finalizing_freezes_the_invoice(api):
    invoice = open_invoice(api, number="INV-2026-000001")

    assert (invoice.status, invoice.number, invoice.total) == ("open", "INV-2026-000001", 10_600)
    assert (invoice.amount_due, invoice.amount_remaining, invoice.amount_paid) == (10_600, 10_600, 0)
    late = {"customer": invoice.customer, "invoice": invoice.id, "amount": 1, "currency": "cny"}
    assert refusal(lambda: api.invoice_items.create(late)).code == "invoice_not_editable"
    assert refusal(lambda: api.invoices.update(invoice.id, {"number": "X"})).code == "invoice_not_editable"
    refusal(lambda: api.invoices.finalize_invoice(invoice.id))
    refusal(lambda: api.invoices.delete(invoice.id))
    items = api.invoice_items.list({"invoice": invoice.id}).data
    assert refusal(lambda: api.invoice_items.delete(items[0].id)).code == "invoice_not_editable"
    assert api.invoices.retrieve(invoice.id).total == 10_600
    api.invoices.update(invoice.id, {"metadata": {"note": "still editable"}})
    assert api.invoices.retrieve(invoice.id).metadata["note"] == "still editable"


def test_numbers_are_unique_unless_the_other_was_voided(api, customer):
    first = open_invoice(api, number="INV-1")
    wanted = {"customer": customer.id, "currency": "cny", "number": "INV-1"}

    assert refusal(lambda: api.invoices.create(wanted)).param == "number"
    api.invoices.void_invoice(first.id)
    assert api.invoices.create(wanted).number == "INV-1"


def test_a_number_is_given_on_finalizing_when_there_is_none(api):
    assert open_invoice(api).number.endswith("-0001")


STATES = {
    "draft": lambda api, i: i,
    "open": lambda api, i: api.invoices.finalize_invoice(i.id),
    "paid": lambda api, i: api.invoices.pay(api.invoices.finalize_invoice(i.id).id, {"paid_out_of_band": True}),
    "void": lambda api, i: api.invoices.void_invoice(api.invoices.finalize_invoice(i.id).id),
    "uncollectible": lambda api, i: api.invoices.mark_uncollectible(api.invoices.finalize_invoice(i.id).id),
}
VERBS = {
    "finalize": (lambda api, i: api.invoices.finalize_invoice(i.id), {"draft": "open"}),
    "void": (lambda api, i: api.invoices.void_invoice(i.id), {"open": "void", "uncollectible": "void"}),
    "mark_uncollectible": (lambda api, i: api.invoices.mark_uncollectible(i.id), {"open": "uncollectible"}),
    "pay": (
        lambda api, i: api.invoices.pay(i.id, {"paid_out_of_band": True}),
        {"open": "paid", "uncollectible": "paid"},
    ),
    "send": (
        lambda api, i: api.invoices.send_invoice(i.id),
        {"open": "open", "paid": "paid", "uncollectible": "uncollectible"},
    ),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_in_every_state(api, draft, verb, state):
    item(api, draft, amount=5000)
    invoice = STATES[state](api, draft)
    act, allowed = VERBS[verb]

    if state in allowed:
        assert act(api, invoice).status == allowed[state]
    else:
        refusal(lambda: act(api, invoice))
        assert api.invoices.retrieve(invoice.id).status == state


def test_paying_by_card_leaves_the_intent_the_charge_and_the_invoice_payment(api):
    invoice = api.invoices.pay(open_invoice(api).id, {"payment_method": "pm_card_visa"})

    assert (invoice.status, invoice.amount_paid, invoice.amount_remaining) == ("paid", 10_600, 0)
    (payment,) = api.invoice_payments.list({"invoice": invoice.id}).data
    intent = api.payment_intents.retrieve(payment.payment.payment_intent)
    charge = api.charges.retrieve(intent.latest_charge)
    assert (payment.status, payment.amount_paid, intent.status, charge.status) == (
        "paid",
        10_600,
        "succeeded",
        "succeeded",
    )
    assert charge.amount == 10_600


def test_a_declined_card_changes_nothing(api):
    invoice = open_invoice(api)

    with pytest.raises(stripe.CardError) as caught:
        api.invoices.pay(invoice.id, {"payment_method": "pm_card_chargeDeclined"})

    assert caught.value.code == "card_declined"
    assert api.invoices.retrieve(invoice.id).status == "open"
    assert api.charges.list().data == []


@pytest.mark.parametrize("verb", ["void_invoice", "pay"])
def test_money_that_comes_another_way_ends_the_intent(api, verb):
    invoice = open_invoice(api)
    getattr(api.invoices, verb)(invoice.id, {"paid_out_of_band": True} if verb == "pay" else {})

    (payment,) = api.invoice_payments.list({"invoice": invoice.id}).data
    assert payment.status == "canceled"
    assert api.payment_intents.retrieve(payment.payment.payment_intent).status == "canceled"


@pytest.mark.parametrize(
    ("amount", "balance", "due", "left"),
    [
        (10_000, 0, 10_000, 0),
        (10_000, -4_000, 6_000, 0),
        (10_000, -12_000, 0, -2_000),
        (399, 0, 0, 399),
        (400, 0, 400, 0),
        (99_999_999, 0, 99_999_999, 0),
        (100_000_000, 0, 0, 100_000_000),
        (-700, 0, 0, -700),
        (0, 0, 0, 0),
    ],
)
def test_the_customers_balance_takes_what_cannot_be_charged(api, customer, draft, amount, balance, due, left):
    api.customers.update(customer.id, {"balance": balance})
    item(api, draft, amount=amount)

    invoice = api.invoices.finalize_invoice(draft.id)

    assert (invoice.total, invoice.amount_due, invoice.ending_balance) == (amount, due, left)
    assert invoice.status == ("open" if due else "paid")
    assert api.customers.retrieve(customer.id).balance == left


def test_invoices_are_listed_by_customer_status_and_time_over_pages(api, sandbox, customer):
    made = []
    for _ in range(5):
        made.append(api.invoices.create({"customer": customer.id, "currency": "cny"}))
        sandbox.advance_clock(60)
    api.invoices.create({"customer": api.customers.create({}).id, "currency": "cny"})
    api.invoices.finalize_invoice(made[0].id)

    listed = api.invoices.list({"customer": customer.id, "limit": 2}).auto_paging_iter()
    assert [i.id for i in listed] == [i.id for i in reversed(made)]
    drafts = api.invoices.list({"customer": customer.id, "status": "draft"}).data
    assert [i.id for i in drafts] == [i.id for i in reversed(made[1:])]
    window = {"gte": made[1].created, "lt": made[3].created}
    assert [i.id for i in api.invoices.list({"created": window}).data] == [made[2].id, made[1].id]


def test_backwards_pages(api, customer):
    made = [api.invoices.create({"customer": customer.id, "currency": "cny"}).id for _ in range(4)]

    page = api.invoices.list({"ending_before": made[0], "limit": 2})

    assert ([i.id for i in page.data], page.has_more) == ([made[2], made[1]], True)


@pytest.mark.parametrize("key", ["sk_test_other", ""])
def test_another_key_is_turned_away(sandbox, key):
    with pytest.raises(stripe.AuthenticationError):
        sdk(sandbox, key=key or "x").customers.list()


def test_a_live_key_is_refused_at_the_door():
    from marketplace.local.stripe_sandbox import SandboxServer  # noqa: PLC0415

    with pytest.raises(ValueError, match="no business in the sandbox"):
        SandboxServer(api_key="sk_live_abc")
