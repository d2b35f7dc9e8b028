"""The SSH key part that the order form and a quote's acceptance share."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest

from accounts import actions as accounts
from accounts.keys import KeyRefused
from accounts.models import Organization, SshKey
from orders.forms import KeysForm


def chosen_keys(form: KeysForm, request: HttpRequest, organization: Organization, at: datetime) -> list[SshKey]:
    """The chosen keys and the pasted one, which is added. Raises KeyRefused."""
    keys = list(form.cleaned_data.get("ssh_keys") or [])
    if form.cleaned_data["new_key"]:
        new = accounts.add_ssh_key(
            organization=organization,
            name=form.cleaned_data["new_key_name"],
            text=form.cleaned_data["new_key"],
            actor=request.user,
            at=at,
        )
        keys.append(new)
    return keys


def refuse_key(form: KeysForm, refusal: KeyRefused) -> None:
    """Put the refusal beside the field it is about."""
    form.add_error("new_key_name" if refusal.about_name else "new_key", refusal.message)
