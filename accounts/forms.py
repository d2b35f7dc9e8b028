"""Forms of accounts."""

from django import forms


class SignupForm(forms.Form):
    """Extra fields of the sign-up page; the organization is opened with the account."""

    def signup(self, request, user):
        """Called by allauth once the user exists."""
