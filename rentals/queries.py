"""Questions about rentals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Case, Count, DecimalField, F, Q, QuerySet, Sum, Value, When

from accounts.models import Organization, Project
from marketplace.lib.money import Money
from orders.pricing import METER_OF_TERM, line_amount
from rentals.models import Rental, Utilisation

Meter, Status = Rental.Meter, Rental.Status
# A reading older than this says nothing about now: the exporter or its sweep has fallen silent.
READING_HOLDS = timedelta(minutes=3)

# What a rental's open meter costs in an hour, exact, in major units; zero without one.
_METERED = Case(
    When(meter=Meter.CARD_HOUR, then=F("subscription__cards") * F("subscription__rate")),
    When(meter=Meter.DISK_GB_HOUR, then=F("subscription__disk_gb") * F("subscription__disk_rate")),
    default=Value(Decimal(0)),
    output_field=DecimalField(max_digits=30, decimal_places=10),
)


def of_organization(organization: Organization) -> QuerySet[Rental]:
    """Its rentals with everything a page shows of each, the newest first."""
    return Rental.objects.filter(organization=organization).select_related(
        "subscription__organization",
        "order_line__offer__gpu_model",
        "order_line__offer__region",
        "order_line__image",
        "pool",
        "project",
    )


def admitting(organization: Organization) -> dict[str, list[Rental]]:
    """Its machines that are not over, by each public key they were made with; only key and name are loaded."""
    machines: dict[str, list[Rental]] = {}
    rentals = Rental.objects.filter(organization=organization).exclude(status__in=Rental.OVER)
    for rental in rentals.only("key", "name", "public_keys", "created_at").order_by("-created_at", "-pk"):
        for public_key in rental.public_keys:
            machines.setdefault(public_key, []).append(rental)
    return machines


def burn_per_hour(organization_id: int) -> Money:
    """What all open meters of an organization cost in an hour, rounded once."""
    metered = Rental.objects.filter(organization_id=organization_id, metered_from__isnull=False)
    total = metered.aggregate(total=Sum(_METERED))["total"]
    currency = Organization.objects.values_list("currency", flat=True).get(pk=organization_id)
    return Money.rounded(total or Decimal(0), currency)


def burn_by_project(organization: Organization) -> dict[int, Decimal]:
    """What the open meters of each project cost in an hour: exact, in major units; one without any is left out."""
    metered = Rental.objects.filter(organization=organization, metered_from__isnull=False)
    return dict(metered.order_by().values_list("project").annotate(total=Sum(_METERED)))


def prepaid(rental: Rental) -> Money | None:
    """What this unit's term cost in advance; None for an hourly one. Needs `subscription` loaded."""
    one = rental.subscription
    if one.is_hourly:
        return None
    return line_amount(
        meter=METER_OF_TERM[one.term], quantity=one.cards, rate=one.rate, currency=one.currency, periods=one.periods
    )


@dataclass(frozen=True, slots=True)
class Running:
    """Machines of one kind, their cards, and what their meters cost in an hour: exact, in major units."""

    name: str
    machines: int
    cards: int
    burn: Decimal


@dataclass(frozen=True, slots=True)
class Fleet:
    """What an organization has running, by GPU model, and the disks that its other machines keep and pay for."""

    models: list[Running]
    disks: Running

    @property
    def machines(self) -> int:
        return sum(one.machines for one in self.models)

    @property
    def cards(self) -> int:
        return sum(one.cards for one in self.models)

    @property
    def burn(self) -> Decimal:
        """All open meters together."""
        return sum((one.burn for one in self.models), self.disks.burn)


def fleet(organization: Organization) -> Fleet:
    """Everything that runs or is metered, in one query; models with the most cards first."""
    rows = (
        Rental.objects.filter(Q(status=Status.RUNNING) | Q(metered_from__isnull=False), organization=organization)
        .order_by()
        .annotate(is_disk=Q(meter=Meter.DISK_GB_HOUR))
        .values("is_disk", "order_line__offer__gpu_model__name")
        .annotate(machines=Count("pk"), held=Sum("subscription__cards"), burn=Sum(_METERED))
        .values_list("is_disk", "order_line__offer__gpu_model__name", "machines", "held", "burn")
    )
    kinds = [(is_disk, Running(name or "", machines, held, burn)) for is_disk, name, machines, held, burn in rows]
    models = sorted((one for is_disk, one in kinds if not is_disk), key=lambda one: (-one.cards, one.name))
    disks = [one for is_disk, one in kinds if is_disk]
    kept = Running("", sum(one.machines for one in disks), 0, sum((one.burn for one in disks), Decimal(0)))
    return Fleet(models, kept)


def in_trouble(organization: Organization, *, since: datetime) -> QuerySet[Rental]:
    """Machines that wait for a person or were lost, and those that failed after `since`; the newest first."""
    waiting = Q(status__in=[Status.NEEDS_OPERATOR, Status.LOST])
    failed = Q(status=Status.FAILED, ended_at__gte=since)
    return Rental.objects.filter(waiting | failed, organization=organization)


def suspended(organization: Organization) -> QuerySet[Rental]:
    """Its machines that the platform keeps off, those on their way there too; the newest first."""
    return Rental.objects.filter(organization=organization).exclude(suspension="")


def ending(*, at: datetime, until: datetime) -> QuerySet[Rental]:
    """Everybody's machines whose prepaid term ends in `(at, until]`, the first first."""
    return (
        Rental.objects.filter(
            subscription__ended_at__isnull=True, subscription__ends_at__gt=at, subscription__ends_at__lte=until
        )
        .exclude(status__in=[*Rental.OVER, Status.DESTROYING])
        .select_related("subscription")
        .order_by("subscription__ends_at", "pk")
    )


# What a list may be narrowed to.
STATES: dict[str, tuple[str, ...]] = {
    "running": (Status.RUNNING,),
    "stopped": (Status.STOPPED,),
    "suspended": (Status.SUSPENDED,),
    "moving": Rental.MOVING,
    "attention": (Status.NEEDS_OPERATOR, Status.LOST, Status.FAILED),
    "over": (Status.GONE,),
}


def narrowed(
    rentals: QuerySet[Rental], *, state: str = "", project: Project | None = None, name: str = ""
) -> QuerySet[Rental]:
    """Those in a state of STATES, of a project, and with `name` in their name; each left out asks nothing."""
    if state:
        rentals = rentals.filter(status__in=STATES[state])
    if project:
        rentals = rentals.filter(project=project)
    return rentals.filter(name__icontains=name) if name else rentals


def latest_utilisation(rental_ids: Iterable[int], *, at: datetime | None = None) -> dict[int, Utilisation]:
    """The last reading of each of these rentals that runs, by rental id, with one statement.

    A rental that was never read is missing, and with `at` also one whose reading is too old to be true. Missing is
    "no reading", never zero percent.
    """
    read = Utilisation.objects.filter(
        rental__in=list(rental_ids), rental__status=Rental.Status.RUNNING, read_at__isnull=False
    )
    if at is not None:
        read = read.filter(read_at__gt=at - READING_HOLDS)
    return {one.rental_id: one for one in read}
