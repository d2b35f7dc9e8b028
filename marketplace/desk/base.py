"""A desk: an admin page that can do only what an action does.

Rows are shown, never deleted and never edited behind an action's back. What can be done with a row is a button; the
button calls one action, asks for its permission again on the server, and shows a refusal as a message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import flatten_fieldsets, unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db import IntegrityError, InternalError, models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from unfold.admin import ModelAdmin, TabularInline

from marketplace.desk.inputs import DeskForm
from marketplace.desk.show import page_of

logger = logging.getLogger(__name__)

Text = str | Promise
Act = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Button:
    """Something to do with one row. With a form or an explanation it asks on a page of its own before it acts."""

    label: Text
    form: type[DeskForm] | None = None
    shown: Callable[[Any], bool] = bool
    explain: Text = ""
    danger: bool = False
    # A permission of another model that it takes instead of changing this one, as "app.codename".
    permission: str = ""

    @property
    def asks_first(self) -> bool:
        return self.form is not None or bool(self.explain)


def button(label: Text, **options: Any) -> Callable[[Act], Act]:
    """Make a method `(self, request, row, **cleaned data)` a button. It returns what to tell, or a response."""

    def mark(method: Act) -> Act:
        method.button = Button(label, **options)  # type: ignore[attr-defined]
        return method

    return mark


def bulk(name: str, label: Text) -> Act:
    """A list action that presses the button `name` for every chosen row; each refusal names its row."""

    @admin.action(description=label, permissions=["act"])
    def act_on_all(desk: Desk, request: HttpRequest, queryset: models.QuerySet) -> None:
        done = 0
        for row in queryset.order_by("pk"):
            try:
                desk.perform(request, row, name, {})
            except desk.all_refusals as refusal:
                desk.message_user(request, f"{row}: {words_of(refusal)}", messages.ERROR)
            else:
                done += 1
        if done:
            told = _("Done for %(count)d: %(what)s.") % {"count": done, "what": str(label)}
            desk.message_user(request, told, messages.SUCCESS)

    act_on_all.__name__ = f"{name}_all"
    return act_on_all


def words_of(refusal: Exception) -> str:
    """What a refusal says to the person in front of it, with the next step where it names one."""
    if isinstance(refusal, IntegrityError | InternalError):
        return _("The database refused this, nothing has changed: %(reason)s") % {
            "reason": str(refusal).partition("\n")[0]
        }
    said = str(getattr(refusal, "message", "") or refusal)
    next_step = str(getattr(refusal, "next_step", "") or "")
    return f"{said} {next_step}".strip()


class Desk(ModelAdmin):
    """The base of every admin page of the house."""

    buttons: Sequence[str] = ()
    # What its actions may raise to refuse.
    refusals: tuple[type[Exception], ...] = ()
    # Whether the form itself may add or change rows: only for plain rows without a state.
    addable = False
    editable: Sequence[str] = ()
    # Rows that every list and page of this model shows names of.
    select: Sequence[str] = ()

    list_per_page = 50
    show_full_result_count = False
    list_filter_submit = True
    list_filter_sheet = True
    compressed_fields = True
    save_as = False
    view_on_site = False
    change_form_outer_before_template = "admin/desk/buttons.html"

    # --- what is allowed ---

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.addable and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Whether the form may be saved. Buttons ask `has_act_permission`."""
        return bool(self.editable) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_act_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Whether the person may press this desk's buttons: the change permission of its model."""
        return super().has_change_permission(request, obj)

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return super().has_view_permission(request, obj) or super().has_change_permission(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: models.Model | None = None) -> Sequence[str]:
        if obj is None and self.addable:
            return list(self.readonly_fields)
        return [name for name in flatten_fieldsets(self.fieldsets or ()) if name not in self.editable]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet:
        rows = super().get_queryset(request)
        return rows.select_related(*self.select) if self.select else rows

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """A date that no calendar has is a filter that nobody knows; Django answers 500 to some of them."""
        try:
            return super().get_changelist_instance(request)
        except OverflowError:
            raise IncorrectLookupParameters from None

    def response_action(self, request: HttpRequest, queryset: models.QuerySet) -> HttpResponse | None:
        """Rows are chosen by their primary keys; anything else never came from this list."""
        for chosen in request.POST.getlist(ACTION_CHECKBOX_NAME):
            try:
                self.opts.pk.to_python(chosen)
            except ValidationError:
                raise BadRequest("no primary key") from None
        return super().response_action(request, queryset)

    # --- buttons ---

    @property
    def all_refusals(self) -> tuple[type[Exception], ...]:
        return (*self.refusals, IntegrityError, InternalError)

    def get_urls(self) -> list:
        name = f"{self.opts.app_label}_{self.opts.model_name}_press"
        view = self.admin_site.admin_view(self.press)
        return [path("<path:object_id>/do/<slug:name>/", view, name=name), *super().get_urls()]

    def may_press(self, request: HttpRequest, wanted: Button, row: models.Model | None = None) -> bool:
        if wanted.permission:
            return request.user.has_perm(wanted.permission)  # type: ignore[union-attr]
        return self.has_act_permission(request, row)

    def address_of(self, row: models.Model, name: str) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_press", args=[row.pk, name])

    def shown_buttons(self, request: HttpRequest, row: models.Model) -> list[dict[str, Any]]:
        pairs = [(name, getattr(self, name).button) for name in self.buttons]
        return [
            {"button": one, "address": self.address_of(row, name)}
            for name, one in pairs
            if self.may_press(request, one, row) and one.shown(row)
        ]

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except (IntegrityError, InternalError) as refusal:
            self.message_user(request, words_of(refusal), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> TemplateResponse:
        context["show_save_and_add_another"] = False
        row = kwargs.get("obj")
        if row is not None:
            context["desk_buttons"] = self.shown_buttons(request, row)
        return super().render_change_form(request, context, *args, **kwargs)

    def press(self, request: HttpRequest, object_id: str, name: str) -> HttpResponse:
        """A button's own page, and what happens when it is pressed."""
        if name not in self.buttons:
            raise Http404
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404
        wanted: Button = getattr(self, name).button
        if not self.has_view_permission(request, row) or not self.may_press(request, wanted, row):
            raise PermissionDenied
        form = None
        if wanted.form is not None:
            form = wanted.form(request.POST or None, request.FILES or None, obj=row, query=request.GET.dict())
        if request.method != "POST":
            return self._ask(request, row, wanted, form) if wanted.asks_first else HttpResponseRedirect(page_of(row))
        if form is not None and not form.is_valid():
            return self._ask(request, row, wanted, form)
        try:
            outcome = self.perform(request, row, name, form.cleaned_data if form else {})
        except self.all_refusals as refusal:
            return self._refused(request, row, wanted, form, refusal)
        if isinstance(outcome, HttpResponse):
            return outcome
        if outcome:
            self.message_user(request, str(outcome), messages.SUCCESS)
        return HttpResponseRedirect(page_of(row))

    def perform(self, request: HttpRequest, row: models.Model, name: str, data: dict[str, Any]) -> Any:
        """Call the action behind a button and write down in the admin's log who pressed it."""
        method = getattr(self, name)
        outcome = method(request, row, **data)
        self.log_change(request, row, str(method.button.label))
        return outcome

    def _refused(
        self, request: HttpRequest, row: models.Model, wanted: Button, form: DeskForm | None, refusal: Exception
    ) -> HttpResponse:
        if form is None:
            self.message_user(request, words_of(refusal), messages.ERROR)
            return HttpResponseRedirect(page_of(row))
        field = getattr(refusal, "field", None)
        form.add_error(field if field in form.fields else None, words_of(refusal))
        return self._ask(request, row, wanted, form)

    def _ask(self, request: HttpRequest, row: models.Model, wanted: Button, form: DeskForm | None) -> TemplateResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": wanted.label,
            "subtitle": str(row),
            "row": row,
            "button": wanted,
            "form": form,
            "back": page_of(row),
        }
        return TemplateResponse(request, "admin/desk/ask.html", context)


class Rows(TabularInline):
    """Rows of another model on a page, for reading. Whoever may see the page sees them."""

    extra = 0
    max_num = 0
    can_delete = False
    show_change_link = False
    hide_title = True
    select: Sequence[str] = ()

    def has_view_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return True

    def has_add_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet:
        rows = super().get_queryset(request)
        return rows.select_related(*self.select) if self.select else rows

    def get_readonly_fields(self, request: HttpRequest, obj: models.Model | None = None) -> Sequence[str]:
        return list(self.fields or ())
