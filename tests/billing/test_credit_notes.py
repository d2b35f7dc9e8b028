"""Credit notes take back exactly what was invoiced, never more, and the money goes where it belongs."""

from decimal import Decimal

import pytest
from django.db import connection, transaction
from django.db.utils import InternalError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Notification
from billing import actions, ledger
from billing.actions.credit_notes import creditable_minor, remaining_by_line, spread
from billing.models import Book, CreditNote, Fapiao, Gift, Invoice, Posting, Refund
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used
from tests.billing.stripe_side import only_invoice, pay
from tests.support.threads import outcomes, times

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def usage():
    """Two lines of usage: ¥10.00 (tax 57) and ¥7.77 (tax 44)."""
    organization = factories.organization()
    used(rental(organization), NOVEMBER, NOVEMBER + 4 * HOUR)
    used(rental(organization, rate="7.77", name="train-2"), NOVEMBER, NOVEMBER + HOUR)
    (made,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    return made


def bank(invoice, amount_minor, reference="ICBC-1"):
    return actions.record_payment(
        invoice=invoice, method="bank_transfer", reference=reference, amount_minor=amount_minor, currency="CNY",
        received_at=DECEMBER,
    )  # fmt: skip


def credit(invoice, amounts, *, key="note-1", to="balance", reason="机器故障"):
    return actions.issue_credit_note(
        invoice=invoice, amounts=amounts, destination=to, reason=reason, request_key=key, at=DECEMBER
    )


def books(invoice):
    """What stands in the books that a note may move."""
    names = (Book.RECEIVABLE, Book.WALLET, Book.GIFT, Book.REFUNDS, Book.REVENUE, Book.TAX)
    return {str(book): amount for book in names if (amount := ledger.balance(invoice.account, book))}


def facts(invoice):
    invoice.refresh_from_db()
    return invoice.status, invoice.total_minor, invoice.credited_minor, invoice.paid_minor, invoice.outstanding_minor


def lines(invoice):
    return list(invoice.lines.order_by("position"))


def test_before_payment_a_note_lowers_what_is_due(usage):
    first, _second = lines(usage)

    note = credit(usage, {first.pk: 400})

    assert (note.number, note.total_minor, note.tax_minor) == ("CN-2026-000001", 400, 23)
    assert (note.unpaid_minor, note.returned_minor) == (400, 0)
    assert facts(usage) == ("issued", 1777, 400, 0, 1377)
    assert books(usage) == {"receivable": 1377, "revenue": 1377 - (101 - 23), "tax": 78}
    assert ledger.check() == []
    notice = Notification.objects.get(kind="credit_note")
    assert notice.params == {"number": "CN-2026-000001", "invoice": usage.number, "amount": "¥4.00"}


def test_a_note_over_all_that_is_due_pays_the_invoice(usage):
    note = credit(usage, remaining_by_line(usage))

    assert (note.total_minor, note.tax_minor) == (1777, 101)
    assert facts(usage) == ("paid", 1777, 1777, 0, 0)
    assert books(usage) == {}
    assert ledger.check() == []
    assert usage.events.last().note == "CN-2026-000001: ¥17.77 credited"


def test_after_payment_the_money_goes_to_the_balance(usage):
    bank(usage, 1777)
    first, _second = lines(usage)

    note = credit(usage, {first.pk: 1000})

    assert (note.unpaid_minor, note.returned_minor, note.gift_minor) == (0, 1000, 0)
    assert facts(usage) == ("paid", 1777, 1000, 777, 0)
    assert books(usage) == {"wallet": 1000, "revenue": 733, "tax": 44}
    assert ledger.check() == []
    assert not Refund.objects.exists()


def test_part_paid_lowers_what_is_due_first(usage):
    bank(usage, 1000)

    note = credit(usage, spread(usage, 900))

    assert (note.unpaid_minor, note.returned_minor) == (777, 123)
    assert facts(usage) == ("paid", 1777, 900, 877, 0)
    assert books(usage)["wallet"] == 123
    assert ledger.check() == []


def test_back_to_the_source_goes_only_what_came_from_one(usage):
    """¥10 by bank and ¥7.77 from the balance: the bank's part is refunded by hand, the rest returns to the balance."""
    bank(usage, 1000)
    top_up(usage.account, 777)
    actions.pay_from_wallet(invoice=usage, at=DECEMBER)

    credit(usage, remaining_by_line(usage), to="source")

    refund = Refund.objects.get()
    assert (refund.method, refund.amount_minor, refund.status) == ("bank_transfer", 1000, "pending")
    assert books(usage) == {"refunds": 1000, "wallet": 777}
    actions.confirm_bank_refund(refund=refund, reference="OUT-1", at=DECEMBER)
    assert books(usage) == {"wallet": 777}
    assert ledger.check() == []


def test_gifted_credit_comes_back_as_gifted_credit(usage):
    actions.grant_gift(
        organization=usage.organization, amount_minor=500, reason="welcome", request_key="g", at=DECEMBER
    )
    top_up(usage.account, 2000)
    actions.pay_from_wallet(invoice=usage, at=DECEMBER)
    assert (Invoice.objects.get().gift_minor, books(usage)["wallet"]) == (500, 723)

    note = credit(usage, remaining_by_line(usage))

    assert (note.returned_minor, note.gift_minor) == (1777, 500)
    assert (books(usage)["wallet"], books(usage)["gift"]) == (2000, 500)
    assert Gift.objects.get(request_key=f"note:{note.key}").amount_minor == 500
    assert ledger.check() == []


def top_up(account, amount_minor):
    with transaction.atomic():
        ledger.post(
            account=account, kind=Posting.Kind.TOP_UP, fact=f"pi_{amount_minor}",
            entries={Book.CASH: amount_minor, Book.WALLET: -amount_minor}, at=DECEMBER, currency="CNY",
        )  # fmt: skip


def test_the_same_request_is_the_same_note(usage):
    first, _second = lines(usage)

    assert credit(usage, {first.pk: 100}) == credit(usage, {first.pk: 100})
    assert facts(usage)[2] == 100


def test_numbers_have_no_gaps(usage):
    first, second = lines(usage)
    credit(usage, {first.pk: 100}, key="a")
    with pytest.raises(actions.CreditRefused):
        credit(usage, {first.pk: 5000}, key="b")
    credit(usage, {second.pk: 100}, key="c")

    assert list(CreditNote.objects.order_by("pk").values_list("number", flat=True)) == [
        "CN-2026-000001",
        "CN-2026-000002",
    ]


@pytest.mark.parametrize(
    ("amount", "code"),
    [(1001, "line_exceeded"), (0, "amount_not_positive"), (-1, "amount_not_positive"), (1778, "invoice_exceeded")],
)
def test_never_above_what_was_invoiced(usage, amount, code):
    first, _second = lines(usage)
    with pytest.raises(actions.CreditRefused) as refusal:
        credit(usage, {first.pk: amount})

    assert refusal.value.code == code
    assert not CreditNote.objects.exists()
    assert facts(usage) == ("issued", 1777, 0, 0, 1777)


def test_a_line_of_another_invoice_cannot_be_credited(usage):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    actions.draft_usage_invoices(at=DECEMBER)
    other = Invoice.objects.exclude(pk=usage.pk).get()

    with pytest.raises(actions.CreditRefused) as refusal:
        credit(usage, {lines(other)[0].pk: 10})

    assert refusal.value.code == "line_exceeded"
    assert not CreditNote.objects.exists()


def test_a_draft_and_an_unpaid_order_cannot_be_credited(usage):
    prepaid = actions.draft_order_invoice(order=order(), at=NOVEMBER)

    with pytest.raises(actions.CreditRefused) as refusal:
        credit(prepaid, spread(prepaid, 100))

    assert refusal.value.code == "order_unpaid"
    actions.void_invoice(invoice=usage, at=DECEMBER)
    with pytest.raises(actions.CreditRefused) as refusal:
        credit(usage, {lines(usage)[0].pk: 1})
    assert refusal.value.code == "not_issued"


def test_the_database_holds_the_limit_of_a_line(usage):
    first, _second = lines(usage)
    note = credit(usage, {first.pk: 900})

    with pytest.raises(InternalError, match="has only"), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO billing_creditnoteline (note_id, line_id, amount_minor, tax_minor) VALUES (%s, %s, 101, 0)",
            [note.pk, first.pk],
        )


def test_notes_in_parallel_take_no_more_than_there_is(usage):
    first, _second = lines(usage)

    def take(number):
        return credit(usage, {first.pk: 300}, key=f"n{number}")

    found = outcomes(*times(6, take))

    assert sum(isinstance(each, CreditNote) for each in found) == 3
    assert {each.code for each in found if isinstance(each, Exception)} == {"line_exceeded"}
    assert facts(usage)[2] == 900
    assert ledger.check() == []


# --- any order reaches exactly zero (lago 2643 and 4553) ------------------------------------------------------------
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    amounts=st.lists(st.integers(min_value=400, max_value=2_000), min_size=1, max_size=4),
    percents=st.lists(st.sampled_from(["6", "13", "0", "1"]), min_size=4, max_size=4),
    cuts=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 700)), max_size=8),
    paid=st.integers(0, 5_000),
)
def test_partial_notes_in_any_order_reach_exactly_zero(amounts, percents, cuts, paid):
    invoice = invoice_of(amounts, percents)
    paid = min(paid, invoice.total_minor)
    if paid:
        bank(invoice, paid, reference=f"R-{invoice.pk}")
    for number, (index, cut) in enumerate(cuts):
        line = lines(invoice)[index % len(amounts)]
        left = remaining_by_line(invoice)[line.pk]
        if left:
            credit(invoice, {line.pk: min(cut, left)}, key=f"{invoice.pk}:{number}")
    rest = {pk: left for pk, left in remaining_by_line(invoice).items() if left}
    if rest:
        credit(invoice, rest, key=f"{invoice.pk}:rest")

    assert creditable_minor(invoice) == 0
    assert set(remaining_by_line(invoice).values()) == {0}
    for line in lines(invoice):
        taken = list(line.credits.values_list("amount_minor", "tax_minor"))
        assert (sum(a for a, _t in taken), sum(t for _a, t in taken)) == (line.amount_minor, line.tax_minor)
    assert facts(invoice) == ("paid", invoice.total_minor, invoice.total_minor, 0, 0)
    assert books(invoice) == ({"wallet": paid} if paid else {})
    assert ledger.check() == []


def invoice_of(amounts, percents):
    """An issued invoice with lines of these amounts; the taxes within are rounded line by line."""
    organization = factories.organization()
    for number, (amount, percent) in enumerate(zip(amounts, percents, strict=False)):
        machine = rental(organization, rate=str(Decimal(amount) / 100), name=f"m{number}")
        type(machine.subscription).objects.filter(pk=machine.subscription_id).update(tax_percent=Decimal(percent))
        machine.refresh_from_db()
        used(machine, NOVEMBER, NOVEMBER + HOUR)
    (made,) = [i for i in actions.draft_usage_invoices(at=DECEMBER).invoices if i.organization_id == organization.pk]
    return made


# --- Stripe ---------------------------------------------------------------------------------------------------------
def test_stripe_hears_of_a_note_before_payment(usage, sandbox):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    usage.refresh_from_db()
    first, _second = lines(usage)
    note = credit(usage, {first.pk: 400})

    actions.sweep_credit_notes(at=DECEMBER)

    note.refresh_from_db()
    (theirs,) = sandbox.objects("credit_note")
    assert (note.stripe_credit_note_id, note.next_push_at) == (theirs["id"], None)
    assert (theirs["total"], theirs["pre_payment_amount"], theirs["memo"]) == (400, 400, "CN-2026-000001")
    assert only_invoice(sandbox)["amount_remaining"] == 1377
    pay(usage)
    actions.apply_stripe_invoice(theirs=stripe_invoice(usage), at=DECEMBER)
    assert facts(usage) == ("paid", 1777, 400, 1377, 0)
    assert ledger.check() == []


def stripe_invoice(invoice):
    from billing import stripe_gateway  # noqa: PLC0415

    invoice.refresh_from_db()
    return stripe_gateway.retrieve_invoice(invoice_id=invoice.stripe_invoice_id)


def test_stripe_hears_of_a_note_after_payment_with_its_refund(usage, sandbox):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    usage.refresh_from_db()
    pay(usage)
    actions.apply_stripe_invoice(theirs=stripe_invoice(usage), at=DECEMBER)
    first, _second = lines(usage)
    note = credit(usage, {first.pk: 1000}, to="source")
    actions.sweep_credit_notes(at=DECEMBER)
    assert sandbox.objects("credit_note") == []  # its refund is not sent yet

    actions.sweep_refunds(at=DECEMBER)
    actions.sweep_credit_notes(at=DECEMBER + HOUR)

    (refund,) = sandbox.objects("refund")
    (theirs,) = sandbox.objects("credit_note")
    assert (refund["amount"], theirs["post_payment_amount"], theirs["out_of_band_amount"]) == (1000, 1000, None)
    assert theirs["refunds"][0]["refund"] == refund["id"]
    note.refresh_from_db()
    assert note.stripe_credit_note_id == theirs["id"]


def test_a_note_that_is_paid_back_to_the_balance_is_out_of_band_at_stripe(usage, sandbox):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    usage.refresh_from_db()
    pay(usage)
    actions.apply_stripe_invoice(theirs=stripe_invoice(usage), at=DECEMBER)
    credit(usage, {lines(usage)[0].pk: 300})

    actions.sweep_credit_notes(at=DECEMBER)

    (theirs,) = sandbox.objects("credit_note")
    assert (theirs["post_payment_amount"], theirs["out_of_band_amount"]) == (300, 300)


@pytest.mark.parametrize("kind", ["drop_before", "drop_after", "error", "error_after", "conflict", "limit"])
def test_every_fault_ends_with_one_note_at_stripe(usage, sandbox, kind):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    usage.refresh_from_db()
    credit(usage, {lines(usage)[0].pk: 300})
    sandbox.faults.configure({"requests": [{"kind": kind, "times": 3, "path": "/v1/credit_notes", "method": "POST"}]})

    for hours in range(6):
        actions.sweep_credit_notes(at=DECEMBER + hours * HOUR)
        sandbox.advance_clock(30 * 3600)

    assert [theirs["total"] for theirs in sandbox.objects("credit_note")] == [300]
    assert CreditNote.objects.get().stripe_credit_note_id == sandbox.objects("credit_note")[0]["id"]


def test_wallet_money_is_reported_to_stripe_once(usage, sandbox):
    actions.push(invoice_id=usage.pk, at=DECEMBER)
    usage.refresh_from_db()
    top_up(usage.account, 700)
    actions.pay_from_wallet(invoice=usage, at=DECEMBER)

    for _ in range(2):
        actions.report_payments(at=DECEMBER)

    assert (only_invoice(sandbox)["amount_remaining"], len(sandbox.objects("payment_record"))) == (1077, 1)
    pay(usage)
    actions.apply_stripe_invoice(theirs=stripe_invoice(usage), at=DECEMBER)
    assert facts(usage) == ("paid", 1777, 0, 1777, 0)
    assert ledger.check() == []


def test_an_issued_fapiao_goes_to_its_red_flush(usage):
    bank(usage, 1777)
    paper = Fapiao.objects.create(
        invoice=usage, serial="F1", kind="ordinary", status="issued", buyer={}, currency="CNY", total_minor=1777,
        tax_minor=101, number="2" * 20, issued_on=DECEMBER.date(), requested_at=DECEMBER,
    )  # fmt: skip

    credit(usage, {lines(usage)[0].pk: 400})

    paper.refresh_from_db()
    assert paper.status == "red_pending"
