"""Bank transfers: slips credit nothing, a line of the statement is written once, a match is booked once."""

from datetime import date, timedelta

import pytest

from accounts.models import Notification
from billing import actions, ledger, remarks
from billing.actions.transfers import SLIP_MOST_BYTES
from billing.models import BankTransfer, Book, Payment, Posting, TransferSlip
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, order, rental, used

pytestmark = pytest.mark.django_db(transaction=True)

PDF, PNG, JPEG = b"%PDF-1.7\n...", b"\x89PNG\r\n\x1a\n....", b"\xff\xd8\xff\xe0...."


@pytest.fixture(autouse=True)
def _own_files(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def lab():
    return factories.organization(name="福州智算科技有限公司")


def slip(of, content=PDF, amount=100_000, payer="福州智算科技有限公司", sent_on=date(2026, 12, 1)):
    return actions.submit_slip(
        organization=of, amount_minor=amount, payer=payer, sent_on=sent_on, content=content, at=DECEMBER
    )


def line(reference="ICBC-1", amount=100_000, payer="福州智算科技有限公司", remark="", currency="CNY", at=DECEMBER):
    return actions.StatementLine(
        reference=reference, payer=payer, amount_minor=amount, currency=currency, remark=remark, received_at=at
    )


def received(**fields):
    return actions.record_transfer(line=line(**fields), at=DECEMBER)[0]


def balance(of):
    return ledger.balance(actions.account_of(organization=of), Book.WALLET)


# --- the code --------------------------------------------------------------------------------------------------------
def test_a_code_names_its_account_and_no_damaged_one_names_any():
    code = remarks.code_of(38)

    assert code == "GP0000003881"
    assert remarks.ids_in(code) == [38]
    digits = code[2:]
    for place in range(10):
        for wrong in "0123456789":
            damaged = digits[:place] + wrong + digits[place + 1 :]
            if damaged != digits:
                assert remarks.ids_in(f"GP{damaged}") == []
    for place in range(9):
        swapped = digits[:place] + digits[place + 1] + digits[place] + digits[place + 2 :]
        if swapped != digits:
            assert remarks.ids_in(f"GP{swapped}") == []


FULL_WIDTH = "".join(chr(ord(character) + 0xFEE0) for character in "GP0000003881")


@pytest.mark.parametrize(
    "text", ["GP0000003881", "货款 GP0000003881 十二月", "gp 0000-0038 81", "转账GP0000003881 2026年", FULL_WIDTH]
)
def test_a_code_is_read_however_it_is_typed(text):
    assert remarks.ids_in(text) == [38]


def test_two_codes_name_nobody(lab):
    other = actions.account_of(organization=factories.organization(name="other"))
    mine = actions.account_of(organization=lab)

    assert remarks.account_of_remark(f"转账 {remarks.remark_code(mine)}") == mine
    assert remarks.account_of_remark(f"{remarks.remark_code(mine)} {remarks.remark_code(other)}") is None
    assert remarks.account_of_remark("货款") is None


# --- slips -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("content", "ending"), [(PDF, ".pdf"), (PNG, ".png"), (JPEG, ".jpg")])
def test_a_slip_is_kept_once_and_credits_nothing(lab, content, ending):
    made = slip(lab, content)

    assert slip(lab, content) == made
    assert made.file.name.endswith(f"{made.key}{ending}")
    with made.file.open("rb") as kept:
        assert kept.read() == content
    assert (TransferSlip.objects.count(), balance(lab), Posting.objects.count()) == (1, 0, 0)


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"content": b"<html>"}, "file_kind", "file"),
        ({"content": b""}, "file_kind", "file"),
        ({"content": PDF + b"x" * SLIP_MOST_BYTES}, "file_too_large", "file"),
        ({"amount": 0}, "amount_not_positive", "amount"),
        ({"payer": " "}, "payer_missing", "payer"),
        ({"sent_on": date(2026, 12, 2)}, "sent_in_future", "sent_on"),
    ],
)
def test_a_slip_that_cannot_be_leaves_nothing(lab, tmp_path, fields, code, field):
    with pytest.raises(actions.SlipRefused) as refusal:
        slip(lab, **fields)

    assert (refusal.value.code, refusal.value.field) == (code, field)
    assert not TransferSlip.objects.exists()
    assert list(tmp_path.rglob("*.*")) == []


def test_a_rejected_slip_says_why_and_may_be_sent_again(lab):
    made = slip(lab)
    for _time in range(2):
        actions.reject_slip(slip=made, reason="查无此款", at=DECEMBER)

    made.refresh_from_db()
    assert (made.status, made.reason) == ("rejected", "查无此款")
    told = Notification.objects.get(kind="slip_rejected")
    assert told.params["reason"] == "查无此款"
    assert slip(lab) != made
    with pytest.raises(actions.SlipRefused):
        actions.reject_slip(slip=made, reason="another", at=DECEMBER)
    with pytest.raises(actions.SlipRefused):
        actions.reject_slip(slip=slip(lab), reason=" ", at=DECEMBER)


# --- the statement ---------------------------------------------------------------------------------------------------
def test_a_line_is_written_once_and_another_amount_under_it_is_refused():
    first, created = actions.record_transfer(line=line(), at=DECEMBER)
    again, anew = actions.record_transfer(line=line(), at=DECEMBER)

    assert (first, created, anew) == (again, True, False)
    with pytest.raises(actions.TransferRefused) as refusal:
        received(amount=99_999)
    assert refusal.value.code == "reference_taken"
    assert BankTransfer.objects.count() == 1


def test_a_statement_is_taken_whole_or_not_at_all():
    lines = [line("a"), line("b"), line("c", amount=0)]
    with pytest.raises(actions.TransferRefused):
        actions.record_statement(lines=lines, at=DECEMBER)
    assert not BankTransfer.objects.exists()

    assert actions.record_statement(lines=lines[:2], at=DECEMBER) == (2, 0)
    assert actions.record_statement(lines=[*lines[:2], line("d")], at=DECEMBER) == (1, 2)


# --- whose it is -----------------------------------------------------------------------------------------------------
def test_code_name_and_slip_are_proposed_and_nothing_is_decided(lab):
    mine = actions.account_of(organization=lab)
    told = slip(lab)
    transfer = received(remark=f"货款{remarks.remark_code(mine)}")

    (proposal,) = actions.propose(transfer)

    assert (proposal.account, proposal.slip, proposal.certainty) == (mine, told, 3)
    transfer.refresh_from_db()
    assert (transfer.status, balance(lab)) == ("unmatched", 0)


def test_another_currency_is_not_proposed(lab):
    actions.account_of(organization=lab)

    assert actions.propose(received(currency="USD")) == []


def test_a_match_is_booked_once(lab):
    told = slip(lab)
    transfer = received()

    for _time in range(2):
        actions.match_transfer(transfer=transfer, organization=lab, slip=told, at=DECEMBER)

    told.refresh_from_db()
    assert (told.status, balance(lab), Posting.objects.count()) == ("matched", 100_000, 1)
    assert ledger.trial_balance() == {"CNY": {"cash": 100_000, "wallet": -100_000}}
    assert Notification.objects.filter(kind="balance_credited").count() == 1
    other = factories.organization(name="other")
    with pytest.raises(actions.TransferRefused) as refusal:
        actions.match_transfer(transfer=transfer, organization=other, at=DECEMBER)
    assert refusal.value.code == "decided"
    assert balance(other) == 0


def test_what_does_not_fit_is_refused(lab):
    other = factories.organization(name="other", currency="USD")
    transfer, told = received(), slip(lab)

    with pytest.raises(actions.TransferRefused) as refusal:
        actions.match_transfer(transfer=transfer, organization=other, at=DECEMBER)
    assert refusal.value.code == "currency_differs"
    third = factories.organization(name="third")
    with pytest.raises(actions.TransferRefused) as refusal:
        actions.match_transfer(transfer=transfer, organization=third, slip=told, at=DECEMBER)
    assert refusal.value.code == "slip_of_another"
    transfer.refresh_from_db()
    assert (transfer.status, Posting.objects.count()) == ("unmatched", 0)


@pytest.mark.parametrize(("amount", "paid", "left"), [(400, 400, 0), (1_000, 1_000, 0), (2_500, 1_000, 1_500)])
def test_a_match_pays_a_months_invoice_in_part_whole_or_with_something_left(amount, paid, left):
    used(rental(), NOVEMBER, NOVEMBER + 4 * HOUR)
    (invoice,) = actions.draft_usage_invoices(at=DECEMBER).invoices
    actions.grant_gift(organization=invoice.organization, amount_minor=50, reason="x", request_key="g", at=NOVEMBER)

    actions.match_transfer(
        transfer=received(amount=amount), organization=invoice.organization, invoice=invoice, at=DECEMBER
    )

    invoice.refresh_from_db()
    assert (invoice.paid_minor, invoice.gift_minor, balance(invoice.organization)) == (paid, 0, left)
    assert (invoice.status == "paid") == (paid == 1_000)
    assert ledger.check() == []


def test_too_little_for_a_prepaid_order_stays_in_the_balance():
    invoice = actions.draft_order_invoice(order=order(hold=timedelta(days=40)), at=NOVEMBER)

    actions.match_transfer(
        transfer=received(amount=1_000), organization=invoice.organization, invoice=invoice, at=DECEMBER
    )

    assert (Payment.objects.count(), balance(invoice.organization)) == (0, 1_000)


def test_what_nobody_knows_is_sent_back(lab):
    transfer = received()
    for _time in range(2):
        actions.return_transfer(transfer=transfer, note="unknown payer", at=DECEMBER)

    with pytest.raises(actions.TransferRefused):
        actions.match_transfer(transfer=transfer, organization=lab, at=DECEMBER)
    assert balance(lab) == 0
