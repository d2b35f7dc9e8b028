"""The operations desk: what runs, why something waits, what was metered, and machines that nobody accounts for."""

from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from billing.models import Invoice
from marketplace.desk import show
from marketplace.desk.base import Desk, Rows, bulk, button
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from rentals import actions as verbs
from rentals import reasons
from rentals.models import AutoStopRule, Member, Orphan, Rental, RentalEvent, UsageWindow
from rentals.progress import timeline

STATES = {
    "running": "success", "stopped": "info", "creating": "info", "booting": "info", "verifying": "info",
    "stopping": "info", "suspended": "warning", "starting": "info", "destroying": "info", "reserved": "info",
    "failed": "danger", "lost": "danger", "needs_operator": "warning",
}  # fmt: skip


def why(code: str) -> str | Promise:
    """A reason's words, or the code itself where none are known."""
    return reasons.WHAT.get(code, code)


class ReasonFilter(admin.SimpleListFilter):
    """Rentals by why they wait."""

    title = gettext_lazy("why it waits")
    parameter_name = "reason"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("any", str(gettext_lazy("Any reason"))), *((code, str(text)) for code, text in reasons.WHAT.items())]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        value = self.value()
        if value == "any":
            return queryset.exclude(reason="", failure="")
        return (queryset.filter(reason=value) | queryset.filter(failure=value)) if value else queryset


class MemberRows(Rows):
    model = Member
    fields = ("number", "where", "serials", "condition")
    select = ("host",)
    verbose_name_plural = gettext_lazy("Machines and cards")

    number = show.plain("ordinal", gettext_lazy("Ordinal"))
    where = show.link("host", gettext_lazy("Host"))

    @display(description=gettext_lazy("State"))
    def condition(self, member: Member) -> str:
        """What the engine last said; most of its words are a rental's own states."""
        return dict(Rental.Status.choices).get(member.state, member.state) or "–"

    @display(description=gettext_lazy("Serial numbers"))
    def serials(self, member: Member) -> str:
        return ", ".join(member.cards)


class TimelineRows(Rows):
    model = RentalEvent
    fields = ("when", "sort", "what_happened", "result", "took", "who")
    ordering = ("-at", "-pk")
    select = ("actor",)
    per_page = 50
    verbose_name_plural = gettext_lazy("Timeline")

    when = show.instant("at", gettext_lazy("When"))
    sort = show.plain("kind", gettext_lazy("Kind"))
    who = show.plain("actor", gettext_lazy("By"))

    @display(description=gettext_lazy("What happened"))
    def what_happened(self, event: RentalEvent) -> Any:
        return timeline([event])[0].what

    @display(description=gettext_lazy("Outcome"))
    def result(self, event: RentalEvent) -> Any:
        return timeline([event])[0].outcome

    @display(description=gettext_lazy("Took"))
    def took(self, event: RentalEvent) -> str:
        return "" if event.milliseconds is None else f"{event.milliseconds} ms"


class RuleRows(Rows):
    model = AutoStopRule
    fields = ("sort", "condition", "in_force", "set_at", "who", "fired")
    ordering = ("-pk",)
    select = ("created_by", "rental__subscription__organization")
    per_page = 20
    verbose_name_plural = gettext_lazy("Auto-stop rules")

    sort = show.plain("kind", gettext_lazy("Kind"))
    set_at = show.instant("created_at", gettext_lazy("created at"))
    who = show.plain("created_by", gettext_lazy("By"))
    fired = show.instant("fired_at", gettext_lazy("fired at"))

    @display(description=gettext_lazy("Condition"))
    def condition(self, rule: AutoStopRule) -> Any:
        """In the customer's zone and currency."""
        if rule.kind == AutoStopRule.Kind.IDLE:
            return _("below %(percent)s %% for %(minutes)s min") % {
                "percent": rule.threshold_percent,
                "minutes": rule.minutes,
            }
        if rule.kind == AutoStopRule.Kind.AT_TIME and rule.stop_at is not None:
            return rule.stop_at.astimezone(ZoneInfo(rule.rental.subscription.organization.zone)).strftime(
                "%Y-%m-%d %H:%M"
            )
        return format_minor(rule.amount_minor or 0, rule.currency)

    @display(description=gettext_lazy("State"))
    def in_force(self, rule: AutoStopRule) -> str:
        return rule.get_note_display()


@admin.register(Rental)
class RentalDesk(Desk):
    """Machines that were ordered. Each says why it waits, when its next step is and what happened so far."""

    buttons = ("retry", "stop", "start", "suspend", "resume", "destroy")
    actions = (bulk("retry", gettext_lazy("Try the chosen ones again")),)
    refusals = (verbs.RentalRefused, verbs.IllegalMove)
    select = ("organization", "project", "pool", "subscription", "order_line__order", "order_line__offer__gpu_model")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("name", "identity"),
                    ("customer", "project"),
                    ("product", "pool"),
                    ("state", "desired"),
                    ("suspension", "suspended"),
                )
            },
        ),
        (
            gettext_lazy("Why it waits"),
            {"fields": ("waits", ("reason", "failure"), ("attempts", "next_step"), "deadline")},
        ),
        (gettext_lazy("Access"), {"fields": (("ssh", "generation"), "host_key_fingerprint")}),
        (gettext_lazy("Metering"), {"fields": (("term", "ends"), ("meter", "metering_since"))}),
        (gettext_lazy("Dates"), {"fields": (("created", "first_running"), ("stopped", "ended"))}),
        (gettext_lazy("What belongs to it"), {"fields": (("order_link", "elsewhere"),)}),
    )
    inlines = (MemberRows, RuleRows, TimelineRows)
    list_display = ("name", "customer", "pool", "state", "waits", "next_step", "attempts", "age")
    list_filter = ("status", ReasonFilter, "suspension", "pool", "desired", "created_at")
    search_fields = ("name", "=key", "organization__name", "members__host__name", "ssh_host")
    date_hierarchy = "created_at"
    ordering = ("-created_at", "-pk")

    customer = show.link("organization", gettext_lazy("organization"))
    identity = show.plain("key", gettext_lazy("key"))
    order_link = show.link("order_line__order", gettext_lazy("order"))
    state = show.badge("status", gettext_lazy("status"), STATES)
    next_step = show.instant("next_step_at", gettext_lazy("next step at"))
    deadline = show.instant("deadline_at", gettext_lazy("deadline"))
    metering_since = show.instant("metered_from", gettext_lazy("metered from"))
    ends = show.instant("subscription__ends_at", gettext_lazy("term ends at"))
    created = show.instant("created_at", gettext_lazy("created at"))
    first_running = show.instant("running_at", gettext_lazy("first running at"))
    stopped = show.instant("stopped_at", gettext_lazy("stopped at"))
    ended = show.instant("ended_at", gettext_lazy("ended at"))
    suspended = show.instant("suspended_at", gettext_lazy("suspended at"))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "order_line__order__id__exact" or super().lookup_allowed(lookup, value, request)

    @display(description=gettext_lazy("why it waits"), ordering="reason")
    def waits(self, rental: Rental) -> Any:
        code = rental.failure or rental.reason
        return why(code) if code else show.DASH

    @display(description=gettext_lazy("age"), ordering="created_at")
    def age(self, rental: Rental) -> str:
        return show.span((rental.ended_at or clock.now()) - rental.created_at)

    @display(description=gettext_lazy("offer"))
    def product(self, rental: Rental) -> str:
        return rental.order_line.offer.title

    @display(description=gettext_lazy("term"))
    def term(self, rental: Rental) -> str:
        return rental.subscription.get_term_display()

    @display(description="SSH")
    def ssh(self, rental: Rental) -> str:
        if not rental.ssh_host:
            return show.DASH
        return f"{rental.ssh_user}@{rental.ssh_host}:{rental.ssh_port}"

    @display(description=gettext_lazy("Lists"))
    def elsewhere(self, rental: Rental) -> str:
        windows = show.list_of(UsageWindow, UsageWindow._meta.verbose_name_plural, rental__id__exact=rental.pk)
        invoices = show.list_of(
            Invoice, Invoice._meta.verbose_name_plural, organization__id__exact=rental.organization_id
        )
        return format_html("{} · {}", windows, invoices)

    @button(
        gettext_lazy("Try again"),
        explain=gettext_lazy(
            "A machine that never ran is made anew, what is left of it is destroyed first. One that ran is started"
            " again; a changed host key is accepted by this decision."
        ),
        shown=lambda rental: rental.status == Rental.Status.NEEDS_OPERATOR,
    )
    def retry(self, request: HttpRequest, rental: Rental) -> str:
        verbs.retry(rental_id=rental.pk, actor=request.user, at=clock.now())
        return _("%(rental)s is being tried again.") % {"rental": rental}

    @button(
        gettext_lazy("Stop"),
        explain=gettext_lazy("The machine is stopped and its disk kept, as if the customer had asked for it."),
        shown=lambda rental: rental.status == Rental.Status.RUNNING,
    )
    def stop(self, request: HttpRequest, rental: Rental) -> str:
        verbs.request_stop(rental_id=rental.pk, actor=request.user, at=clock.now())
        return _("%(rental)s is being stopped.") % {"rental": rental}

    @button(gettext_lazy("Start"), shown=lambda rental: rental.status == Rental.Status.STOPPED)
    def start(self, request: HttpRequest, rental: Rental) -> str:
        verbs.request_start(rental_id=rental.pk, actor=request.user, at=clock.now())
        return _("%(rental)s is being started.") % {"rental": rental}

    @button(
        gettext_lazy("Suspend"),
        explain=gettext_lazy(
            "The machine is switched off and its disk kept; the customer is told and cannot start it. By the hour its"
            " cards go back and only the disk is billed; a term keeps its cards and its end. A payment does not"
            " undo it."
        ),
        shown=lambda rental: (
            (rental.status in verbs.SUSPENDABLE or rental.suspension == Rental.Suspension.ARREARS)
            and rental.suspension != Rental.Suspension.OPERATOR
        ),
        danger=True,
    )
    def suspend(self, request: HttpRequest, rental: Rental) -> str:
        verbs.suspend(rental_id=rental.pk, reason=Rental.Suspension.OPERATOR, actor=request.user, at=clock.now())
        return _("%(rental)s is being suspended.") % {"rental": rental}

    @button(
        gettext_lazy("Resume"),
        explain=gettext_lazy(
            "The suspension is taken back: a machine that ran is started again, one that was stopped stays stopped."
            " Where the balance is still below zero it is suspended again."
        ),
        shown=lambda rental: rental.status == Rental.Status.SUSPENDED,
    )
    def resume(self, request: HttpRequest, rental: Rental) -> str:
        verbs.resume(rental_id=rental.pk, actor=request.user, at=clock.now())
        return _("The suspension of %(rental)s was taken back.") % {"rental": rental}

    @button(
        gettext_lazy("Destroy"),
        explain=gettext_lazy(
            "The machine and its disk are deleted and cannot be brought back; metering ends now. What was paid in"
            " advance is for finance to settle."
        ),
        shown=lambda rental: rental.status not in {*Rental.OVER, Rental.Status.DESTROYING},
        danger=True,
    )
    def destroy(self, request: HttpRequest, rental: Rental) -> str:
        verbs.destroy_by_operator(rental_id=rental.pk, actor=request.user, at=clock.now())
        return _("%(rental)s is being destroyed.") % {"rental": rental}


@admin.register(UsageWindow)
class UsageWindowDesk(Desk):
    """What was metered, to the second. Written once, corrected only by reversing rows."""

    select = ("rental", "organization", "subscription", "reverses", "billed__line__invoice")
    fieldsets = (
        (None, {"fields": ("identity", ("machine", "customer"), ("metered_as", "count"), "per_hour")}),
        (None, {"fields": (("metered", "length"), ("corrects", "invoice"))}),
    )
    list_display = (
        "identity",
        "machine",
        "customer",
        "metered_as",
        "count",
        "per_hour",
        "metered",
        "length",
        "invoice",
    )
    list_filter = ("meter", "currency")
    search_fields = ("rental__name", "=rental__key", "organization__name")
    ordering = ("-pk",)

    customer = show.link("organization", gettext_lazy("organization"))
    identity = show.plain("key", gettext_lazy("key"))
    machine = show.link("rental", gettext_lazy("Rental"))
    metered_as = show.plain("meter", gettext_lazy("Meter"))
    count = show.plain("quantity", gettext_lazy("Quantity"))
    length = show.plain("seconds", gettext_lazy("Seconds"))
    corrects = show.link("reverses", gettext_lazy("Reverses"))
    per_hour = show.rate("rate", gettext_lazy("rate"))
    metered = show.period("period", gettext_lazy("period"))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "rental__id__exact" or super().lookup_allowed(lookup, value, request)

    @display(description=gettext_lazy("invoice"))
    def invoice(self, window: UsageWindow) -> str:
        billed = getattr(window, "billed", None)
        return show.link_to(billed.line.invoice) if billed else show.DASH


@admin.register(Orphan)
class OrphanDesk(Desk):
    """Machines with our label that no rental accounts for. Look at them at the engine; the next pass notices."""

    select = ("pool",)
    fieldsets = (
        (None, {"fields": (("names", "pool"), ("rental_key", "generation"))}),
        (gettext_lazy("Dates"), {"fields": (("first_seen", "last_seen"), ("quarantined", "resolved"))}),
    )
    list_display = ("names", "pool", "first_seen", "last_seen", "quarantined", "resolved")
    list_filter = (("resolved_at", admin.EmptyFieldListFilter), "pool")
    search_fields = ("names", "=rental_key")
    date_hierarchy = "last_seen_at"
    ordering = ("-last_seen_at",)

    first_seen = show.instant("first_seen_at", gettext_lazy("first seen at"))
    last_seen = show.instant("last_seen_at", gettext_lazy("last seen at"))
    quarantined = show.instant("quarantined_at", gettext_lazy("powered off at"))
    resolved = show.instant("resolved_at", gettext_lazy("resolved at"))
