"""Forms of orders: check the shape, then hand over to one action."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Project, SshKey
from orders.actions import MAX_PERIODS, MAX_UNITS
from orders.models import Term
from orders.queries import Choices

# What the shown price depends on; the other fields may still be wrong while it is looked up.
PRICED = ("quantity", "term", "periods")


class PickOne(forms.ChoiceField):
    """A choice among objects that are loaded already: validating and showing them costs no further query."""

    objects: Mapping[str, Any] = MappingProxyType({})

    def offer(self, pairs: Iterable[tuple[str, Any, str]]) -> None:
        """(value, object, label) of everything that may be chosen; this form's copy of the field only."""
        rows = list(pairs)
        self.objects = {value: found for value, found, _label in rows}
        self.choices = [(value, label) for value, _found, label in rows]

    def clean(self, value: Any) -> Any:
        return self.objects.get(super().clean(value))


class PickSome(forms.MultipleChoiceField):
    """Like PickOne, for several at once."""

    widget = forms.CheckboxSelectMultiple
    objects: Mapping[str, Any] = MappingProxyType({})
    offer = PickOne.offer

    def clean(self, value: Any) -> list[Any]:
        return [self.objects[chosen] for chosen in super().clean(value)]


class Keys(PickSome):
    """Not marked as optional, but the form may find another way to the key."""

    def validate(self, value: list[str]) -> None:
        if value:
            super().validate(value)


class Periods(forms.IntegerField):
    """One where nothing was said, as for an order by the hour."""

    def clean(self, value: Any) -> int:
        return super().clean(value or 1)


class KeysForm(forms.Form):
    """Which SSH keys the machines admit: some of the organization's, a new one pasted here, or both."""

    ssh_keys = Keys(label=_("SSH keys"))
    new_key = forms.CharField(
        label=_("Or paste a new public key"),
        required=False,
        help_text=_("One line, for example the content of ~/.ssh/id_ed25519.pub. It is added to your organization."),
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "autocomplete": "off", "class": "code"}),
    )
    new_key_name = forms.CharField(
        label=_("Name of the new key"), required=False, max_length=60, help_text=_("Empty: the key's comment.")
    )
    project = PickOne(label=_("Project"))

    def __init__(self, *args: Any, offered: Choices, **options: Any) -> None:
        super().__init__(*args, **options)
        keys, projects = offered.keys, offered.projects
        self.fields["ssh_keys"].offer((str(key.key), key, _key_label(key)) for key in keys)
        self.default_project = next((one for one in projects if one.is_default), projects[0] if projects else None)
        if len(projects) > 1:
            self.fields["project"].offer((str(one.pk), one, one.name) for one in projects)
            self.fields["project"].initial = str(self.default_project.pk)
        else:
            del self.fields["project"]
        if not keys:
            del self.fields["ssh_keys"]
            self.fields["new_key"].label = _("Public SSH key")
            self.fields["new_key"].required = True
        elif len(keys) == 1:
            self.fields["ssh_keys"].initial = [str(keys[0].key)]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not data.get("ssh_keys") and not data.get("new_key") and "new_key" not in self.errors:
            missing = _("Choose at least one SSH key; it is the only way into the machine.")
            self.add_error("ssh_keys" if "ssh_keys" in self.fields else "new_key", missing)
        return data

    @property
    def chosen_project(self) -> Project | None:
        """The chosen project, the default one where there is nothing to choose."""
        return self.cleaned_data.get("project") or self.default_project


def _key_label(key: SshKey) -> str:
    return f"{key.name} · {key.fingerprint[:19]}…"


class OrderForm(KeysForm):
    """Everything one order needs. `seen_rate` and `seen_choice` say which price the buyer was looking at."""

    quantity = forms.IntegerField(label=_("Units"), min_value=1, max_value=MAX_UNITS, initial=1)
    term = forms.ChoiceField(label=_("Term"), choices=Term, widget=forms.RadioSelect, initial=Term.HOUR)
    periods = Periods(
        label=_("Months or years"),
        min_value=1,
        max_value=MAX_PERIODS[Term.MONTH],
        initial=1,
        help_text=_("Up to 36 months or 5 years. By the hour there is no end: it runs until you terminate it."),
    )
    image = PickOne(label=_("Image"))
    request_key = forms.CharField(max_length=64, widget=forms.HiddenInput)
    seen_rate = forms.DecimalField(max_digits=20, decimal_places=10, min_value=0, widget=forms.HiddenInput)
    seen_choice = forms.CharField(max_length=20, required=False, widget=forms.HiddenInput)

    field_order = ("quantity", "term", "periods", "image", "ssh_keys", "new_key", "new_key_name", "project")

    def __init__(self, *args: Any, offered: Choices, **options: Any) -> None:
        super().__init__(*args, offered=offered, **options)
        self.fields["image"].offer((one.slug, one, one.name) for one in offered.images)
        self.fields["request_key"].initial = fresh_request_key()

    def offer_terms(self, terms: Sequence[str]) -> None:
        """Show only the terms that have a price."""
        self.fields["term"].choices = [(value, label) for value, label in Term.choices if value in terms]
        self.fields["term"].initial = terms[0]

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        term, periods = data.get("term"), data.get("periods")
        if term and periods and term != Term.HOUR and periods > MAX_PERIODS[Term(term)]:
            self.add_error("periods", _("Choose between 1 and %(most)d.") % {"most": MAX_PERIODS[Term(term)]})
        if {"request_key", "seen_rate", "seen_choice"} & set(self.errors):
            self.add_error(None, _("The form is out of date. Check it and place the order again."))
        return data

    def keep_only_price_errors(self) -> None:
        """Asking for a price is no reason to complain about fields that are not filled in yet."""
        self.full_clean()
        for name in set(self.errors) - set(PRICED):
            del self.errors[name]

    @property
    def choice(self) -> dict[str, Any] | None:
        """What is to be priced, or None while it is invalid; the initial values before anything was sent."""
        if not self.is_bound:
            return {name: self.get_initial_for_field(self.fields[name], name) for name in PRICED}
        if set(PRICED) & set(self.errors):
            return None
        return {name: self.cleaned_data[name] for name in PRICED}

    @property
    def was_seen(self) -> bool:
        """Whether the price on the page was the price of these choices."""
        return self.cleaned_data["seen_choice"] in {"", mark_of(**self.choice)}

    def renew(self, **values: str) -> None:
        """Replace hidden values of a form that is shown again."""
        self.data = self.data.copy()
        self.data.update(values)


def mark_of(*, quantity: int, term: str, periods: int) -> str:
    """The choices a shown price belongs to, short enough for a hidden field."""
    return f"{quantity}/{term}/{1 if term == Term.HOUR else periods}"


def fresh_request_key() -> str:
    return uuid.uuid4().hex


def rate_text(rate: Decimal) -> str:
    return f"{rate:f}"
