"""Rows of everything a desk shows, each with relations of its own, so that lists have names to fetch."""

import itertools
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pgtrigger
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing import actions as billing
from billing.models import (
    Arrears,
    ArrearsStep,
    ClosedMonth,
    CreditNote,
    CreditNoteLine,
    Dispute,
    ExportJob,
    Fapiao,
    Invoice,
    InvoiceEvent,
    LedgerEntry,
    NumberSeries,
    Payment,
    Posting,
    ReceivingAccount,
    Reconciliation,
    ReconciliationDifference,
    Refund,
    StripeEvent,
    TaxProfile,
)
from catalog.models import (
    Allocation,
    ContractPrice,
    DeliveryRecord,
    Gpu,
    Offer,
    Pool,
    Question,
    Region,
    Reservation,
    Source,
    Waitlist,
)
from marketplace.lib import clock
from orders import actions as orders
from orders.models import Commitment, Order, OrderEvent, Quote, TermRefund, VolumeTier
from rentals.models import Member, Orphan, Rental, RentalEvent
from tests import factories
from tests.billing import builders
from tests.trust import builders as trust
from trust.models import Page, Watch

_number = itertools.count(1)
NOVEMBER = builders.NOVEMBER


def customer(**fields):
    number = next(_number)
    return factories.organization(name=f"客户 {number}", **fields)


def offer(**fields) -> Offer:
    """An offer with a region, model and pool of its own; 8 cards on one host."""
    number = next(_number)
    pool = factories.pool(model=factories.gpu_model(f"gpu-{number}", name=f"NVIDIA {number}", vendor="NVIDIA"))
    region = Region.objects.create(
        code=f"cn-{number}", name_zh=f"城市 {number}", name_en=f"City {number}", timezone="Asia/Shanghai"
    )
    Pool.objects.filter(pk=pool.pk).update(region=region)
    pool.refresh_from_db()
    return factories.offer(pool, **fields)


def rental(of=None, *, status="running", **fields) -> Rental:
    """A machine with its member, two events, an order with an event and a window of usage."""
    made = builders.rental(of or customer(), offer=offer(), name=f"gpu-{next(_number)}")
    host = made.pool.hosts.get()
    Member.objects.create(rental=made, ordinal=0, host=host, cards=[host.gpus.first().serial])
    RentalEvent.objects.create(rental=made, kind="status", what="running", at=NOVEMBER, actor=factories.user())
    RentalEvent.objects.create(
        rental=made, kind="call", what="ensure", outcome="ok", milliseconds=421, at=NOVEMBER, actor=None
    )
    order = made.order_line.order
    OrderEvent.objects.create(order=order, status=order.status, actor=order.placed_by, at=NOVEMBER)
    if status == Rental.Status.SUSPENDED:
        fields = {"suspension": Rental.Suspension.OPERATOR, "suspended_at": NOVEMBER} | fields
    with pgtrigger.ignore("rentals.Rental:status_moves"):  # a state without its whole past
        Rental.objects.filter(pk=made.pk).update(status=status, **fields)
    made.refresh_from_db()
    return made


def waiting_order(of=None, *, at: datetime | None = None) -> Order:
    """An unpaid order by the month, its card held."""
    return factories.order(of or customer(), offer(), term="month", at=at or clock.now())


def invoice(of=None) -> Invoice:
    """An issued invoice over one month of one card."""
    order = builders.order(of or customer(), offer=offer(), rate="1280")
    return billing.draft_order_invoice(order=order, at=NOVEMBER)


def quote(of=None, *, lines: int = 1, at: datetime | None = None) -> Quote:
    """A draft with lines over one card for three months at 10 % off, valid for a week."""
    at = at or clock.now()
    made = orders.create_quote(
        organization=of or customer(), actor=factories.user(), valid_until=at + timedelta(days=7), at=at, note="谢谢"
    )
    for _ in range(lines):
        orders.add_quote_line(
            quote_id=made.pk, offer=offer(), image=factories.image(), quantity=1, term="month", periods=3,
            discount_percent=Decimal(10), at=at,
        )  # fmt: skip
    return made


def stripe_event(**fields) -> StripeEvent:
    number = next(_number)
    values = {"type": "invoice.paid", "object_id": f"in_{number}", "payload": {"id": f"evt_{number}"}}
    return StripeEvent.objects.create(stripe_id=f"evt_{number}", received_at=NOVEMBER, **values | fields)


def returned(bill: Invoice, number: int) -> None:
    """A credit note, a refund, a dispute, and a difference that the comparison with Stripe found."""
    note = CreditNote.objects.create(
        account=bill.account, invoice=bill, number=f"CN{number}", request_key=f"n{number}", currency="CNY",
        total_minor=100, tax_minor=6, unpaid_minor=100, destination="balance", reason="R-1", issued_at=NOVEMBER,
        issued_by=factories.user(),
    )  # fmt: skip
    CreditNoteLine.objects.create(note=note, line=bill.lines.first(), amount_minor=100, tax_minor=6)
    came = bill.payments.get()
    Refund.objects.create(
        account=bill.account, request_key=f"r{number}", credit_note=note, payment=came, method="bank_transfer",
        amount_minor=50, currency="CNY", requested_by=factories.user(), created_at=NOVEMBER,
    )  # fmt: skip
    Dispute.objects.create(
        stripe_id=f"dp_{number}", account=bill.account, payment=came, amount_minor=50, currency="CNY",
        opened_at=NOVEMBER,
    )  # fmt: skip
    Reconciliation.objects.create(since=NOVEMBER, until=NOVEMBER + timedelta(days=1), started_at=NOVEMBER)
    ReconciliationDifference.objects.create(
        kind="invoice", stripe_id=f"in_{number}", subject=str(bill), problem="P-1", found_at=NOVEMBER,
        seen_at=NOVEMBER,
    )  # fmt: skip


def tax_papers(bill: Invoice, number: int) -> None:
    """A tax profile, and a fapiao that was asked for with it."""
    TaxProfile.objects.create(
        organization=bill.organization, title="T-1", tax_id="91350100MA00000155", updated_at=NOVEMBER,
        updated_by=factories.user(),
    )  # fmt: skip
    Fapiao.objects.create(
        invoice=bill, serial=f"S{number}", kind="special", currency="CNY", total_minor=100, tax_minor=6,
        requested_by=factories.user(), requested_at=NOVEMBER,
    ).events.create(status="requested", actor=factories.user(), at=NOVEMBER)  # fmt: skip


def balances(number: int) -> None:
    """A top-up, a slip with the transfer it tells of, and a voucher somebody redeemed."""
    of, clerk = customer(), factories.user()
    billing.begin_top_up(organization=of, amount_minor=1000, request_key="t", at=NOVEMBER, actor=factories.user())
    billing.submit_slip(
        organization=of, amount_minor=100, payer=of.name, sent_on=NOVEMBER.date(), content=b"%PDF-1.7", at=NOVEMBER,
        actor=factories.user(),
    )  # fmt: skip
    line = billing.StatementLine(
        reference=f"IN{number}", payer=of.name, amount_minor=100, currency="CNY", remark="", received_at=NOVEMBER
    )
    transfer, _new = billing.record_transfer(line=line, at=NOVEMBER, actor=factories.user())
    billing.match_transfer(transfer=transfer, organization=of, slip=of.billing_account.slips.get(), at=NOVEMBER,
                           actor=factories.user())  # fmt: skip
    (voucher,) = billing.create_vouchers(
        count=1, amount_minor=100, currency="CNY", reason="R-1", valid_until=NOVEMBER + timedelta(days=9), at=NOVEMBER,
        actor=clerk,
    )  # fmt: skip
    billing.redeem_voucher(organization=of, code=voucher.code, at=NOVEMBER, actor=factories.user())
    ReceivingAccount.objects.create(currency="CNY", holder="H-1", bank="B-1", number=f"1402 {number}")


def agreements(machine: Rental, number: int) -> None:
    """What sales agreed with the customer of this machine, apart from its orders."""
    of, dated = machine.organization, {"valid_from": NOVEMBER}
    ContractPrice.objects.create(
        organization=of, offer=machine.order_line.offer, meter="card_hour", currency="CNY", rate="2.2", **dated
    )
    VolumeTier.objects.create(organization=of, gpu_class="consumer", from_card_hours=1000, discount_percent=5, **dated)
    Commitment.objects.create(
        organization=of, currency="CNY", amount_minor=1_000_000, tax_percent=6, tax_code="3040203000000000000", **dated
    )
    asked = {"organization": of, "project": machine.project, "actor": factories.user(), "at": NOVEMBER}
    orders.sell_pack(
        request_key=f"pack-{number}", gpu_class="consumer", card_hours=100, price_minor=20_000, months=6, **asked
    )
    orders.add_service(
        title_zh="S-1", title_en="S-1", interval="month", quantity=1, rate=6200, starts_on=date(2026, 11, 11),
        **asked,
    )  # fmt: skip
    TermRefund.objects.create(
        subscription=machine.subscription, organization=of, rule=TermRefund.Rule.values[0], currency="CNY",
        paid_minor=1000, amount_minor=500, actor=factories.user(), at=NOVEMBER,
    )  # fmt: skip


def everything(rows: int = 1) -> None:
    """At least `rows` rows for every desk."""
    for _ in range(rows):
        number = next(_number)
        machine = rental()
        window = builders.used(machine, NOVEMBER, NOVEMBER + timedelta(hours=2))
        bill = invoice()
        InvoiceEvent.objects.create(invoice=bill, status=bill.status, actor=factories.user(), at=NOVEMBER, note="看过")
        Payment.objects.create(
            invoice=bill, method="bank_transfer", reference=f"BANK{number}", amount_minor=100, currency="CNY",
            received_at=NOVEMBER, recorded_by=factories.user(),
        )  # fmt: skip
        drafted = Invoice.objects.create(
            account=bill.account, organization=window.organization, kind="usage", currency="CNY", drafted_at=NOVEMBER,
            period_start=NOVEMBER, period_end=NOVEMBER + timedelta(days=30 + number),
        )  # fmt: skip
        assert drafted.number is None
        owing = Arrears.objects.create(account=bill.account, opened_at=NOVEMBER)
        ArrearsStep.objects.create(arrears=owing, step="open", balance_minor=-100, at=NOVEMBER)
        stripe_event()
        stripe_event(error="Unavailable: no answer", attempts=3)
        NumberSeries.objects.create(series=f"S{number}", year=2026)
        posted = Posting.objects.create(
            account=bill.account, kind="top_up", fact=f"t-{number}", currency="CNY", at=NOVEMBER,
            booked_on=date(2026, 11, 2), invoice=bill,
        )  # fmt: skip
        LedgerEntry.objects.bulk_create(
            LedgerEntry(posting=posted, account=bill.account, book=book, amount_minor=amount)
            for book, amount in (("cash", 100), ("wallet", -100))
        )
        ClosedMonth.objects.create(
            month=date(2000 + number, 1, 1), closed_at=NOVEMBER, closed_by=factories.user(),
            totals={"CNY": {"cash": 100, "wallet": -100}},
        )  # fmt: skip
        balances(number)
        returned(bill, number)
        tax_papers(bill, number)
        agreements(machine, number)
        orders.send_quote(quote_id=quote().pk, actor=factories.user(), at=clock.now())
        ExportJob.objects.create(
            kind="payments",
            shape="csv",
            language="en",
            requested_by=factories.user(),
            requested_at=NOVEMBER,
            organization=window.organization,
        ).events.create(kind="requested", what="payments.csv", actor=factories.user(), at=NOVEMBER)
        factories.ssh_key(machine.organization)
        image = factories.image(f"CUDA {number}")
        Source.objects.create(key=f"source-{number}", url="https://example.com/", what=image.name, grade="official")
        sold = machine.order_line.offer
        Question.objects.create(question_zh="1?", question_en="1?", answer_zh="2", answer_en="2", offer=sold)
        Waitlist.objects.create(
            offer=sold, organization=machine.organization, user=factories.user(), units=1, created_at=NOVEMBER
        )
        DeliveryRecord.objects.create(
            pool=machine.pool, measured_on=NOVEMBER.date(), measured_at=NOVEMBER, since=NOVEMBER, delivered=1, failed=0,
            median_seconds=40, p90_seconds=40, faults=0, answered=0,
        )  # fmt: skip
        card = Gpu.objects.filter(host__pool=machine.pool).first()
        Allocation.objects.create(gpu=card, period=DateTimeTZRange(NOVEMBER, None), holder=machine.key)
        Reservation.objects.create(
            pool=machine.pool, cards=1, note="for later",
            period=DateTimeTZRange(datetime(2027, 6, 1, tzinfo=UTC), datetime(2027, 7, 1, tzinfo=UTC)),
        )  # fmt: skip
        Orphan.objects.create(
            pool=machine.pool, rental_key=uuid.uuid4(), generation=1, names=f"r-{number}", first_seen_at=NOVEMBER,
            last_seen_at=NOVEMBER,
        )  # fmt: skip
        place = machine.pool.region
        Watch.objects.create(region=place, since=NOVEMBER.date())
        trust.incident(place, start="2026-11-01 08:00", end="2026-11-01 09:00", at=NOVEMBER + timedelta(days=2))
        trust.maintenance(place, start="2026-11-01 08:00", end="2026-11-01 09:00")
        written = Page.objects.filter(slug="about").first() or trust.page(slug="about")
        trust.block(written)
        Group.objects.create(name=f"group {number}")
        LogEntry.objects.create(
            user=factories.user(), content_type=ContentType.objects.get_for_model(Order), object_id=str(number),
            object_repr=f"order {number}", action_flag=CHANGE, change_message="looked",
        )  # fmt: skip
