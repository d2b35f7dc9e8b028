"""How a desk shows amounts, states, links and moments: builders of columns for lists and pages."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from unfold.decorators import display

from marketplace.lib.money import format_minor, format_rate

Text = str | Promise
Column = Callable[[Any, Any], Any]

DASH = "–"


def follow(row: Any, path: str) -> Any:
    """The value at the end of `a__b`, or None where a link of it is missing."""
    for name in path.split("__"):
        if row is None:
            return None
        row = getattr(row, name)
    return row


def money(field: str, title: Text, *, currency: str = "currency") -> Column:
    """An amount in minor units, with the currency found at `currency`."""

    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> str:
        amount, code = follow(row, field), follow(row, currency)
        return DASH if amount is None or code is None else format_minor(amount, code)

    return column


def rate(field: str, title: Text, *, currency: str = "currency") -> Column:
    """A unit price."""

    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> str:
        return format_rate(follow(row, field), follow(row, currency))

    return column


def badge(field: str, title: Text, kinds: Mapping[str, str]) -> Column:
    """A choice as a coloured label; `kinds` maps values to success, info, warning or danger."""

    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> str:
        *path, name = field.split("__")
        owner = follow(row, "__".join(path)) if path else row
        return (
            DASH if owner is None else label(getattr(owner, f"get_{name}_display")(), kinds.get(getattr(owner, name)))
        )

    return column


def label(text: Text, kind: str | None = None) -> str:
    """A coloured label; of no colour without a kind."""
    return render_to_string("unfold/helpers/label.html", {"text": text, "type": kind})


def link(field: str, title: Text) -> Column:
    """Another row's name, leading to its page."""

    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> str:
        other = follow(row, field)
        return DASH if other is None else link_to(other)

    return column


def link_to(row: Model, text: Text = "") -> str:
    return format_html('<a class="text-link" href="{}">{}</a>', page_of(row), text or str(row))


def page_of(row: Model) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(row.pk)])


def list_of(model: type[Model], text: Text, **query: Any) -> str:
    """A link to another desk's list, filtered."""
    address = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist", query=query)
    return format_html('<a class="text-link" href="{}">{}</a>', address, text)


def moment(at: datetime | None) -> str:
    """To the second, in the site's zone."""
    return DASH if at is None else date_format(timezone.localtime(at), "Y-m-d H:i:s")


def plain(field: str, title: Text) -> Column:
    """A value as it is (a choice in its words) under a title of our own, where the model names none."""

    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> Any:
        value = follow(row, field)
        if value is None or value == "":
            return DASH
        words = getattr(row, f"get_{field}_display", None)
        return words() if words else value

    return column


def instant(field: str, title: Text) -> Column:
    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> str:
        return moment(follow(row, field))

    return column


def period(field: str, title: Text) -> Column:
    """A half-open range of instants."""

    @display(description=title, ordering=field)
    def column(_desk: Any, row: Model) -> str:
        value = follow(row, field)
        return f"{moment(value.lower)} → {moment(value.upper) if value.upper else '…'}"

    return column


def span(length: timedelta) -> str:
    """A length of time in its largest two units that matter."""
    minutes, seconds = divmod(max(int(length.total_seconds()), 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return _("%(days)d d %(hours)d h") % {"days": days, "hours": hours}
    if hours:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minutes}
    if minutes:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": seconds}
    return ngettext("%(seconds)d s", "%(seconds)d s", seconds) % {"seconds": seconds}
