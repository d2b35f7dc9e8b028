"""Pages that belong to no app: home, the currency switch, health, the design page, errors."""

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import redis
from django import forms
from django.conf import settings
from django.core.paginator import Paginator
from django.db import Error as DatabaseError
from django.db import connection
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponsePermanentRedirect,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import render
from django.templatetags.static import static
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views import i18n
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from accounts import actions as accounts
from catalog import queries, visitor_pages
from marketplace.lib import addresses, clock, visitor
from marketplace.lib.money import BILLING_CURRENCIES


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    return visitor_pages.render(request, "marketplace/home.html", lambda at: _home(request, at))


def _home(request: HttpRequest, at: datetime) -> dict[str, Any]:
    currency = visitor.currency_of(request)
    return {"summary": queries.home_summary(currency=currency, at=at), "currency": currency}


@require_POST
def set_language(request: HttpRequest) -> HttpResponse:
    """Django's own, and the language of mails to whoever is signed in."""
    if request.user.is_authenticated:
        accounts.remember_language(user=request.user, language=request.POST.get("language", ""))
    return i18n.set_language(request)


@require_POST
def set_currency(request: HttpRequest) -> HttpResponse:
    """Remember the currency prices are shown in and return to the page. An organization's own currency still wins."""
    currency = request.POST.get("currency", "")
    if currency not in BILLING_CURRENCIES:
        return HttpResponseBadRequest(_("Unknown currency."), content_type="text/plain; charset=utf-8")
    response = HttpResponseRedirect(_safe_next(request))
    response.set_cookie(
        visitor.CURRENCY_COOKIE,
        currency,
        max_age=timedelta(days=365),
        samesite="Lax",
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
    )
    return response


def _safe_next(request: HttpRequest) -> str:
    """Where the form says it stood, if that is a page of this site."""
    target = request.POST.get("next", "")
    allowed = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if allowed else "/"


@never_cache
@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 when the database and Redis answer, else 503 naming which does not; no detail that would help an intruder."""
    checks = {"database": _answers(_ask_database), "redis": _answers(_ask_redis)}
    healthy = all(checks.values())
    return JsonResponse(
        {"status": "ok" if healthy else "failing", **{name: "ok" if up else "failing" for name, up in checks.items()}},
        status=200 if healthy else 503,
    )


def _answers(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except (DatabaseError, redis.RedisError, OSError):
        return False
    return True


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_redis() -> None:
    with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
        client.ping()


@require_safe
def robots(request: HttpRequest) -> HttpResponse:
    """What crawlers may read: everything but what is somebody's own."""
    prefixes = ["", *addresses.PREFIXES.values()]
    context = {"prefixes": prefixes, "site": settings.SITE_URL}
    return render(request, "robots.txt", context, content_type="text/plain; charset=utf-8")


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """For whoever asks for the file by its old name, without having read a page."""
    return HttpResponsePermanentRedirect(static("img/favicon.ico"))


@require_safe
def offline(request: HttpRequest) -> HttpResponse:
    """What a browser shows when no answer comes; it is fetched beforehand."""
    return render(request, "offline.html")


@never_cache
@require_safe
def service_worker(request: HttpRequest) -> HttpResponse:
    """At the root, so that it may answer for every page."""
    pages = [path for _code, path in addresses.in_each_language("/offline/")]
    return render(request, "service-worker.js", {"pages": pages}, content_type="text/javascript; charset=utf-8")


# --- the design page -------------------------------------------------------------------------------------------------
class DesignForm(forms.Form):
    """Every kind of field, for the design page only."""

    name = forms.CharField(label=gettext_lazy("Name"), help_text=gettext_lazy("Shown in the console only."))
    cards = forms.IntegerField(label=gettext_lazy("Cards"), min_value=1, max_value=8)
    region = forms.ChoiceField(
        label=gettext_lazy("Region"), choices=[("fuzhou", "福州 Fuzhou"), ("beijing", "北京 Beijing")]
    )
    term = forms.ChoiceField(
        label=gettext_lazy("Term"),
        widget=forms.RadioSelect,
        choices=[("hour", gettext_lazy("Hour")), ("month", gettext_lazy("Month")), ("year", gettext_lazy("Year"))],
    )
    note = forms.CharField(label=gettext_lazy("Note"), widget=forms.Textarea(attrs={"rows": 3}), required=False)
    agree = forms.BooleanField(label=gettext_lazy("I agree to the terms."))


@require_safe
def design(request: HttpRequest) -> HttpResponse:
    """The living page of the design system, for whoever builds a page; not part of a production site."""
    if not settings.DEBUG:
        raise Http404
    at = clock.now()
    step = SimpleNamespace
    context = {
        "at": at,
        "form": DesignForm(initial={"cards": 2, "term": "hour"}, prefix="good"),
        "bad_form": DesignForm({"bad-cards": "99", "bad-region": "fuzhou"}, prefix="bad"),
        "statuses": DESIGN_STATUSES,
        "steps": [
            step(label=_("Cards reserved"), state="done", at=at, note=""),
            step(label=_("Machine created"), state="done", at=at, note=""),
            step(label=_("Starting"), state="current", at=None, note=_("usually under a minute")),
            step(label=_("Login and cards checked"), state="waiting", at=None, note=""),
        ],
        "page": Paginator(range(240), 20).get_page(request.GET.get("page")),
        "colours": ("ground", "surface", "sunken", "line", "ink", "muted", "accent", "good", "warn", "bad"),
    }
    return render(request, "marketplace/design.html", context)


DESIGN_STATUSES = (
    "running", "paid", "active", "creating", "verifying", "awaiting_payment", "stopped", "draft", "open",
    "suspended", "needs_operator", "failed", "lost", "void", "gone",
)  # fmt: skip
