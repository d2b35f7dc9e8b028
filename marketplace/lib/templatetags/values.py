"""Figures and instants as template filters and tags: built in, so that no template has to load them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from django import template
from django.conf import settings
from django.template.context import Context
from django.utils.html import format_html
from django.utils.translation import gettext as _

from marketplace.lib import digits
from marketplace.lib import money as money_lib

register = template.Library()

DASH = "—"


@register.filter
def dash(value: Any) -> Any:
    """The value, or a dash where it is unknown (None or empty text). Zero and False are values."""
    return DASH if value is None or value == "" else value


@register.filter
def money(amount_minor: int | None, currency: str) -> str:
    """Integer minor units as a bill shows them (¥1,234.50); a dash for None."""
    return DASH if amount_minor is None else money_lib.format_minor(amount_minor, currency)


@register.filter
def rate(value: Decimal | None, currency: str) -> str:
    """A unit price (¥22.00, ¥0.0065); a dash for None."""
    return DASH if value is None else money_lib.format_rate(value, currency)


@register.filter
def number(value: Decimal | int | float | None) -> str:
    """Thousands separated, no trailing zeros; a dash for None."""
    if value is None or value == "":
        return DASH
    return digits.grouped(Decimal(str(value)))


@register.filter
def unit(value: Decimal | int | float | None, name: str) -> str:
    """A figure with its unit, kept on one line; a lone dash for None."""
    if value is None or value == "":
        return DASH
    return format_html(
        '<span class="quantity">{}&nbsp;<span class="quantity__unit">{}</span></span>', number(value), name
    )


@register.filter
def duration(seconds: int | None) -> str:
    """Whole seconds in the two largest units that matter: 45 s, 12 min 5 s, 3 h 20 min, 2 d 4 h."""
    if seconds is None:
        return DASH
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return _("%(days)d d %(hours)d h") % {"days": days, "hours": hour}
    if hours:
        return _("%(hours)d h %(minutes)d min") % {"hours": hours, "minutes": minute}
    if minutes:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": minutes, "seconds": second}
    return _("%(seconds)d s") % {"seconds": second}


@register.simple_tag(takes_context=True)
def moment(context: Context, at: datetime | None, zone: str | None = None, precision: str = "minute") -> str:
    """An instant in the organization's zone (or `zone`), with UTC as its tooltip. precision: date, minute or second."""
    if at is None:
        return DASH
    shape = {"date": "%Y-%m-%d", "minute": "%Y-%m-%d %H:%M", "second": "%Y-%m-%d %H:%M:%S"}[precision]
    utc = at.astimezone(UTC)
    local = at.astimezone(ZoneInfo(zone or zone_of(context)))
    return format_html(
        '<time class="moment" datetime="{}" title="{}">{}</time>',
        utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        utc.strftime("%Y-%m-%d %H:%M:%S UTC"),
        local.strftime(shape),
    )


def zone_of(context: Context) -> str:
    """The zone of the organization that is looking, else the site's."""
    return str((context.get("portal") or {}).get("zone") or settings.TIME_ZONE)
