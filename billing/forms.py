"""Forms around the balance: amounts in major units of the organization's currency, one request per form."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import uuid4

from django import forms
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from marketplace.lib.limits import MAXIMUM_MINOR, MINIMUM_MINOR
from marketplace.lib.money import exponent, format_minor, minor


class AmountField(forms.DecimalField):
    """An amount of one currency, cleaned into integer minor units."""

    def __init__(self, *, currency: str, **options: Any) -> None:
        self.currency = currency
        step = Decimal(1).scaleb(-exponent(currency))
        options.setdefault("min_value", step)
        super().__init__(max_digits=14, decimal_places=exponent(currency), **options)
        self.widget.attrs |= {"inputmode": "decimal", "autocomplete": "off"}

    def clean(self, value: Any) -> int | None:  # type: ignore[override]
        amount = super().clean(value)
        return None if amount is None else minor(amount, self.currency)


class TopUpForm(forms.Form):
    """How much to pay in. The hidden key makes of two presses one top-up."""

    request_key = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, currency: str, **options: Any) -> None:
        options.setdefault("initial", {}).setdefault("request_key", uuid4())
        super().__init__(*args, **options)
        facts = {
            "least": format_minor(MINIMUM_MINOR[currency], currency),
            "most": format_minor(MAXIMUM_MINOR, currency),
        }
        help_text = _now("%(least)s to %(most)s. Larger amounts come by bank transfer.") % facts
        label = _now("Amount (%(currency)s)") % {"currency": currency}
        self.fields["amount"] = AmountField(currency=currency, label=label, help_text=help_text)


class VoucherForm(forms.Form):
    code = forms.CharField(
        label=_("Voucher code"),
        max_length=40,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "code"}),
    )


class SlipForm(forms.Form):
    """What a customer says of a transfer. The action checks the file by its content."""

    payer = forms.CharField(
        label=_("Payer"),
        max_length=100,
        help_text=_("The name of the account that the money was sent from."),
        widget=forms.TextInput(attrs={"autocomplete": "organization"}),
    )
    sent_on = forms.DateField(label=_("Day of the transfer"), widget=forms.DateInput(attrs={"type": "date"}))
    file = forms.FileField(
        label=_("Slip"),
        help_text=_("The bank's receipt as PDF, PNG or JPEG, at most 5 MB."),
        widget=forms.FileInput(attrs={"accept": ".pdf,.png,.jpg,.jpeg"}),
    )
    field_order = ("amount", "payer", "sent_on", "file")

    def __init__(self, *args: Any, currency: str, **options: Any) -> None:
        super().__init__(*args, **options)
        label = _now("Amount (%(currency)s)") % {"currency": currency}
        self.fields["amount"] = AmountField(currency=currency, label=label)
        self.order_fields(self.field_order)


class AutoTopUpForm(forms.Form):
    """When and how much the saved card is charged."""

    def __init__(self, *args: Any, currency: str, **options: Any) -> None:
        super().__init__(*args, **options)
        facts = {"currency": currency}
        self.fields["below"] = AmountField(currency=currency, label=_now("When less than (%(currency)s)") % facts)
        self.fields["amount"] = AmountField(
            currency=currency,
            label=_now("Charge the card (%(currency)s)") % facts,
            help_text=_now("At least as much as the mark, so that one charge is enough."),
        )
