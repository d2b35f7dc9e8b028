"""Usage and orders for billing tests: the rows that engines and customers would have left behind."""

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from accounts.models import Organization, Project
from orders.models import Order, OrderLine, Subscription
from rentals.models import Rental, UsageWindow
from tests import factories

# 1 November 2026 in Shanghai.
NOVEMBER = datetime(2026, 10, 31, 16, tzinfo=UTC)
DECEMBER = datetime(2026, 11, 30, 16, tzinfo=UTC)
JANUARY = datetime(2026, 12, 31, 16, tzinfo=UTC)
HOUR = timedelta(hours=1)


def default_project(of: Organization) -> Project:
    return of.projects.get(is_default=True)


def order(
    of: Organization | None = None, *, offer=None, term="month", quantity=1, periods=1, rate="1280",
    amount_minor=None, status="awaiting_payment", at=NOVEMBER, hold=timedelta(minutes=30),
) -> Order:  # fmt: skip
    """An order of one line. By the hour it is confirmed, else it waits for payment."""
    of = of or factories.organization()
    offer = offer or factories.offer(cards=1, currency=of.currency)
    cards = quantity * offer.cards_per_unit
    hourly = term == "hour"
    if amount_minor is None:
        amount_minor = 0 if hourly else int(Decimal(rate) * cards * periods * 100)
    made = Order.objects.create(
        organization=of, project=default_project(of), placed_by=of.members.first(), request_key=str(uuid.uuid4()),
        status="confirmed" if hourly else status, currency=of.currency, total_minor=amount_minor, placed_at=at,
        hold_expires_at=None if hourly else at + hold,
    )  # fmt: skip
    OrderLine.objects.create(
        order=made, offer=offer, image=factories.image(), public_keys=[], quantity=quantity,
        cards_per_unit=offer.cards_per_unit, disk_gb=100, term=term, periods=periods, rate=Decimal(rate),
        disk_rate=Decimal("0.0005"), amount_minor=amount_minor, tax_percent=Decimal(6),
        tax_code="3040203000000000000", units=[uuid.uuid4() for _ in range(quantity)],
    )  # fmt: skip
    return made


def rental(of: Organization | None = None, *, rate="2.50", cards=1, name="train-1", offer=None) -> Rental:
    """One running hourly machine, its meter closed: windows are added by `used`."""
    of = of or factories.organization()
    offer = offer or factories.offer(cards=cards, currency=of.currency)
    line = order(of, offer=offer, term="hour", rate=rate).lines.get()
    subscription = Subscription.objects.create(
        organization=of, project=default_project(of), order_line=line, unit=line.units[0], term="hour", periods=1,
        cards=cards, disk_gb=100, currency=of.currency, rate=Decimal(rate), disk_rate=line.disk_rate,
        tax_percent=line.tax_percent, tax_code=line.tax_code,
    )  # fmt: skip
    return Rental.objects.create(
        organization=of, project=default_project(of), order_line=line, subscription=subscription, name=name,
        pool=offer.pool, status="running", public_keys=[], created_at=NOVEMBER,
    )  # fmt: skip


def used(by: Rental, start: datetime, end: datetime, *, meter="card_hour", reverses=None) -> UsageWindow:
    """A window of usage over `[start, end)`."""
    subscription = by.subscription
    card = meter == "card_hour"
    return UsageWindow.objects.create(
        rental=by, subscription=subscription, organization=by.organization, meter=meter,
        quantity=subscription.cards if card else subscription.disk_gb, currency=subscription.currency,
        rate=subscription.rate if card else subscription.disk_rate, period=DateTimeTZRange(start, end),
        seconds=int((end - start).total_seconds()), reverses=reverses,
    )  # fmt: skip
