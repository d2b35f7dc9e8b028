"""Forms of accounts: sign-up, SSH keys."""

from django import forms
from django.utils.translation import gettext_lazy as _

from accounts import actions
from accounts.models import CURRENCY_CHOICES, SshKey
from marketplace.lib import clock


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
