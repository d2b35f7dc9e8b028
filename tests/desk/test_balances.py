"""Transfers, slips, gifts and vouchers on the desk: buttons call actions, refusals leave nothing."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from billing import actions as billing
from billing import ledger
from billing.models import BankTransfer, Book, Gift, ReceivingAccount, TransferSlip, Voucher
from billing.remarks import remark_code
from tests.billing.builders import NOVEMBER
from tests.desk import world
from tests.desk.test_buttons import press, told

pytestmark = pytest.mark.django_db

STATEMENT = """账户明细,,,,,
交易时间,流水号,对方户名,支出金额,收入金额,附言
2026-11-02 10:30:00,A1,福州智算,,"1,000.50",{code}
2026-11-02 11:00:00,A2,电力公司,30.00,,电费
2026-11-03 09:00:00,A3,某公司,,20,
"""


@pytest.fixture
def bank():
    return ReceivingAccount.objects.create(currency="CNY", holder="福州算力", bank="工商银行", number="1402")


def imported(client, bank, text, encoding="gb18030"):
    file = SimpleUploadedFile("statement.csv", text.encode(encoding))
    return press(client, bank, "add_statement", file=file)


def balance(of, book=Book.WALLET):
    return ledger.balance(billing.account_of(organization=of), book)


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8-sig", "utf-8"])
def test_a_statement_is_imported_once_and_waits(staff, bank, encoding):
    client = staff("finance")
    for new, known in ((2, 0), (0, 2)):
        answer = imported(client, bank, STATEMENT.format(code=""), encoding)
        assert told(answer)[-1] == f"{new} payments were recorded, {known} were known already."

    assert list(BankTransfer.objects.order_by("reference").values_list("reference", "amount_minor", "status")) == [
        ("A1", 100_050, "unmatched"), ("A3", 2_000, "unmatched"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [("流水号,对方户名\nA1,x\n", "were not found"), (STATEMENT.replace(",20,", ",2o,"), "is no amount"),
     (STATEMENT.replace("2026-11-03 09:00:00", "gestern"), "is no date")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_records_nothing(staff, bank, text, said):
    answer = imported(staff("finance"), bank, text)

    assert said in answer.content.decode()
    assert not BankTransfer.objects.exists()


def test_a_transfer_is_matched_to_the_proposed_account(staff, bank):
    client, of = staff("finance"), world.customer()
    account = billing.account_of(organization=of)
    imported(client, bank, STATEMENT.format(code=f"货款{remark_code(account)}"))
    transfer = BankTransfer.objects.get(reference="A1")

    nothing = press(client, transfer, "match", proposal="")
    assert "Choose one account" in nothing.content.decode()
    answer = press(client, transfer, "match", proposal=account.pk)

    assert told(answer)[-1].startswith("¥1,000.50 was credited to")
    assert balance(of) == 100_050


def test_a_transfer_is_matched_by_code_and_sent_back_by_button(staff, bank):
    client, of = staff("finance"), world.customer()
    imported(client, bank, STATEMENT.format(code=""))
    first, second = BankTransfer.objects.order_by("reference")

    wrong = press(client, first, "match", code="GP0000000000")
    assert "No account has this code" in wrong.content.decode()
    press(client, first, "match", code=remark_code(billing.account_of(organization=of)))
    press(client, second, "give_back", note="unknown")

    assert balance(of) == 100_050
    assert sorted(BankTransfer.objects.values_list("status", flat=True)) == ["matched", "returned"]


def test_a_slip_is_read_and_rejected_by_finance_alone(staff):
    of = world.customer()
    slip = billing.submit_slip(
        organization=of, amount_minor=1, payer="x", sent_on=NOVEMBER.date(), content=b"%PDF-1.7", at=NOVEMBER
    )
    address = reverse("admin:billing_transferslip_file", args=[slip.pk])
    client = staff("finance")

    assert b"".join(client.get(address).streaming_content) == b"%PDF-1.7"
    assert staff("operations").get(address).status_code == 403
    assert press(staff("sales"), slip, "reject", reason="x").status_code == 403
    press(client, slip, "reject", reason="查无此款")
    assert TransferSlip.objects.get().status == "rejected"


def test_credit_is_gifted_once_a_form(staff):
    of, client = world.customer(), staff("finance")
    account = billing.account_of(organization=of)
    for _press in range(2):
        answer = press(client, account, "gift", amount="50", reason="Sorry", request_key="k1")

    assert told(answer)[-1] == "¥50.00 was given."
    assert (balance(of, Book.GIFT), Gift.objects.count()) == (5_000, 1)
    assert press(staff("sales"), account, "gift", amount="50", reason="x", request_key="k2").status_code == 403


def test_vouchers_are_made_in_a_batch(staff):
    client, address = staff("finance"), reverse("admin:billing_voucher_add")
    fields = {"count": "5", "amount": "12.50", "currency": "CNY", "reason": "Fair", "days": "30"}

    assert client.get(address).status_code == 200
    assert client.post(address, {**fields, "valid_until": "2020-01-01T00:00"}).status_code == 200
    assert not Voucher.objects.exists()
    client.post(address, {**fields, "valid_until": "2099-01-01T00:00"})

    assert set(Voucher.objects.values_list("amount_minor", "days", "reason")) == {(1_250, 30, "Fair")}
    assert Voucher.objects.count() == 5
