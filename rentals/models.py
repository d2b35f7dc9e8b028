"""What runs: rentals (one machine or cluster each), their members, events, and the usage they are billed by."""

import uuid
from typing import ClassVar

import pgtrigger
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, DateTimeRangeField, RangeOperators
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.utils.translation import gettext_lazy as _

from accounts.models import CURRENCY_CHOICES, Organization, Project, User
from catalog.models import Host, Pool
from orders.models import OrderLine, Subscription, transition_trigger

RENTAL_MOVES = {
    "reserved": {"creating", "destroying", "failed", "needs_operator"},
    "creating": {"booting", "destroying", "failed", "needs_operator"},
    # From booting on a rental may be one that ran before and is being started again: it falls back to its disk.
    "booting": {"verifying", "stopping", "destroying", "failed", "lost", "needs_operator"},
    "verifying": {"running", "stopping", "destroying", "failed", "lost", "needs_operator"},
    "running": {"stopping", "destroying", "lost", "needs_operator"},
    "stopping": {"stopped", "suspended", "destroying", "lost", "needs_operator"},
    "stopped": {"starting", "suspended", "destroying", "lost", "needs_operator"},
    "suspended": {"starting", "stopped", "destroying", "lost", "needs_operator"},
    "starting": {"booting", "stopping", "destroying", "lost", "needs_operator"},
    "destroying": {"gone", "failed", "needs_operator"},
    "lost": {"destroying", "running", "stopping"},
    "needs_operator": {"creating", "starting", "destroying"},
}


class Rental(models.Model):
    """One unit that was ordered. `desired` is what the customer wants; the reconciler closes the distance to `status`.

    `metered_from` opens the running usage window: everything before it is in UsageWindow rows, everything after it is
    still to be cut. It is set exactly while `meter` is (`card_hour` running, `disk_gb_hour` stopped).

    While `suspension` is set the platform keeps the machine off whatever is desired; `desired` then says whether it is
    started again once the suspension is taken back.
    """

    class Status(models.TextChoices):
        RESERVED = "reserved", _("Reserved")
        CREATING = "creating", _("Creating")
        BOOTING = "booting", _("Booting")
        VERIFYING = "verifying", _("Verifying")
        RUNNING = "running", _("Running")
        STOPPING = "stopping", _("Stopping")
        STOPPED = "stopped", _("Stopped")
        SUSPENDED = "suspended", _("Suspended")
        STARTING = "starting", _("Starting")
        DESTROYING = "destroying", _("Destroying")
        GONE = "gone", _("Terminated")
        FAILED = "failed", _("Failed")
        LOST = "lost", _("Lost")
        NEEDS_OPERATOR = "needs_operator", _("Waiting for an operator")

    class Desired(models.TextChoices):
        RUNNING = "running", _("Running")
        STOPPED = "stopped", _("Stopped")
        GONE = "gone", _("Terminated")

    class Suspension(models.TextChoices):
        NONE = "", _("Not suspended")
        ARREARS = "arrears", _("Balance below zero")
        OPERATOR = "operator", _("By our staff")

    class Meter(models.TextChoices):
        NONE = "", _("Not metered")
        CARD_HOUR = "card_hour", _("Card-hour")
        DISK_GB_HOUR = "disk_gb_hour", _("GB-hour of disk")

    NEXT = RENTAL_MOVES
    # No machine any more and none to come.
    OVER: ClassVar[tuple[str, ...]] = (Status.GONE, Status.FAILED)
    # States the reconciler moves by itself; the others wait for a wish or a person.
    MOVING: ClassVar[tuple[str, ...]] = (
        "reserved",
        "creating",
        "booting",
        "verifying",
        "stopping",
        "starting",
        "destroying",
    )

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="rentals", verbose_name=_("organization")
    )
    project = models.ForeignKey(Project, models.PROTECT, related_name="rentals", verbose_name=_("project"))
    order_line = models.ForeignKey(OrderLine, models.PROTECT, related_name="rentals", verbose_name=_("order line"))
    subscription = models.OneToOneField(
        Subscription, models.PROTECT, related_name="rental", verbose_name=_("subscription")
    )
    name = models.CharField(_("name"), max_length=60)
    pool = models.ForeignKey(Pool, models.PROTECT, related_name="rentals", verbose_name=_("pool"))
    status = models.CharField(_("status"), max_length=16, choices=Status, default=Status.RESERVED)
    desired = models.CharField(_("desired"), max_length=8, choices=Desired, default=Desired.RUNNING)
    generation = models.PositiveIntegerField(_("generation"), default=1)
    public_keys = ArrayField(models.TextField(), verbose_name=_("SSH keys"))
    suspension = models.CharField(_("suspension"), max_length=10, choices=Suspension, blank=True)
    suspended_at = models.DateTimeField(_("suspended at"), null=True, blank=True)
    # Why it waits, and why it failed or was lost: codes of rentals.reasons, shown in the reader's language.
    reason = models.CharField(_("reason"), max_length=40, blank=True)
    failure = models.CharField(_("failure"), max_length=40, blank=True)
    # How often in a row the engine said that there is no such machine; twice is believed.
    absences = models.PositiveSmallIntegerField(default=0, editable=False)
    attempts = models.PositiveIntegerField(_("attempts"), default=0)
    next_step_at = models.DateTimeField(_("next step at"), null=True, blank=True)
    deadline_at = models.DateTimeField(_("deadline"), null=True, blank=True)
    lock_token = models.UUIDField(null=True, blank=True, editable=False)
    lock_expires_at = models.DateTimeField(null=True, blank=True, editable=False)
    ssh_host = models.CharField(_("SSH host"), max_length=200, blank=True)
    ssh_port = models.PositiveIntegerField(_("SSH port"), null=True, blank=True)
    ssh_user = models.CharField(_("SSH user"), max_length=40, blank=True)
    host_key = models.TextField(_("host key"), blank=True)
    host_key_fingerprint = models.CharField(_("host key fingerprint"), max_length=60, blank=True)
    meter = models.CharField(_("meter"), max_length=12, choices=Meter, blank=True)
    metered_from = models.DateTimeField(_("metered from"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"))
    running_at = models.DateTimeField(_("first running at"), null=True, blank=True)
    stopped_at = models.DateTimeField(_("stopped at"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended at"), null=True, blank=True)

    class Meta:
        verbose_name = _("rental")
        verbose_name_plural = _("rentals")
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(meter="", metered_from__isnull=True) | (~Q(meter="") & Q(metered_from__isnull=False)),
                name="rental_meter_has_start",
            ),
            models.CheckConstraint(
                condition=Q(lock_token__isnull=True, lock_expires_at__isnull=True)
                | Q(lock_token__isnull=False, lock_expires_at__isnull=False),
                name="rental_lock_has_expiry",
            ),
            models.CheckConstraint(
                condition=Q(suspension="", suspended_at__isnull=True)
                | (~Q(suspension="") & Q(suspended_at__isnull=False)),
                name="rental_suspension_has_start",
            ),
            models.CheckConstraint(
                condition=~Q(status="suspended") | ~Q(suspension=""), name="rental_suspended_has_reason"
            ),
        ]
        indexes = [
            models.Index(fields=["next_step_at"], condition=Q(next_step_at__isnull=False), name="rental_due"),
            models.Index(fields=["metered_from"], condition=Q(metered_from__isnull=False), name="rental_metered"),
            models.Index(fields=["organization"], condition=~Q(suspension=""), name="rental_suspended"),
        ]
        triggers = [transition_trigger(RENTAL_MOVES)]

    def __str__(self) -> str:
        return self.name


class Member(models.Model):
    """One machine of a rental: which host, which cards, and what the engine says of it."""

    rental = models.ForeignKey(Rental, models.CASCADE, related_name="members")
    ordinal = models.PositiveSmallIntegerField()
    host = models.ForeignKey(Host, models.PROTECT, related_name="members")
    cards = ArrayField(models.CharField(max_length=60))
    state = models.CharField(max_length=16, blank=True)

    class Meta:
        ordering = ["rental", "ordinal"]
        constraints = [models.UniqueConstraint(fields=["rental", "ordinal"], name="member_ordinal_once")]

    def __str__(self) -> str:
        return f"{self.rental} #{self.ordinal}"


class RentalEvent(models.Model):
    """Append-only timeline of a rental: moves, engine calls with their outcome, wishes of people."""

    class Kind(models.TextChoices):
        STATUS = "status", _("Status")
        CALL = "call", _("Engine call")
        WISH = "wish", _("Request")

    rental = models.ForeignKey(Rental, models.CASCADE, related_name="events")
    kind = models.CharField(max_length=8, choices=Kind)
    what = models.CharField(max_length=40)
    outcome = models.CharField(max_length=40, blank=True)
    milliseconds = models.PositiveIntegerField(null=True)
    actor = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    # The figures that belong to `what`, for the reader's own words: {"minutes": 30, "percent": 5}.
    details = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        ordering = ["at", "pk"]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.rental_id} {self.what}"


class UsageWindow(models.Model):
    """`quantity` cards (or GB) of one rental over `[start, end)`, metered to the second, never edited.

    No two windows of a rental overlap. A correction is a row of its own that names the window of which it takes back
    its own `period`, the whole or the end.
    """

    key = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    rental = models.ForeignKey(Rental, models.PROTECT, related_name="windows", verbose_name=_("rental"))
    subscription = models.ForeignKey(
        Subscription, models.PROTECT, related_name="windows", verbose_name=_("subscription")
    )
    organization = models.ForeignKey(
        Organization, models.PROTECT, related_name="windows", verbose_name=_("organization")
    )
    meter = models.CharField(_("meter"), max_length=12, choices=[c for c in Rental.Meter.choices if c[0]])
    quantity = models.PositiveIntegerField(_("cards or GB"))
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES)
    rate = models.DecimalField(_("rate"), max_digits=20, decimal_places=10)
    period = DateTimeRangeField(_("period"))
    seconds = models.PositiveBigIntegerField(_("seconds"))
    reverses = models.OneToOneField("self", models.PROTECT, null=True, related_name="reversed_by")

    class Meta:
        verbose_name = _("usage window")
        verbose_name_plural = _("usage windows")
        constraints = [
            ExclusionConstraint(
                name="usage_once",
                expressions=[("rental", RangeOperators.EQUAL), ("period", RangeOperators.OVERLAPS)],
                condition=Q(reverses__isnull=True),
            ),
            models.CheckConstraint(
                condition=Q(seconds__gt=0, quantity__gt=0, rate__gte=0) & Q(period__isempty=False), name="usage_counts"
            ),
        ]
        indexes = [models.Index(fields=["organization", "subscription"], name="usage_by_subscription")]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)]

    def __str__(self) -> str:
        return f"{self.rental_id} {self.meter} {self.seconds} s"


class Utilisation(models.Model):
    """What a running rental's cards were last seen doing, one row a rental, and when the exporter was last asked.

    Percentages are of the cards together: `busy` their mean, `busiest` the busiest one, `memory` used of all.
    """

    rental = models.OneToOneField(
        Rental, models.CASCADE, primary_key=True, related_name="utilisation", verbose_name=_("rental")
    )
    asked_at = models.DateTimeField(_("asked at"))
    read_at = models.DateTimeField(_("read at"), null=True, blank=True)
    busy = models.DecimalField(_("busy, %"), max_digits=5, decimal_places=2, null=True, blank=True)
    busiest = models.DecimalField(_("busiest card, %"), max_digits=5, decimal_places=2, null=True, blank=True)
    memory = models.DecimalField(_("memory, %"), max_digits=5, decimal_places=2, null=True, blank=True)
    cards_read = models.PositiveSmallIntegerField(_("cards read"), default=0)
    # One object a card, as rentals.utilisation writes them: serial, index, busy, memory_used_mb, memory_total_mb, …
    cards = models.JSONField(default=list)

    class Meta:
        verbose_name = _("utilisation")
        verbose_name_plural = _("utilisation")
        constraints = [
            models.CheckConstraint(
                condition=Q(read_at__isnull=True, busy__isnull=True, busiest__isnull=True, cards_read=0)
                | Q(
                    read_at__isnull=False,
                    busy__isnull=False,
                    busy__range=(0, 100),
                    busiest__isnull=False,
                    busiest__range=(0, 100),
                    cards_read__gt=0,
                ),
                name="utilisation_is_read_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rental_id} {self.busy} %"


class UtilisationSample(models.Model):
    """Append-only: how busy a rental's cards were at `at`, at most once a minute. A reading that failed leaves no row.

    Kept for some days (rentals.utilisation.KEPT).
    """

    rental = models.ForeignKey(Rental, models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    busy = models.DecimalField(max_digits=5, decimal_places=2)
    busiest = models.DecimalField(max_digits=5, decimal_places=2)
    memory = models.DecimalField(max_digits=5, decimal_places=2, null=True)
    cards_read = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["at", "pk"]
        constraints = [
            models.UniqueConstraint(
                F("rental"),
                # In a zone of its own, or it would depend on the session and be no index.
                Func(F("at"), template="date_trunc('minute', %(expressions)s AT TIME ZONE 'UTC')"),
                name="sample_once_a_minute",
            ),
            models.CheckConstraint(
                condition=Q(busy__range=(0, 100), busiest__range=(0, 100), busiest__gte=F("busy"), cards_read__gt=0)
                & (Q(memory__isnull=True) | Q(memory__range=(0, 100))),
                name="sample_is_a_share",
            ),
        ]
        indexes = [
            models.Index(fields=["rental", "at"], name="sample_of_rental"),
            BrinIndex(fields=["at"], name="sample_age"),
        ]
        triggers = [pgtrigger.Protect(name="append_only", operation=pgtrigger.Update)]

    def __str__(self) -> str:
        return f"{self.rental_id} {self.busy} %"


class AutoStopRule(models.Model):
    """Stop this rental by itself: when its cards were idle, at an instant, or once it has cost so much.

    Idle rules stay in force after they fired: every start is watched anew. The others are done once they fired.
    `note` is a code: why a rule is no longer in force.
    """

    class Kind(models.TextChoices):
        IDLE = "idle", _("When idle")
        AT_TIME = "at_time", _("At a time")
        AT_SPEND = "at_spend", _("At a cost")

    class Note(models.TextChoices):
        NONE = "", _("In force")
        FIRED = "fired", _("It stopped the machine")
        NOT_RUNNING = "not_running", _("The machine had been stopped already")
        REPLACED = "replaced", _("Another rule took its place")
        REMOVED = "removed", _("Removed")
        OVER = "over", _("The rental has ended")

    rental = models.ForeignKey(Rental, models.CASCADE, related_name="auto_stop_rules", verbose_name=_("rental"))
    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    minutes = models.PositiveIntegerField(_("minutes"), null=True, blank=True)
    threshold_percent = models.PositiveSmallIntegerField(_("threshold, %"), null=True, blank=True)
    stop_at = models.DateTimeField(_("stop at"), null=True, blank=True)
    amount_minor = models.BigIntegerField(_("amount, minor units"), null=True, blank=True)
    currency = models.CharField(_("currency"), max_length=3, choices=CURRENCY_CHOICES, blank=True)
    enabled = models.BooleanField(_("in force"), default=True)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+", verbose_name=_("created by"))
    created_at = models.DateTimeField(_("created at"))
    fired_at = models.DateTimeField(_("fired at"), null=True, blank=True)
    note = models.CharField(_("note"), max_length=12, choices=Note, blank=True)

    class Meta:
        verbose_name = _("auto-stop rule")
        verbose_name_plural = _("auto-stop rules")
        ordering = ["-created_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(
                    kind="idle",
                    minutes__isnull=False,  # a range alone is unknown, which a check lets pass
                    minutes__range=(1, 1440),
                    threshold_percent__isnull=False,
                    threshold_percent__range=(1, 100),
                    stop_at__isnull=True,
                    amount_minor__isnull=True,
                    currency="",
                )
                | Q(
                    kind="at_time",
                    minutes__isnull=True,
                    threshold_percent__isnull=True,
                    stop_at__isnull=False,
                    amount_minor__isnull=True,
                    currency="",
                )
                | (
                    Q(
                        kind="at_spend",
                        minutes__isnull=True,
                        threshold_percent__isnull=True,
                        stop_at__isnull=True,
                        amount_minor__isnull=False,
                        amount_minor__gt=0,
                    )
                    & ~Q(currency="")
                ),
                name="auto_stop_has_its_fields",
            ),
            models.CheckConstraint(
                condition=Q(enabled=True, note="") | (Q(enabled=False) & ~Q(note="")), name="auto_stop_says_why_off"
            ),
            models.CheckConstraint(
                condition=~Q(note="fired") | Q(fired_at__isnull=False), name="auto_stop_fired_has_instant"
            ),
            models.UniqueConstraint(
                fields=["rental", "kind"], condition=Q(enabled=True), name="auto_stop_one_in_force"
            ),
        ]
        indexes = [models.Index(fields=["kind", "rental"], condition=Q(enabled=True), name="auto_stop_in_force")]

    def __str__(self) -> str:
        return f"{self.rental_id} {self.kind}"


class Orphan(models.Model):
    """A machine with our label that no rental accounts for. Seen twice it is powered off and waits for a person."""

    pool = models.ForeignKey(Pool, models.PROTECT, related_name="orphans", verbose_name=_("pool"))
    rental_key = models.UUIDField(_("rental"))
    generation = models.PositiveIntegerField(_("generation"))
    names = models.CharField(_("machines"), max_length=400)
    first_seen_at = models.DateTimeField(_("first seen at"))
    last_seen_at = models.DateTimeField(_("last seen at"))
    quarantined_at = models.DateTimeField(_("powered off at"), null=True, blank=True)
    resolved_at = models.DateTimeField(_("resolved at"), null=True, blank=True)

    class Meta:
        verbose_name = _("orphan")
        verbose_name_plural = _("orphans")
        ordering = ["-last_seen_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["rental_key", "generation"], condition=Q(resolved_at__isnull=True), name="orphan_open_once"
            )
        ]

    def __str__(self) -> str:
        return self.names
