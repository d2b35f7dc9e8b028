"""Forms of accounts: sign-up, SSH keys, preferences for notices."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.forms import BoundField
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _

from accounts import actions
from accounts.models import CURRENCY_CHOICES, Budget, Membership, Organization, SshKey
from accounts.notices import GROUPS, Group
from accounts.permissions import can
from marketplace.lib import clock, money


class SignupForm(forms.Form):
    """What the sign-up page asks beyond e-mail and password; the organization is opened with the account."""

    organization = forms.CharField(
        label=_("Organization"),
        max_length=100,
        help_text=_("Your company, lab or team, as it should stand on invoices."),
        widget=forms.TextInput(attrs={"autocomplete": "organization"}),
    )
    currency = forms.ChoiceField(
        label=_("Billing currency"),
        choices=CURRENCY_CHOICES,
        help_text=_("Cannot be changed after the first order."),
    )
    field_order = ("email", "password1", "organization", "currency")

    def clean_organization(self) -> str:
        name = self.cleaned_data["organization"].strip()
        if not name.isprintable():
            raise forms.ValidationError(_("The name contains characters that cannot be printed."))
        return name

    def signup(self, request, user) -> None:
        """Called by allauth in the transaction-less request once the user is saved."""
        actions.remember_language(user=user, language=get_language() or "")
        actions.open_organization(
            owner=user,
            name=self.cleaned_data["organization"],
            currency=self.cleaned_data["currency"],
            at=clock.now(),
        )


class SshKeyForm(forms.ModelForm):
    """One public key. The action parses it; its refusal lands beside the field."""

    name = forms.CharField(label=_("Name"), max_length=60, required=False, help_text=_("Empty: the key's comment."))
    public_key = forms.CharField(
        label=_("Public key"),
        help_text=_("One line, for example the content of ~/.ssh/id_ed25519.pub. Only public keys are stored."),
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off", "class": "code"}),
    )

    class Meta:
        model = SshKey
        fields = ("name", "public_key")

    def _post_clean(self) -> None:
        """The action validates and saves; the model's own checks would only repeat it without its words."""


class BudgetForm(forms.Form):
    """A month's budget; amounts in the organization's currency. What it is for is chosen once."""

    project = forms.TypedChoiceField(label=_("For"), required=False, coerce=int, empty_value=None)
    amount = forms.DecimalField()  # replaced below: its digits are the currency's
    on_reached = forms.ChoiceField(
        label=_("When it is used up"), choices=Budget.OnReached.choices, widget=forms.RadioSelect, initial="warn"
    )

    def __init__(
        self, data: Any = None, *, organization: Organization, budget: Budget | None = None, **options: Any
    ) -> None:
        super().__init__(data, **options)
        self.organization = organization
        currency = organization.currency
        self.fields["amount"] = forms.DecimalField(
            label=_("Amount a month (%(currency)s)") % {"currency": currency},
            max_digits=15,
            decimal_places=money.exponent(currency),
            min_value=money.major(1, currency),
            help_text=_("Calendar months, tax included: what is used by the hour and what is ordered in advance."),
        )
        if budget is not None:
            del self.fields["project"]
            self.initial |= {"amount": money.major(budget.amount_minor, currency), "on_reached": budget.on_reached}
            return
        self.projects = {one.pk: one for one in organization.projects.order_by("-is_default", "name")}
        choices = [("", _("The whole organization")), *((pk, one.name) for pk, one in self.projects.items())]
        self.fields["project"].choices = choices  # type: ignore[attr-defined]

    def figures(self) -> dict[str, Any]:
        """What the action is told; call after is_valid()."""
        read = self.cleaned_data
        told = {
            "amount_minor": money.minor(read["amount"], self.organization.currency),
            "on_reached": read["on_reached"],
        }
        if "project" in self.fields:
            told["project"] = self.projects.get(read["project"])
        return told


class ProjectForm(forms.Form):
    """The name of a project."""

    name = forms.CharField(label=_("Name"), max_length=60, strip=True)


class PreferencesForm(forms.Form):
    """Two boxes for each group of notices that the member's role may see; money stays in the console."""

    def __init__(self, *args: Any, membership: Membership, **options: Any) -> None:
        super().__init__(*args, **options)
        self.groups: list[Group] = [group for group in GROUPS if can(membership, group.verb)]
        chosen = {wish.group: wish for wish in membership.user.notification_preferences.all()}
        for group in self.groups:
            wish = chosen.get(group.name)
            app = group.always or (wish.in_app if wish else True)
            self._offer(f"{group.name}_app", _("Console"), app, disabled=group.always)
            self._offer(f"{group.name}_mail", _("Mail"), wish.mail if wish else group.mail)

    def _offer(self, name: str, label: Any, initial: bool, *, disabled: bool = False) -> None:
        self.fields[name] = forms.BooleanField(label=label, required=False, initial=initial, disabled=disabled)

    def rows(self) -> Iterator[tuple[Group, BoundField, BoundField]]:
        return ((group, self[f"{group.name}_app"], self[f"{group.name}_mail"]) for group in self.groups)

    def wishes(self) -> dict[str, tuple[bool, bool]]:
        data = self.cleaned_data
        return {group.name: (data[f"{group.name}_app"], data[f"{group.name}_mail"]) for group in self.groups}
