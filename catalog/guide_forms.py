"""Forms of the advice pages. Their addresses are their state, so that an answer can be kept and shared."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from typing import Any, NamedTuple

from django import forms
from django.utils.translation import gettext_lazy as _

from catalog.guide import Need
from catalog.guide.facts import HOURS_PER_MONTH, STAGES, STEP_TOKENS
from catalog.guide.kinds import TRAINING
from catalog.guide.texts import PRECISIONS, PURPOSES
from catalog.guide.texts import SCENARIOS as SCENARIO_NAMES
from catalog.guide.texts import STAGES as STAGE_NAMES
from marketplace.lib.money import BILLING_CURRENCIES

# Thousands may be apart, and a size may be written as people say it: 7B, 70b.
_APART = re.compile(r"(?<=\d)[,\s](?=\d{3}(?:\D|$))")
_BILLION = re.compile(r"(?<=\d)\s*[bB]$")
_GOVERNMENT = "government"


def plain_number(value: Any, *, billions: bool = False) -> Any:
    """A number as a form reads it: full-width digits and points are plain ones, thousands stand together."""
    if not isinstance(value, str):
        return value
    text = _APART.sub("", unicodedata.normalize("NFKC", value).strip())
    return _BILLION.sub("", text) if billions else text


class Amount(forms.DecimalField):
    """A quantity with at most three decimals. A text input, so that what was typed is never lost on the way."""

    def __init__(self, *, billions: bool = False, **options: Any) -> None:
        self.billions = billions
        widget = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
        super().__init__(**{"required": False, "decimal_places": 3, "widget": widget} | options)

    def to_python(self, value: Any) -> Decimal | None:
        return super().to_python(plain_number(value, billions=self.billions))


class Whole(forms.IntegerField):
    """A whole number, read like Amount."""

    def __init__(self, **options: Any) -> None:
        widget = forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"})
        super().__init__(**{"required": False, "min_value": 1, "widget": widget} | options)

    def to_python(self, value: Any) -> int | None:
        return super().to_python(plain_number(value))


class Question(NamedTuple):
    """`need` is None where only the size of the company or the kind of work is known."""

    stage: str
    scenario: str
    months: int
    hours: int
    domestic: bool
    need: Need | None


class GuideForm(forms.Form):
    """A need. What is left empty takes its usual value, which is shown; with no purpose, size and work are answered."""

    purpose = forms.ChoiceField(
        label=_("What to compute"), required=False, choices=[("", _("Not decided yet")), *PURPOSES.items()]
    )
    stage = forms.ChoiceField(
        label=_("Your organization"), required=False, choices=[("", _("Not said")), *STAGE_NAMES.items()]
    )
    scenario = forms.ChoiceField(
        label=_("Kind of work"), required=False, choices=[("", _("Not said")), *SCENARIO_NAMES.items()]
    )
    params = Amount(
        label=_("Model size (billion parameters)"), billions=True, min_value=Decimal("0.1"), max_value=10_000
    )
    precision = forms.ChoiceField(label=_("Precision of the weights"), required=False, choices=list(PRECISIONS.items()))
    sequence = Whole(label=_("Sequence or context (tokens)"), max_value=10_000_000)
    concurrency = Whole(label=_("Requests or jobs at once"), max_value=1_000_000)
    tokens = Amount(
        label=_("Tokens to train on (billion)"), billions=True, min_value=Decimal("0.001"), max_value=1_000_000
    )
    deadline = Amount(label=_("Deadline (days)"), min_value=Decimal("0.1"), max_value=3650)
    batch = Whole(label=_("Sequences per card and step"), max_value=1024)
    step_tokens = Whole(
        label=_("Tokens per card and gradient sync"),
        max_value=100_000_000,
        help_text=_("Only for jobs over several servers: more tokens between two syncs need less network."),
    )
    months = Whole(label=_("Months"), max_value=60)
    hours = Whole(label=_("Hours of use per month"), max_value=744)
    domestic = forms.BooleanField(label=_("Domestic cards only"), required=False)

    defaults = {"precision": "bf16", "sequence": 4096, "concurrency": 1, "batch": 1, "step_tokens": STEP_TOKENS}

    def __init__(self, data: Any) -> None:
        asked = any(name in data for name in self.base_fields)
        super().__init__(data if asked else None, auto_id="guide-%s", initial=self.defaults)
        for name in ("sequence", "concurrency", "batch", "step_tokens"):
            self.fields[name].widget.attrs["placeholder"] = str(self.defaults[name])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        purpose = data.get("purpose")
        if purpose and purpose != "aigc" and "params" not in self.errors and not data.get("params"):
            self.add_error("params", _("How many billion parameters has the model? For example 7."))
        if purpose in TRAINING and data.get("deadline") and "tokens" not in self.errors and not data.get("tokens"):
            self.add_error("tokens", _("A deadline can only be planned with the number of tokens."))
        if not self.errors and not (purpose or data.get("stage") or data.get("scenario") or data.get("domestic")):
            self.add_error("purpose", _("Choose what to compute, or say who you are or what kind of work it is."))
        return data

    def question(self) -> Question:
        """What was asked; what was left empty has the usual value of the company’s size, else the guide’s own."""
        data = self.cleaned_data
        stage = STAGES.get(data["stage"])
        months = data["months"] or (stage.months if stage else 1)
        hours = data["hours"] or (stage.hours if stage else HOURS_PER_MONTH)
        domestic = data["domestic"] or data["scenario"] == _GOVERNMENT
        need = None
        if data["purpose"]:
            trains = data["purpose"] in TRAINING
            need = Need(
                purpose=data["purpose"],
                params_b=data["params"] or Decimal(0),
                tokens_b=data["tokens"] if trains else None,
                deadline_days=data["deadline"] if trains else None,
                months=months,
                hours=hours,
                domestic=domestic,
                **{name: data[name] or usual for name, usual in self.defaults.items()},
            )
        return Question(data["stage"], data["scenario"], months, hours, domestic, need)


class Share(Amount):
    """Percent, as a fraction when cleaned."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": 100} | options)


class RentOrBuyForm(forms.Form):
    """The cost model's inputs. Amounts are in `currency`; what is left empty takes the usual value."""

    model = forms.ChoiceField(label=_("Card"), required=False)
    cards = Whole(label=_("Cards per server"), max_value=64)
    use = Share(label=_("Use, if rented by the hour (%)"))
    hour = Amount(label=_("Rent per card-hour"), min_value=0, max_value=100_000, decimal_places=6)
    month = Amount(label=_("Rent per card-month"), min_value=0, max_value=10_000_000, decimal_places=6)
    year = Amount(label=_("Rent per card-year"), min_value=0, max_value=100_000_000, decimal_places=6)
    server = Amount(label=_("Server price"), min_value=0, max_value=1_000_000_000, decimal_places=2)
    network_share = Share(label=_("Network and switches (share of the server in %)"), max_value=500)
    years = Whole(label=_("Years of use"), max_value=10)
    residual = Share(label=_("Value left at the end (%)"))
    capital = Share(label=_("Cost of capital (% per year)"))
    kw = Amount(label=_("Power of the server (kW)"), min_value=0, max_value=1000)
    load = Share(label=_("Average load (%)"))
    pue = Amount(label=_("PUE"), min_value=1, max_value=5)
    kwh = Amount(label=_("Electricity per kWh"), min_value=0, max_value=100, decimal_places=4)
    maintenance = Share(label=_("Maintenance (yearly share of the purchase in %)"))
    staff = Amount(
        label=_("Operations staff per server and month"), min_value=0, max_value=10_000_000, decimal_places=2
    )
    rack = Amount(label=_("Rack space per month"), min_value=0, max_value=10_000_000, decimal_places=2)
    currency = forms.ChoiceField(
        required=False, choices=[(code, code) for code in BILLING_CURRENCIES], widget=forms.HiddenInput
    )

    percents = ("use", "network_share", "residual", "capital", "load", "maintenance")
    amounts = ("hour", "month", "year", "server", "kwh", "staff", "rack")

    def __init__(
        self, data: Any, *, usual: dict[str, Decimal], models: list[tuple[str, str]], model: str, currency: str
    ) -> None:
        asked = any(name in data for name in self.base_fields)
        plain = {name: f"{value.normalize():f}" for name, value in usual.items()}
        initial = plain | {"currency": currency, "model": model}
        super().__init__(data if asked else None, auto_id="buy-%s", initial=initial)
        self.usual = usual
        self.fields["model"].choices = models
        for name, value in plain.items():
            self.fields[name].widget.attrs["placeholder"] = value
        for name in self.amounts:
            self.fields[name].label = f"{self.fields[name].label} ({currency})"

    def value(self, name: str) -> Decimal:
        """What was said, else the usual value; percent as a fraction."""
        said = self.cleaned_data.get(name) if self.is_bound else None
        value = self.usual[name] if said is None else Decimal(said)
        return value / 100 if name in self.percents else value

    def rate(self, term: str, listed: Decimal | None) -> Decimal | None:
        """The rent that was said, else the listed one."""
        said = self.cleaned_data.get(term) if self.is_bound else None
        return listed if said is None else said
