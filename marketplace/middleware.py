"""Language of the answer, who may keep it, addresses no page can read, and the admin's own content security policy."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils import translation
from django.utils.cache import patch_cache_control, patch_vary_headers

from marketplace.lib import visitor

GetResponse = Callable[[HttpRequest], HttpResponse]


class LocaleMiddleware:
    """Answer in the language the address names or the visitor chose, Chinese where neither did."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        language = visitor.language_of(request)
        request.LANGUAGE_CODE = language
        # Not undone afterwards: a streamed body is produced after this returns, and every request sets its own.
        translation.activate(language)
        response = self.get_response(request)
        response.headers.setdefault("Content-Language", language)
        patch_vary_headers(response, ["Cookie"])
        return response


class PrivatePages:
    """Keep what somebody with a session was shown out of every cache but their browser's, which asks again."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if settings.SESSION_COOKIE_NAME in request.COOKIES.keys() | response.cookies.keys():
            patch_cache_control(response, private=True, no_cache=True)
        return response


class ReadableAddresses:
    """Answer 400 to an address with a NUL byte: no page has one, and PostgreSQL takes none in a text."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if "\0" in request.path_info or "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest("NUL byte in the address")
        return self.get_response(request)


class AdminContentSecurityPolicy:
    """Give pages under the admin the wider policy that unfold needs; every other page keeps the strict one."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if request.path_info.startswith(_admin_root()):
            response._csp_replace = settings.ADMIN_CONTENT_SECURITY_POLICY  # type: ignore[attr-defined]
        return response


def _admin_root() -> str:
    try:
        return reverse("admin:index")
    except NoReverseMatch:
        return "/admin/"
