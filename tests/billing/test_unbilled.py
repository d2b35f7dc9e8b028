"""What is used and unbilled: the statement behind the credit line says what the meters say, whatever happened."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from billing.models import BilledWindow, BillingAccount, Invoice, InvoiceLine
from billing.queries import unbilled_minor
from orders.models import Subscription
from orders.pricing import line_amount
from rentals import metering
from rentals.models import Rental, UsageWindow
from tests import factories
from tests.billing.builders import DECEMBER, HOUR, NOVEMBER, rental, used

pytestmark = pytest.mark.django_db

CARD, DISK = "card_hour", "disk_gb_hour"
AT = NOVEMBER + timedelta(days=20, milliseconds=900)


@dataclass(frozen=True)
class Span:
    """A window that begins `pause` after the one before it; its last `taken_back` seconds are reversed."""

    pause: int
    seconds: int
    meter: str = CARD
    taken_back: int = 0
    billed: bool = False
    reversal_billed: bool = False


@dataclass(frozen=True)
class Story:
    """One machine: its terms, its windows, and what its meter does `open_for` seconds before the question."""

    cards: int
    rate: Decimal
    disk_gb: int
    disk_rate: Decimal
    spans: list[Span]
    meter: str = ""
    open_for: int = 0


def spans(billed):
    return st.lists(
        st.builds(
            Span,
            pause=st.integers(0, 100_000),
            seconds=st.integers(1, 200_000),
            meter=st.sampled_from([CARD, DISK]),
            taken_back=st.sampled_from([0, 0, 1, 1800, 200_000]),
            billed=billed,
            reversal_billed=billed,
        ),
        max_size=5,
    )


def stories(billed):
    rates = st.one_of(
        st.sampled_from([Decimal("2.50"), Decimal("0.0005"), Decimal("0.01")]),
        st.integers(1, 10**12).map(lambda digits: Decimal(digits).scaleb(-10)),
    )
    story = st.builds(
        Story,
        cards=st.integers(1, 8),
        rate=rates,
        disk_gb=st.integers(1, 4000),
        disk_rate=rates,
        spans=spans(billed),
        meter=st.sampled_from([CARD, DISK, ""]),
        open_for=st.integers(-5000, 400_000),
    )
    return st.lists(story, min_size=4, max_size=4)


@pytest.fixture
def machines() -> list[Rental]:
    """Two of an organization that pays in CNY, two of one that pays in USD."""
    yuan, dollar = factories.organization(currency="CNY"), factories.organization(currency="USD")
    return [rental(of, name=f"m{number}") for number, of in enumerate((yuan, yuan, dollar, dollar))]


def live(machine: Rental, story: Story) -> None:
    Subscription.objects.filter(pk=machine.subscription_id).update(
        cards=story.cards, rate=story.rate, disk_gb=story.disk_gb, disk_rate=story.disk_rate
    )
    machine.subscription.refresh_from_db()
    begins = NOVEMBER
    for span in story.spans:
        begins += timedelta(seconds=span.pause)
        ends = begins + timedelta(seconds=span.seconds)
        window = used(machine, begins, ends, meter=span.meter)
        bill(window, span.billed)
        if span.taken_back:
            since = max(begins, ends - timedelta(seconds=span.taken_back))
            bill(used(machine, since, ends, meter=span.meter, reverses=window), span.reversal_billed)
        begins = ends
    machine.meter = story.meter
    machine.metered_from = metering.whole_second(AT) - timedelta(seconds=story.open_for) if story.meter else None
    machine.save()


def bill(window: UsageWindow, billed: bool) -> None:
    if billed:
        line = InvoiceLine.objects.filter(subscription=window.subscription_id).first() or invoice_line(window)
        BilledWindow.objects.create(line=line, window=window)


def invoice_line(window: UsageWindow) -> InvoiceLine:
    account, _made = BillingAccount.objects.get_or_create(organization=window.organization)
    invoice, _made = Invoice.objects.get_or_create(
        account=account, organization=window.organization, kind="usage", currency=window.currency,
        period_start=NOVEMBER, defaults={"period_end": DECEMBER, "drafted_at": DECEMBER},
    )  # fmt: skip
    return InvoiceLine.objects.create(
        invoice=invoice, position=invoice.lines.count() + 1, order_line=window.subscription.order_line,
        subscription=window.subscription, meter=window.meter, quantity=window.quantity, rate=window.rate,
        amount_minor=0, tax_minor=0, tax_percent=Decimal(6),
    )  # fmt: skip


def metered_minor(machines: list[Rental]) -> int:
    """Everything that the meters say, less the seconds that stand on an invoice; each line rounded once."""
    currency = machines[0].subscription.currency
    seconds: Counter[tuple] = Counter()
    for machine_id, usages in metering.so_far(rentals=machines, at=AT).items():
        for usage in usages:
            seconds[machine_id, usage.meter, usage.quantity, usage.rate] += usage.seconds
    for window in UsageWindow.objects.filter(rental__in=machines, billed__isnull=False):
        charged = -window.seconds if window.reverses_id else window.seconds
        seconds[window.rental_id, window.meter, window.quantity, window.rate] -= charged
    return sum(
        line_amount(meter=meter, quantity=quantity, rate=rate, currency=currency, seconds=net).minor
        for (_machine, meter, quantity, rate), net in seconds.items()
    )


QUIET = Story(1, Decimal("2.5"), 100, Decimal("0.0005"), [])
property_of = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


# 7 cards for a month and 7 s: 120140942.4999999999972 minor units, a hair below the half.
HAIR = Story(7, Decimal("238.3742421551"), 1, Decimal(1), [Span(0, 2_592_007)])


@property_of
@given(told=stories(st.just(value=False)))
@example(told=[HAIR, QUIET] * 2)
def test_unbilled_is_the_sum_of_what_every_machine_used(machines, told):
    with transaction.atomic():
        for machine, story in zip(machines, told, strict=True):
            live(machine, story)
        for own in (machines[:2], machines[2:]):
            usages = [usage for one in own for usage in metering.unbilled_and_open(rental=one, at=AT)]
            assert unbilled_minor(organization=own[0].organization, at=AT) == sum(one.amount.minor for one in usages)
        transaction.set_rollback(True)


@property_of
@given(told=stories(st.booleans()))
@example(told=[Story(1, Decimal("2.5"), 1, Decimal(1), [Span(0, 3600, taken_back=60, billed=True)]), QUIET] * 2)
def test_what_stands_on_an_invoice_is_left_out_window_by_window(machines, told):
    with transaction.atomic():
        for machine, story in zip(machines, told, strict=True):
            live(machine, story)
        for own in (machines[:2], machines[2:]):
            assert unbilled_minor(organization=own[0].organization, at=AT) == metered_minor(own)
        transaction.set_rollback(True)


def test_windows_reversals_and_a_running_meter_come_to_one_figure(machines):
    live(machines[0], Story(2, Decimal("2.5"), 100, Decimal("0.0005"), [
        Span(0, 3600, billed=True, taken_back=360),  # on an invoice; 6 min taken back: −2 × 0.1 h × 2.50 = −0.50
        Span(0, 7200),  # 2 × 2 h × 2.50 = 10.00
        Span(0, 36_000, meter=DISK),  # 100 GB × 10 h × 0.0005 = 0.50
    ], meter=CARD, open_for=1800))  # fmt: skip  # 2 × 0.5 h × 2.50 = 2.50
    live(machines[2], Story(8, Decimal("0.1"), 100, Decimal("0.0005"), [Span(0, 3600)]))
    used(machines[3], NOVEMBER, NOVEMBER + HOUR)

    assert unbilled_minor(organization=machines[0].organization, at=AT) == 1250 == metered_minor(machines[:2])
    assert unbilled_minor(organization=machines[2].organization, at=AT) == 330 == metered_minor(machines[2:])
