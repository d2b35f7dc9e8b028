"""The admin site: only desks of this house, and one login for everybody."""

from collections.abc import Iterable
from typing import Any

from allauth.account.decorators import secure_admin_login
from django.db.models import Model
from django.db.models.base import ModelBase
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext_lazy as _
from unfold.sites import UnfoldAdminSite

from marketplace.desk.base import Desk


class DeskSite(UnfoldAdminSite):
    """Shows what our own `admin.py` files register.

    Libraries register plain editors of their own rows, among them second factors with their secrets; those stay out.
    Logging in goes through the site's login page, with its rate limits and second factor; customers are refused.
    """

    enable_nav_sidebar = True
    index_title = _("Dashboard")

    def register(
        self,
        model_or_iterable: type[Model] | Iterable[type[Model]],
        admin_class: type[Any] | None = None,
        **options: Any,
    ) -> None:
        if admin_class is None or not issubclass(admin_class, Desk):
            return
        models = [model_or_iterable] if isinstance(model_or_iterable, ModelBase) else model_or_iterable
        super().register(models, admin_class, **options)

    @method_decorator(secure_admin_login)
    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().login(request, extra_context)
