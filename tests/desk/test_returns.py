"""Credit notes, refunds, disputes and differences on the desk: buttons call actions, refusals leave nothing."""

import pytest

from billing import actions as billing
from billing import ledger
from billing.models import Book, CreditNote, Dispute, Invoice, Reconciliation, ReconciliationDifference, Refund
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used
from tests.desk import world
from tests.desk.test_buttons import press, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def paid():
    """¥10.00 of usage, paid by bank."""
    used(rental(world.customer()), NOVEMBER, NOVEMBER + 4 * HOUR)
    billing.draft_usage_invoices(at=DECEMBER)
    made = Invoice.objects.get()
    billing.record_payment(
        invoice=made, method="bank_transfer", reference="IN-1", amount_minor=1000, currency="CNY", received_at=DECEMBER
    )
    return made


def form(invoice, **changes):
    return {"seen": invoice.credited_minor, "line": "", "amount": "4.00", "destination": "balance", "reason": "停机",
            **changes}  # fmt: skip


def test_a_credit_note_is_issued_on_the_invoices_page(staff, paid):
    answer = press(staff("finance"), paid, "credit", **form(paid))

    note = CreditNote.objects.get()
    assert told(answer) == [f"{note.number} over ¥4.00 is issued."]
    assert (note.total_minor, note.destination, note.reason) == (400, "balance", "停机")
    assert note.issued_by is not None
    assert ledger.balance(paid.account, Book.WALLET) == 400


def test_a_second_press_of_the_same_form_issues_nothing(staff, paid):
    client, same = staff("finance"), form(paid)
    press(client, paid, "credit", **same)

    answer = press(client, paid, "credit", **same)

    assert "credited in the meantime" in answer.content.decode()
    assert CreditNote.objects.count() == 1


def test_one_line_may_be_chosen_and_its_limit_is_told(staff, paid):
    line = paid.lines.get()
    answer = press(staff("finance"), paid, "credit", **form(paid, line=line.pk, amount="10.01"))

    assert "Only ¥10.00" in answer.content.decode()
    assert not CreditNote.objects.exists()


def test_a_refund_by_bank_is_confirmed_with_its_reference(staff, paid):
    client = staff("finance")
    press(client, paid, "credit", **form(paid, destination="source"))
    refund = Refund.objects.get()

    assert told(press(client, refund, "confirm", reference="OUT-9"))[-1] == "¥4.00 is refunded."

    refund.refresh_from_db()
    assert (refund.status, refund.reference) == ("succeeded", "OUT-9")
    assert ledger.balance(paid.account, Book.REFUNDS) == 0


def test_a_refund_may_stay_on_the_balance(staff, paid):
    client = staff("finance")
    press(client, paid, "credit", **form(paid, destination="source"))

    assert told(press(client, Refund.objects.get(), "keep"))[-1] == "¥4.00 is on the balance."

    assert ledger.balance(paid.account, Book.WALLET) == 400


def test_what_a_repair_cannot_settle_is_told(staff, paid):
    """Without Stripe there is no answer: the row stays open and the page says why."""
    Reconciliation.objects.create(since=NOVEMBER, until=DECEMBER, started_at=DECEMBER)
    row = ReconciliationDifference.objects.create(
        kind="refund", subject="11111111-1111-4111-8111-111111111111", stripe_id="re_1", problem="x",
        found_at=DECEMBER, seen_at=DECEMBER,
    )  # fmt: skip

    answer = press(staff("finance"), row, "repair")

    assert len(told(answer)) == 1
    row.refresh_from_db()
    assert row.state == "open"


@pytest.mark.parametrize("group", ["operations", "sales", "auditor"])
def test_other_groups_press_nothing(staff, paid, group):
    client = staff(group)
    refund = Refund.objects.create(
        account=paid.account, request_key="r", payment=paid.payments.get(), method="bank_transfer", amount_minor=1,
        currency="CNY", created_at=DECEMBER,
    )  # fmt: skip
    dispute = Dispute.objects.create(
        stripe_id="dp_1", account=paid.account, payment=paid.payments.get(), amount_minor=1, currency="CNY",
        opened_at=DECEMBER, status="lost",
    )  # fmt: skip

    assert press(client, paid, "credit", **form(paid)).status_code == 403
    assert press(client, refund, "confirm", reference="x").status_code == 403
    assert press(client, dispute, "give_credit").status_code == 403

    refund.refresh_from_db()
    assert (CreditNote.objects.count(), refund.status) == (0, "pending")
