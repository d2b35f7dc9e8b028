"""What narrows the list of rentals (its address is its state), and the rules by which one stops by itself."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from accounts.models import Organization, Project
from marketplace.lib import money
from rentals.models import AutoStopRule

STATES = [
    ("", _("All")),
    ("running", _("Running")),
    ("stopped", _("Stopped")),
    ("suspended", _("Suspended")),
    ("moving", _("In progress")),
    ("attention", _("Needs attention")),
    ("over", _("Terminated")),
]


class RentalFilterForm(forms.Form):
    """Every field is optional; one that cannot be read gets a message and narrows nothing."""

    q = forms.CharField(label=_("Name"), required=False, max_length=60, strip=True)
    state = forms.ChoiceField(label=_("Status"), required=False, choices=STATES)
    project = forms.TypedChoiceField(label=_("Project"), required=False, coerce=int, empty_value=None)

    def __init__(self, data: Any, organization: Organization) -> None:
        super().__init__(data, auto_id="filter-%s")
        self.projects = {project.pk: project for project in organization.projects.order_by("-is_default", "name")}
        choices = [(pk, project.name) for pk, project in self.projects.items()]
        self.fields["project"].choices = [("", _("All")), *choices]  # type: ignore[attr-defined]
        if len(choices) < 2:
            del self.fields["project"]

    def wanted(self) -> dict[str, Any]:
        """What to narrow by, as far as it could be read."""
        self.full_clean()
        read = self.cleaned_data
        project: Project | None = self.projects.get(read.get("project"))
        return {"name": read.get("q", ""), "state": read.get("state", ""), "project": project}


# --- auto-stop -------------------------------------------------------------------------------------------------------


class RuleForm(forms.Form):
    """One kind of rule. Times are read in the organization's zone, amounts in its currency."""

    kind: str

    def __init__(
        self, data: Any = None, *, organization: Organization, rule: AutoStopRule | None = None, **options: Any
    ) -> None:
        initial = {name: getattr(rule, name, None) for name in self.base_fields} if rule else {}
        super().__init__(data, initial=initial, auto_id=f"{self.kind}-%s", **options)
        self.organization = organization

    def figures(self) -> dict[str, Any]:
        """What the action is told; call after is_valid()."""
        return dict(self.cleaned_data)


class IdleRuleForm(RuleForm):
    kind = "idle"
    minutes = forms.IntegerField(label=_("Idle for (minutes)"), min_value=1, max_value=1440, initial=30)
    threshold_percent = forms.IntegerField(
        label=_("Every card busy less than (%)"), min_value=1, max_value=100, initial=5
    )


class ZonedDateTimeField(forms.DateTimeField):
    """A wall clock's time in `zone`; one that the clocks skip or show twice there is refused, and any far away."""

    zone = ""
    years = range(2000, 2200)

    def to_python(self, value: Any) -> datetime | None:
        with timezone.override(ZoneInfo(self.zone)):
            read = super().to_python(value)
        if read is not None and read.year not in self.years:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return read

    def prepare_value(self, value: Any) -> Any:
        return value.astimezone(ZoneInfo(self.zone)).replace(tzinfo=None) if isinstance(value, datetime) else value


class TimeRuleForm(RuleForm):
    kind = "at_time"
    stop_at = ZonedDateTimeField(
        label=_("Stop at"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *arguments: Any, organization: Organization, **options: Any) -> None:
        super().__init__(*arguments, organization=organization, **options)
        self.fields["stop_at"].zone = organization.zone  # type: ignore[attr-defined]
        self.fields["stop_at"].help_text = _("In the time of %(zone)s") % {"zone": organization.zone}


class SpendRuleForm(RuleForm):
    kind = "at_spend"
    amount = forms.DecimalField()  # replaced below: its digits are the currency's

    def __init__(
        self, *arguments: Any, organization: Organization, rule: AutoStopRule | None = None, **options: Any
    ) -> None:
        super().__init__(*arguments, organization=organization, rule=rule, **options)
        currency = organization.currency
        if rule is not None and rule.amount_minor is not None:
            self.initial["amount"] = money.major(rule.amount_minor, rule.currency)
        digits = money.exponent(currency)
        field = forms.DecimalField(
            label=_("Stop once it has cost (%(currency)s)") % {"currency": currency},
            max_digits=11,
            decimal_places=digits,
            min_value=0,
        )
        self.fields["amount"] = field

    def figures(self) -> dict[str, Any]:
        return {"amount_minor": money.minor(self.cleaned_data["amount"], self.organization.currency)}


AUTO_STOP_FORMS: dict[str, type[RuleForm]] = {form.kind: form for form in (IdleRuleForm, TimeRuleForm, SpendRuleForm)}


# --- more time -------------------------------------------------------------------------------------------------------


class MoreTimeForm(forms.Form):
    """More time for a machine: months or years. `seen_rate` and `seen_choice` say which price was looked at."""

    term = forms.ChoiceField(label=_("Term"), widget=forms.RadioSelect)
    periods = forms.IntegerField(label=_("Months or years"), min_value=1, max_value=36, initial=1)
    request_key = forms.CharField(max_length=64, widget=forms.HiddenInput)
    seen_rate = forms.DecimalField(max_digits=20, decimal_places=10, min_value=0, widget=forms.HiddenInput)
    seen_choice = forms.CharField(max_length=20, required=False, widget=forms.HiddenInput)

    def __init__(self, data: Any = None, *, terms: list[tuple[str, Any]], **options: Any) -> None:
        super().__init__(data, **options)
        self.fields["term"].choices = terms  # type: ignore[attr-defined]
        self.fields["term"].initial = terms[0][0] if terms else None
        self.fields["request_key"].initial = uuid.uuid4().hex

    @property
    def choice(self) -> tuple[str, int] | None:
        """Term and number of periods to price; None while they cannot be read."""
        if not self.is_bound:
            return str(self.fields["term"].initial), 1
        self.full_clean()
        if {"term", "periods"} & set(self.errors):
            return None
        return self.cleaned_data["term"], self.cleaned_data["periods"]

    @property
    def was_seen(self) -> bool:
        """Whether the price on the page was the price of these choices."""
        return self.choice is not None and self.cleaned_data["seen_choice"] == mark_of(*self.choice)


def mark_of(term: str, periods: int) -> str:
    """The choice a shown price belongs to, short enough for a hidden field."""
    return f"{term}/{periods}"
