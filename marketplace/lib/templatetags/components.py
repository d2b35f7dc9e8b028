"""The design system as template tags and filters: built in, so that no template has to load them.

Leaves are tags (`status`, `field`, `button`), and the filters and tags of `values`; boxes with a body are block tags
(`card`, `alert`, `datatable`, `chart`, `specs`). `/design/` shows every one of them while DEBUG is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import template
from django.conf import settings
from django.core.paginator import Page
from django.forms import BaseForm, BoundField
from django.template.context import Context
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from marketplace.lib import addresses, kept
from marketplace.lib.stackable import stackable
from marketplace.lib.templatetags.values import dash, unit, zone_of

register = template.Library()

# Languages as HTML names them.
HTML_LANGUAGES = {"zh-hans": "zh-Hans", "en": "en"}


# --- boxes -----------------------------------------------------------------------------------------------------------
@register.simple_block_tag
def card(content: str, title: str = "", *, level: int = 2, id: str = "", tone: str = "", note: str = "") -> SafeString:
    """A titled box. `level` is the heading's; tone: accent, warn, bad; `note` stands beside the title."""
    heading = ""
    if title:
        heading = format_html(
            '<header class="card__head"><h{0} class="card__title">{1}</h{0}>{2}</header>',
            int(level),
            title,
            format_html('<span class="card__note">{}</span>', note) if note else "",
        )
    return format_html(
        '<section class="card{}"{}>{}<div class="card__body">{}</div></section>',
        f" card--{tone}" if tone else "",
        _attribute("id", id),
        heading,
        content,
    )


@register.simple_block_tag
def alert(content: str, tone: str = "info", title: str = "", live: bool = False) -> SafeString:
    """A message in the page. tone: info, good, warn, bad. `live` makes a screen reader read it when it appears."""
    return format_html(
        '<div class="alert" data-tone="{}"{}><span class="alert__mark" aria-hidden="true"></span>'
        '<div class="alert__body">{}{}</div></div>',
        tone,
        mark_safe(' role="alert"') if live else "",
        format_html('<p class="alert__title">{}</p>', title) if title else "",
        content,
    )


@register.simple_block_tag
def datatable(content: SafeString, label: str = "", id: str = "", dense: bool = False) -> SafeString:
    """A table that scrolls sideways inside its frame, on a phone a card for each row; screen readers say `label`."""
    return format_html(
        '<div class="table-frame" role="region" tabindex="0" aria-label="{}"{}>'
        '<table class="table table--stack{}" role="table">{}</table></div>',
        label or _("Table"),
        _attribute("id", id),
        " table--dense" if dense else "",
        stackable(content),
    )


@register.simple_block_tag
def chart(
    content: SafeString, title: str = "", *, kind: str = "line", x: str = "category", unit: str = "", x_unit: str = "",
    stepped: bool = False, stacked: bool = False, until_now: bool = False, open: bool = False, level: int = 3,
    y_max: int | None = None, zone: str = "",
) -> str:  # fmt: skip
    """The thead and tbody of a table, drawn as a chart above it: the first column is the axis, the others are series.

    kind: line or bar. x: category, number or date (then each row's `data-x` is its number or instant). A cell's number
    is its `data-value`, else its text; an empty one is a gap. `unit` stands beside the numbers of the axis (¥ before,
    others behind), which reaches up to `y_max` at least. With `until_now` the last row of dates holds to this day (of
    `zone`, else the site's). The table is in a disclosure, open where scripts do not run, or always with `open`.
    """
    return render_to_string(
        "components/chart.html",
        {
            "title": title, "rows": content, "kind": kind, "x": x, "unit": unit, "x_unit": x_unit, "stepped": stepped,
            "stacked": stacked, "until_now": until_now, "open": open, "level": int(level),
            "y_max": y_max, "zone": zone or settings.TIME_ZONE,
        },
    )  # fmt: skip


@register.simple_block_tag
def empty_state(content: str, title: str = "") -> SafeString:
    """What stands where a list would: what is missing and what to do next (the body: text and a button)."""
    return format_html(
        '<div class="empty"><p class="empty__title">{}</p><div class="empty__body">{}</div></div>',
        title or _("Nothing here yet"),
        content,
    )


@register.simple_block_tag
def specs(content: str, columns: int = 2) -> SafeString:
    """A grid of figures; fill it with `spec`."""
    return format_html('<dl class="specs" data-columns="{}">{}</dl>', int(columns), content)


@register.simple_tag
def spec(label: str, value: Any, unit_name: str = "", note: str = "") -> SafeString:
    """One figure of a `specs` grid. None shows as a dash; `note` marks an uncertain figure and says why."""
    shown = unit(value, unit_name) if unit_name else dash(value)
    return format_html(
        '<div class="specs__item"><dt>{}</dt><dd>{}{}</dd></div>', label, shown, uncertain(note) if note else ""
    )


@register.simple_tag
def uncertain(reason: str) -> SafeString:
    """A mark beside a figure that is not certain; the reason opens on a click and needs no script."""
    return format_html(
        '<details class="uncertain"><summary title="{0}"><span aria-hidden="true">≈</span>'
        '<span class="visually-hidden">{1}</span></summary><span class="uncertain__reason">{0}</span></details>',
        reason,
        _("Uncertain figure: why"),
    )


@register.simple_block_tag
def tabs(content: str, label: str = "") -> SafeString:
    """Tabs as plain links (`tab`), so that each has an address."""
    return format_html('<nav class="tabs" aria-label="{}"><ul>{}</ul></nav>', label, content)


@register.simple_tag
def tab(label: str, href: str, current: bool = False, count: int | None = None) -> SafeString:
    return format_html(
        '<li><a href="{}"{}>{}{}</a></li>',
        href,
        mark_safe(' aria-current="page"') if current else "",
        label,
        format_html(' <span class="tabs__count">{}</span>', count) if count is not None else "",
    )


# --- leaves ----------------------------------------------------------------------------------------------------------
@register.simple_tag
def status(value: str, label: str = "") -> str:
    """A state as word, colour and shape; colour and shape come from components/status.css by the value."""
    return render_to_string("components/status.html", {"value": value, "label": label or value})


@register.simple_tag
def button(label: str, **attributes: Any) -> str:
    """A button, or a link that looks like one where `href` is given. kind: primary, secondary, quiet, danger.

    `confirm` asks before the form goes out; `name` and `value` go with it.
    """
    return render_to_string("components/button.html", {"label": label, **attributes})


@register.simple_tag
def copy_button(text: str, label: str = "") -> str:
    """Copies `text` to the clipboard; hidden where scripts do not run."""
    return render_to_string("components/copy_button.html", {"text": text, "label": label})


@register.simple_tag
def copyable(text: str, label: str = "") -> str:
    """A line of code (an ssh command, a fingerprint) with its copy button."""
    return render_to_string("components/copyable.html", {"text": text, "label": label})


@register.simple_tag(takes_context=True)
def stepper(context: Context, steps: Iterable[Any], label: str = "") -> str:
    """Progress through named steps. Each has label, state (done, current, waiting, failed) and may have at, note."""
    shown = {"steps": steps, "label": label or _("Progress"), "zone": zone_of(context)}
    return render_to_string("components/stepper.html", shown)


@register.simple_tag(takes_context=True)
def kept_part(context: Context, template: str) -> SafeString:
    """As `include`, for a part that is the same on every page with this path (marketplace.lib.kept)."""
    return mark_safe(kept.part(context, template))  # noqa: S308 - rendered by a template, which escapes


@register.simple_tag(takes_context=True)
def page_address(context: Context) -> str:
    """The page's address with its query, for forms that come back to it."""
    return kept.address(context)


@register.simple_block_tag
def head_title(content: str) -> SafeString:
    """The page's title, for the browser and for whoever shows a link to it."""
    title = mark_safe(content.strip())  # noqa: S308 - rendered by a template, which escapes
    return format_html('<title>{}</title>\n<meta property="og:title" content="{}">', title, title)


@register.simple_tag(takes_context=True)
def page_addresses(context: Context) -> SafeString:
    """Tells search engines this page's own address, without filters, and its address in every language."""
    request = context.get("request")
    if request is None or not hasattr(request, "path"):
        return mark_safe("")
    site, own = settings.SITE_URL, get_language()
    paths = addresses.in_each_language(request.path)
    canonical = next(path for code, path in paths if code == own)
    links = [("canonical", "", canonical)]
    links += [("alternate", HTML_LANGUAGES[code], path) for code, path in paths]
    links += [("alternate", "x-default", paths[0][1])]
    return format_html_join(
        "\n",
        '<link rel="{}"{} href="{}{}">',
        [(rel, format_html(' hreflang="{}"', code) if code else "", site, path) for rel, code, path in links],
    )


@register.simple_tag
def breadcrumbs(*pairs: str) -> str:
    """label, url, label, url, …, label: where this page stands; the last label is the page itself."""
    crumbs = [(pairs[i], pairs[i + 1] if i + 1 < len(pairs) else "") for i in range(0, len(pairs), 2)]
    return render_to_string("components/breadcrumbs.html", {"crumbs": crumbs})


@register.simple_tag(takes_context=True)
def pagination(context: Context, page: Page, parameter: str = "page") -> str:
    """Links to the pages of a list; keeps every other part of the address."""
    if page.paginator.num_pages < 2:
        return ""
    request = context["request"]

    def address(number: int) -> str:
        query = request.GET.copy()
        query[parameter] = str(number)
        return f"?{query.urlencode()}"

    links = [
        {"number": n, "url": address(n)} if isinstance(n, int) else {"number": n}
        for n in page.paginator.get_elided_page_range(page.number, on_each_side=2, on_ends=1)
    ]
    total = page.paginator.count
    return render_to_string(
        "components/pagination.html",
        {
            "page": page,
            "links": links,
            "previous": address(page.number - 1) if page.has_previous() else "",
            "next": address(page.number + 1) if page.has_next() else "",
            "total": ngettext("%(count)d entry", "%(count)d entries", total) % {"count": total},
        },
    )


@register.simple_tag(takes_context=True)
def nav_link(
    context: Context, url: str, label: str, section: str = "", *, below: bool = False, unread: int = 0
) -> SafeString:
    """A link of a navigation list; marked as current on its own page and below it: by `section` (URL namespaces), or
    by addresses that begin with its own (`below`). `unread` stands behind the label when there is any, 99+ at most."""
    request = context.get("request")
    mark = ""
    if request is not None:
        match = request.resolver_match
        if request.path == url:
            mark = mark_safe(' aria-current="page"')
        elif (below and request.path.startswith(url)) or (
            match is not None and set(section.split()) & set(match.namespaces)
        ):
            mark = mark_safe(' aria-current="true"')
    badge = ""
    if unread:
        shown = "99+" if unread > 99 else str(unread)
        spoken = _("%(count)s unread") % {"count": shown}
        badge = format_html(
            ' <span class="nav-badge" aria-hidden="true">{}</span><span class="visually-hidden">({})</span>',
            shown,
            spoken,
        )
    return format_html('<li><a href="{}"{}>{}{}</a></li>', url, mark, label, badge)


# --- forms -----------------------------------------------------------------------------------------------------------
CHECKS = {"checkbox"}
GROUPS = {"radio", "checkboxselectmultiple"}


@register.simple_tag
def field(bound: BoundField, label: str = "", help: str = "") -> str:
    """A form field with its label, help and errors beside it, tied together for screen readers."""
    kind = bound.widget_type
    return render_to_string(
        "components/field.html",
        {
            "field": bound,
            "label": label or bound.label,
            "help": help or bound.help_text,
            "kind": kind,
            "is_check": kind in CHECKS,
            "is_group": bound.use_fieldset,
            "error_id": f"{bound.auto_id}_error",
            "help_id": f"{bound.auto_id}_helptext",
        },
    )


@register.simple_tag
def form_errors(form: BaseForm) -> str:
    """Errors that belong to no single field, above the form."""
    return render_to_string("components/form_errors.html", {"errors": form.non_field_errors()})


@register.simple_tag
def form_fields(form: BaseForm) -> SafeString:
    """The whole form: its own errors, hidden fields, then every visible field."""
    parts: Sequence[Any] = [
        form_errors(form),
        *(hidden.as_widget() for hidden in form.hidden_fields()),
        *(field(visible) for visible in form.visible_fields()),
    ]
    return format_html_join("\n", "{}", ((part,) for part in parts))


def _attribute(name: str, value: str) -> SafeString | str:
    return format_html(' {}="{}"', name, value) if value else ""
