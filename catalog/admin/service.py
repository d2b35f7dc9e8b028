"""Desks for how offers are served: questions answered, who waits, what past orders measured."""

from typing import Any

from django import forms
from django.contrib import admin
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display
from unfold.widgets import UnfoldAdminTextareaWidget

from catalog.models import DeliveryRecord, Question, Waitlist
from marketplace.desk import show
from marketplace.desk.base import Desk
from marketplace.lib.templatetags.values import duration


class QuestionForm(forms.ModelForm):
    class Meta:
        widgets = {name: UnfoldAdminTextareaWidget(attrs={"rows": 4}) for name in ("answer_zh", "answer_en")}


@admin.register(Question)
class QuestionDesk(Desk):
    """Questions and answers on the offers' pages. One that is no longer wanted is taken off the pages and kept."""

    form = QuestionForm
    addable = True
    editable = (
        "offer", "gpu_model", "position", "published", "question_zh", "question_en", "answer_zh", "answer_en",
    )  # fmt: skip
    select = ("offer__gpu_model", "gpu_model")
    autocomplete_fields = ("offer", "gpu_model")
    fieldsets = (
        (None, {"fields": (("question_zh", "question_en"), "answer_zh", "answer_en")}),
        (gettext_lazy("Where it stands"), {"fields": (("offer", "gpu_model"), ("position", "published"))}),
    )
    list_display = ("question_zh", "question_en", "about", "position", "published")
    list_filter = ("published", "gpu_model__family")
    search_fields = ("question_zh", "question_en", "answer_zh", "answer_en", "offer__slug", "gpu_model__name")
    ordering = ("position", "pk")

    @display(description=gettext_lazy("belongs to"))
    def about(self, question: Question) -> str:
        return str(question.offer or question.gpu_model or _("every offer"))


@admin.register(Waitlist)
class WaitlistDesk(Desk):
    """Who waits for what. Entries are made and closed by the customers and by the sweep that tells them."""

    select = ("offer__gpu_model", "offer__region", "organization", "user")
    fieldsets = (
        (None, {"fields": (("offer", "organization"), ("user", "units"))}),
        (gettext_lazy("History"), {"fields": (("joined", "told"), "gone")}),
    )
    list_display = ("product", "organization", "units", "state", "joined", "told")
    list_filter = (
        ("notified_at", admin.EmptyFieldListFilter),
        ("left_at", admin.EmptyFieldListFilter),
        "offer__region",
    )
    search_fields = ("offer__slug", "organization__name", "=key")
    ordering = ("-created_at", "-pk")

    joined = show.instant("created_at", gettext_lazy("joined at"))
    told = show.instant("notified_at", gettext_lazy("told at"))
    gone = show.instant("left_at", gettext_lazy("left at"))

    @display(description=gettext_lazy("offer"), ordering="offer__slug")
    def product(self, entry: Waitlist) -> str:
        return entry.offer.slug

    @display(description=gettext_lazy("state"))
    def state(self, entry: Waitlist) -> str:
        if entry.left_at is not None:
            return show.label(_("has left"))
        return (
            show.label(_("was told"), "success")
            if entry.notified_at is not None
            else show.label(_("still waiting"), "info")
        )


@admin.register(DeliveryRecord)
class DeliveryRecordDesk(Desk):
    """What past orders measured, a row a day. Written by the sweep alone."""

    select = ("pool",)
    fieldsets = (
        (None, {"fields": (("pool", "measured_on"), ("from_then", "until_then"))}),
        (gettext_lazy("Delivery"), {"fields": (("delivered", "failed"), ("median", "p90"))}),
        (gettext_lazy("Faults"), {"fields": (("faults", "answered"), "answer")}),
    )
    list_display = ("pool", "measured_on", "delivered", "failed", "median", "p90", "faults", "answered", "answer")
    list_filter = ("pool__region", "pool")
    date_hierarchy = "measured_on"
    ordering = ("-measured_on", "pool__code")

    from_then = show.instant("since", gettext_lazy("measured since"))
    until_then = show.instant("measured_at", gettext_lazy("measured at"))

    @display(description=gettext_lazy("median"), ordering="median_seconds")
    def median(self, record: DeliveryRecord) -> Any:
        return duration(record.median_seconds)

    @display(description=gettext_lazy("90th percentile"), ordering="p90_seconds")
    def p90(self, record: DeliveryRecord) -> Any:
        return duration(record.p90_seconds)

    @display(description=gettext_lazy("median first answer"), ordering="median_answer_seconds")
    def answer(self, record: DeliveryRecord) -> Any:
        return duration(record.median_answer_seconds)
