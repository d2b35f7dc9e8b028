"""Forms of orders: check the shape, then hand over to one action."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.models import Project, SshKey
from marketplace.lib.phone import international
from orders.basket import MAX_ESTIMATED, MAX_PERIODS, MAX_UNITS, Item, carried_over
from orders.calculation import Line
from orders.models import Quote, Term
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
        else:
            ticked = [key for key in keys if key.is_default] or (keys if len(keys) == 1 else [])
            self.fields["ssh_keys"].initial = [str(key.key) for key in ticked]

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


class BasketLineForm(forms.Form):
    """Term, length and units of one line of a basket, changed where it stands. It starts as the line is."""

    term = forms.ChoiceField(label=_("Term"), choices=Term)
    periods = forms.IntegerField(label=_("Length"), min_value=1)
    quantity = forms.IntegerField(label=_("Units"), min_value=1, max_value=MAX_UNITS)

    def __init__(self, *args: Any, item: Item, **options: Any) -> None:
        initial = {"term": item.term, "periods": item.periods, "quantity": item.quantity}
        super().__init__(*args, initial=initial, auto_id="line-%s", **options)
        self.item = item
        self.fields["periods"].label = PERIOD_LABELS[Term(item.term)]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        term, periods = data.get("term"), data.get("periods")
        if not term or not periods:
            return data
        if term != self.item.term and periods == self.item.periods:
            # Only the term was changed: the same length of time in the new one.
            data["periods"] = periods = carried_over(periods, self.item.term, term)
        most = MAX_ESTIMATED[Term(term)]
        if periods > most:
            self.add_error("periods", _("Choose between 1 and %(most)d.") % {"most": most})
        return data

    @property
    def changed(self) -> Item:
        """The line as the form wants it; as it was while the form is wrong or was not sent."""
        if not self.is_bound or not self.is_valid():
            return self.item
        return Item(self.item.slug, **self.cleaned_data)


class AddToBasketForm(forms.Form):
    """One more line."""

    offer = forms.ChoiceField(label=_("Offer"))
    term = forms.ChoiceField(label=_("Term"), choices=Term, initial=Term.MONTH)
    periods = forms.IntegerField(label=_("Hours, months or years"), min_value=1, initial=1)
    quantity = forms.IntegerField(label=_("Units"), min_value=1, max_value=MAX_UNITS, initial=1)

    def __init__(self, *args: Any, families: Iterable[tuple[str, list[tuple[str, str]]]], **options: Any) -> None:
        super().__init__(*args, auto_id="add-%s", **options)
        self.fields["offer"].choices = [("", _("Choose an offer")), *families]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        term, periods = data.get("term"), data.get("periods")
        if term and periods and periods > MAX_ESTIMATED[Term(term)]:
            self.add_error("periods", _("Choose between 1 and %(most)d.") % {"most": MAX_ESTIMATED[Term(term)]})
        return data

    @property
    def item(self) -> Item:
        data = self.cleaned_data
        return Item(data["offer"], data["term"], data["periods"], data["quantity"])


PERIOD_LABELS = {Term.HOUR: _("Hours"), Term.MONTH: _("Months"), Term.YEAR: _("Years")}


class BasketOrderForm(KeysForm):
    """One order of several lines: an image for each, keys and project for all. `seen-0` is the rate that was shown."""

    request_key = forms.CharField(max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, offered: Choices, lines: Sequence[Line], **options: Any) -> None:
        super().__init__(*args, offered=offered, **options)
        self.fields["request_key"].initial = fresh_request_key()
        for number, line in enumerate(lines):
            stack = line.offer.gpu_model.software_stack if line.offer.gpu_model else ""
            image = PickOne(label=_("Image"))
            image.offer((one.slug, one, one.name) for one in offered.images if one.software_stack == stack)
            self.fields[f"image-{number}"] = image
            self.fields[f"seen-{number}"] = forms.DecimalField(
                max_digits=20, decimal_places=10, min_value=0, initial=line.rate, widget=forms.HiddenInput
            )

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if any(name == "request_key" or name.startswith("seen-") for name in self.errors):
            self.add_error(None, _("The form is out of date. Check it and place the order again."))
        return data

    def renew(self, lines: Sequence[Line], **values: str) -> None:
        """Show the form again with the rates of now."""
        self.data = self.data.copy()
        self.data.update({f"seen-{number}": rate_text(line.rate) for number, line in enumerate(lines) if line.rate})
        self.data.update(values)


class Phone(forms.CharField):
    """A phone number, taken in the usual ways of writing and kept in its international form."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=40, **options)
        self.widget.attrs |= {"autocomplete": "tel", "type": "tel"}

    def clean(self, value: Any) -> str:
        text = super().clean(value)
        try:
            return international(text) if text else ""
        except ValueError:
            raise forms.ValidationError(
                _(
                    "Enter a mobile number (13800138000), a landline with area code (0591-1234567) or, from abroad, the"
                    " number with its country code (+1 415 555 0123)."
                )
            ) from None


def printable(text: str) -> str:
    """The text, if every character can be seen; a mail's header and a paper's line take no other."""
    if not text.isprintable():
        raise forms.ValidationError(_("The name contains characters that cannot be printed."))
    return text


class QuoteRequestForm(forms.Form):
    """What is needed and who asks. A member is known; a visitor says how to be reached."""

    need = forms.ChoiceField(label=_("What is it about?"), choices=Quote.Need, initial=Quote.Need.GPU)
    note = forms.CharField(
        label=_("What do you need?"),
        required=False,
        max_length=2000,
        help_text=_("Purpose, quantities, dates, place, anything that matters. Up to 2,000 characters."),
        widget=forms.Textarea(attrs={"rows": 5}),
    )
    name = forms.CharField(label=_("Your name"), max_length=60, widget=forms.TextInput(attrs={"autocomplete": "name"}))
    company = forms.CharField(
        label=_("Company"), max_length=100, widget=forms.TextInput(attrs={"autocomplete": "organization"})
    )
    email = forms.EmailField(
        label=_("E-mail"), max_length=254, widget=forms.EmailInput(attrs={"autocomplete": "email"})
    )
    phone = Phone(
        label=_("Phone"), help_text=_("Mobile, landline with area code, or from abroad with the country code.")
    )
    form_key = forms.CharField(max_length=64, widget=forms.HiddenInput)

    def __init__(self, *args: Any, items: Sequence[Item], known: bool, **options: Any) -> None:
        super().__init__(*args, auto_id="request-%s", **options)
        self.items = items
        self.fields["form_key"].initial = fresh_request_key()
        if known:
            for name in ("name", "company", "email"):
                del self.fields[name]
            self.fields["phone"].required = False

    def clean_name(self) -> str:
        return printable(self.cleaned_data["name"])

    def clean_company(self) -> str:
        return printable(self.cleaned_data["company"])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not self.items and not data.get("note", "").strip() and "note" not in self.errors:
            self.add_error("note", _("Say what you need: add offers or describe it."))
        return data

    @property
    def request_key(self) -> str:
        """The same for each sending of one form with the same content; other content is another request."""
        said = [*(str(self.cleaned_data[name]) for name in sorted(self.cleaned_data)), *map(str, self.items)]
        return hashlib.sha256("\0".join(said).encode()).hexdigest()
