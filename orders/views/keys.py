"""The SSH key part that the order form, a basket's order and a quote's acceptance share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from django.db import transaction
from django.http import HttpRequest

from accounts import actions as accounts
from accounts.keys import KeyRefused
from accounts.models import Organization, SshKey
from orders import queries
from orders.forms import KeysForm
from orders.models import Order


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


def order_with_keys(
    form: KeysForm,
    request: HttpRequest,
    organization: Organization,
    at: datetime,
    place: Callable[[Sequence[SshKey]], Order],
) -> Order:
    """The order that `place` makes of the keys. A pasted key is added with the order or not at all, so that a refusal
    can be answered by the same form. Raises KeyRefused and what `place` raises."""
    try:
        with transaction.atomic():
            return place(chosen_keys(form, request, organization, at))
    except KeyRefused:
        # The second of a double click finds the first one's key, and its order.
        order = queries.ordered_before(organization, form.cleaned_data["request_key"])
        if order is None:
            raise
        return order


def refuse_key(form: KeysForm, refusal: KeyRefused) -> None:
    """Put the refusal beside the field it is about."""
    form.add_error("new_key_name" if refusal.about_name else "new_key", refusal.message)
