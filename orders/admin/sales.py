"""The sales desk: quotes from draft to order, and orders as they were agreed."""

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from unfold.decorators import display

from accounts.models import Organization
from billing.models import Invoice
from catalog.models import Image, Offer
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, bulk, button
from marketplace.lib import clock
from marketplace.lib.addresses import without_language
from marketplace.lib.money import format_minor
from orders import actions as verbs
from orders.basket import Item
from orders.basket import read as read_basket
from orders.models import Order, OrderEvent, OrderLine, Quote, QuoteEvent, QuoteLine, Term
from orders.queries import standing_still
from rentals.models import Rental

QUOTE_STATES = {
    "draft": "info", "sent": "warning", "accepted": "success", "declined": "danger", "expired": "danger",
}  # fmt: skip
ORDER_STATES = {
    "awaiting_payment": "warning", "expiring": "warning", "confirmed": "info", "provisioning": "info",
    "active": "success", "failed": "danger", "cancelled": "danger",
}  # fmt: skip
# How long a new quote is valid where the salesperson says nothing else.
QUOTE_DAYS = 14


class EventRows(Rows):
    """What happened, the newest first."""

    fields = ("when", "became", "who")
    ordering = ("-at", "-pk")
    select = ("actor",)

    when = show.instant("at", gettext_lazy("When"))
    who = show.plain("actor", gettext_lazy("By"))


class QuoteEventRows(EventRows):
    model = QuoteEvent
    verbose_name_plural = gettext_lazy("What happened")

    became = show.badge("status", gettext_lazy("status"), QUOTE_STATES)


class OrderEventRows(EventRows):
    model = OrderEvent
    fields = ("when", "became", "who", "remark")
    verbose_name_plural = gettext_lazy("What happened")

    became = show.badge("status", gettext_lazy("status"), ORDER_STATES)
    remark = show.plain("note", gettext_lazy("Note"))


class QuoteLineRows(Rows):
    model = QuoteLine
    fields = (
        "product",
        "image",
        "quantity",
        "term",
        "periods",
        "listed",
        "discount_percent",
        "agreed",
        "amount",
        "out",
    )
    select = ("offer__gpu_model", "offer__region", "image", "quote")

    listed = show.rate("list_rate", gettext_lazy("list rate per card"), currency="quote__currency")
    agreed = show.rate("rate", gettext_lazy("rate per card"), currency="quote__currency")

    @display(description=gettext_lazy("offer"))
    def product(self, line: QuoteLine) -> str:
        return f"{line.offer.title} · {line.offer.region.name}"

    @display(description=gettext_lazy("amount"))
    def amount(self, line: QuoteLine) -> str:
        if line.term == Term.HOUR:
            return _("by usage")
        return format_minor(line.amount_minor, line.quote.currency)

    @display(description="")
    def out(self, line: QuoteLine) -> str:
        if line.quote.status != Quote.Status.DRAFT:
            return ""
        address = reverse("admin:orders_quote_press", args=[line.quote_id, "remove_line"], query={"line": line.pk})
        return format_html('<a class="text-link" href="{}">{}</a>', address, _("Remove"))


class QuoteForm(forms.ModelForm):
    class Meta:
        model = Quote
        fields = ("organization", "valid_until", "note")

    def clean_valid_until(self) -> datetime:
        until = self.cleaned_data["valid_until"]
        if until <= clock.now():
            raise forms.ValidationError(_("A quote has to be valid for some time from now."))
        return until


class LineForm(inputs.DeskForm):
    offer = inputs.row(Offer.objects.none(), label=gettext_lazy("offer"))
    image = inputs.row(Image.objects.none(), label=gettext_lazy("image"))
    quantity = inputs.integer(label=gettext_lazy("Units"), min_value=1, max_value=verbs.MAX_UNITS, initial=1)
    term = inputs.choice(label=gettext_lazy("term"), choices=Term.choices, initial=Term.MONTH)
    periods = inputs.integer(
        label=gettext_lazy("months or years"),
        min_value=1,
        max_value=max(verbs.MAX_PERIODS.values()),
        initial=1,
        help_text=gettext_lazy("Of no meaning for a line by the hour."),
    )
    discount_percent = inputs.decimal(
        label=gettext_lazy("discount (%)"), min_value=0, max_value=100, max_digits=5, decimal_places=2, initial=0
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        offers = Offer.objects.filter(enabled=True, pool__isnull=False).select_related("gpu_model", "region")
        self.fields["offer"].queryset = offers.order_by("gpu_model__name", "region__code", "cards_per_unit")
        self.fields["offer"].label_from_instance = lambda offer: f"{offer.title} · {offer.region.name}"
        self.fields["image"].queryset = Image.objects.filter(enabled=True)
        self.fields["image"].label_from_instance = lambda image: f"{image.software_stack} · {image.name}"


class RemoveLineForm(inputs.DeskForm):
    line = inputs.row(QuoteLine.objects.none(), label=gettext_lazy("line"))

    def __init__(self, *args: Any, obj: Quote, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        self.fields["line"].queryset = obj.lines.select_related("offer__gpu_model", "quote")
        self.fields["line"].label_from_instance = lambda line: f"#{line.position} {line.offer.title} × {line.quantity}"


class AssignForm(inputs.DeskForm):
    organization = inputs.row(Organization.objects.none(), label=gettext_lazy("organization"))

    def __init__(self, *args: Any, obj: Quote, **kwargs: Any) -> None:
        super().__init__(*args, obj=obj, **kwargs)
        everyone = Organization.objects.order_by("name", "pk")
        self.fields["organization"].queryset = everyone
        # Whoever has signed up with the address of the request is most likely the one.
        self.fields["organization"].initial = everyone.filter(members__email__iexact=obj.contact_email).first()


class ReviseForm(inputs.DeskForm):
    valid_until = inputs.instant(
        label=gettext_lazy("Valid until"), required=False, help_text=gettext_lazy("Empty: as before.")
    )


def is_draft(quote: Quote) -> bool:
    return quote.status == Quote.Status.DRAFT


def link_for_customer(request: HttpRequest, quote: Quote) -> str:
    """Names no language: the customer reads it in theirs, not in the salesperson's."""
    return request.build_absolute_uri(without_language(reverse("orders:quote", args=[quote.token])))


def spell(item: Item) -> str:
    """The length of time that a customer asked for."""
    if item.term == Term.HOUR:
        return ngettext("%(count)d hour", "%(count)d hours", item.periods) % {"count": item.periods}
    if item.term == Term.MONTH:
        return ngettext("%(count)d month", "%(count)d months", item.periods) % {"count": item.periods}
    return ngettext("%(count)d year", "%(count)d years", item.periods) % {"count": item.periods}


@admin.register(Quote)
class QuoteDesk(Desk):
    """Quotes. Only a draft's lines change; what was sent is superseded by its next version."""

    form = QuoteForm
    addable = True
    buttons = ("assign", "add_line", "send", "revise", "remove_line")
    actions = (bulk("send", gettext_lazy("Send the chosen drafts")),)
    refusals = (verbs.QuoteRefused, verbs.OrderRefused)
    select = ("organization", "salesperson", "order")
    autocomplete_fields = ("organization",)
    add_fieldsets = ((None, {"fields": ("organization", "valid_until", "note")}),)
    fieldsets = (
        (None, {"fields": (("number", "version"), ("customer", "state"), ("amount", "valid_to"))}),
        (
            gettext_lazy("What the customer asked for"),
            {"fields": (("origin", "about"), "asked_for", "said", ("person", "company"), ("mail", "phone"))},
        ),
        (gettext_lazy("For the customer"), {"fields": ("address", "note")}),
        (gettext_lazy("What became of it"), {"fields": (("salesperson", "created"), ("order_link", "versions"))}),
    )
    inlines = (QuoteLineRows, QuoteEventRows)
    list_display = (
        "number", "version", "customer_or_contact", "state", "from_where", "amount", "valid_to", "salesperson",
        "created",
    )  # fmt: skip
    list_filter = ("status", "origin", "need", "currency", "valid_until", "salesperson")
    search_fields = (
        "number", "organization__name", "note", "salesperson__email", "contact_company", "contact_name",
        "contact_email", "contact_phone", "request_note",
    )  # fmt: skip
    date_hierarchy = "created_at"
    ordering = ("-created_at", "-version")

    customer = show.link("organization", gettext_lazy("organization"))
    from_where = show.badge("origin", gettext_lazy("origin"), {"customer": "info"})
    about = show.plain("need", gettext_lazy("need"))
    said = show.plain("request_note", gettext_lazy("what the customer wrote"))
    person = show.plain("contact_name", gettext_lazy("contact"))
    company = show.plain("contact_company", gettext_lazy("company"))
    state = show.badge("status", gettext_lazy("status"), QUOTE_STATES)
    valid_to = show.instant("valid_until", gettext_lazy("valid until"))
    created = show.instant("created_at", gettext_lazy("created at"))
    order_link = show.link("order", gettext_lazy("order"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Quote]:
        return super().get_queryset(request).annotate(total_minor=Sum("lines__amount_minor", default=0))

    def get_inlines(self, request: HttpRequest, obj: Quote | None) -> Any:
        return self.inlines if obj else ()

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        last_day = timezone.localtime(clock.now()) + timedelta(days=QUOTE_DAYS)
        until = last_day.replace(hour=23, minute=59, second=59, microsecond=0)
        return {"valid_until": until, **super().get_changeform_initial_data(request)}

    # A new quote is made by its action, so that number, currency and event come with it.
    def save_form(self, request: HttpRequest, form: forms.ModelForm, change: bool) -> Quote:
        organization: Organization = form.cleaned_data["organization"]
        return verbs.create_quote(
            organization=organization,
            actor=request.user,
            valid_until=form.cleaned_data["valid_until"],
            note=form.cleaned_data["note"],
            at=clock.now(),
        )

    def save_model(self, request: HttpRequest, obj: Quote, form: forms.ModelForm, change: bool) -> None:
        """Saved already."""

    def save_related(self, request: HttpRequest, form: forms.ModelForm, formsets: Any, change: bool) -> None:
        """A new quote has no lines yet."""

    def response_add(self, request: HttpRequest, obj: Quote, post_url_continue: str | None = None) -> HttpResponse:
        self.message_user(request, _("The draft %(quote)s is there. Add its lines now.") % {"quote": obj})
        return HttpResponseRedirect(show.page_of(obj))

    @display(description=gettext_lazy("paid in advance"), ordering="total_minor")
    def amount(self, quote: Quote) -> str:
        return format_minor(quote.total_minor, quote.currency)

    @display(description=gettext_lazy("organization"), ordering="organization__name")
    def customer_or_contact(self, quote: Quote) -> str:
        """Whose it is; for a visitor's request that has no organization yet, who asks."""
        if quote.organization is not None:
            return show.link_to(quote.organization)
        return f"{quote.contact_company} · {quote.contact_name}"

    @display(description=gettext_lazy("e-mail of the contact"))
    def mail(self, quote: Quote) -> str:
        if not quote.contact_email:
            return show.DASH
        return format_html('<a class="text-link" href="mailto:{0}">{0}</a>', quote.contact_email)

    @display(description=gettext_lazy("phone of the contact"))
    def phone(self, quote: Quote) -> str:
        if not quote.contact_phone:
            return show.DASH
        return format_html('<a class="text-link" href="tel:{0}">{0}</a>', quote.contact_phone)

    @display(description=gettext_lazy("what the customer asked for"))
    def asked_for(self, quote: Quote) -> str:
        """The basket as it was asked for, with what has no line yet because it has no list price."""
        items = read_basket(quote.asked).items
        if not items:
            return show.DASH
        offers = Offer.objects.filter(slug__in={item.slug for item in items}).select_related("gpu_model", "region")
        titles = {offer.slug: f"{offer.title} · {offer.region.name}" for offer in offers}
        rows = ((item.quantity, titles.get(item.slug, item.slug), spell(item)) for item in items)
        return format_html_join(mark_safe("<br>"), "{} × {} · {}", rows)

    @display(description=gettext_lazy("Link for the customer"))
    def address(self, quote: Quote) -> str:
        if is_draft(quote) and not quote.is_requested:
            return _("Opens once the quote is sent.")
        address = link_for_customer(self.request, quote)
        return format_html('<a class="text-link" href="{}">{}</a>', address, address)

    @display(description=gettext_lazy("Versions"))
    def versions(self, quote: Quote) -> str:
        all_versions = Quote.objects.filter(number=quote.number).order_by("version")
        links = ((show.link_to(one), one.get_status_display()) for one in all_versions)
        return format_html_join(" · ", "{} ({})", links)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        self.request = request  # the link for the customer starts with the address this page was asked at
        return super().changeform_view(request, *args, **kwargs)

    @button(
        gettext_lazy("Assign to organization"),
        form=AssignForm,
        explain=gettext_lazy(
            "A visitor asked for this. Once they have signed up, give the request to their organization; you become its"
            " salesperson."
        ),
        shown=lambda quote: is_draft(quote) and quote.organization is None,
    )
    def assign(self, request: HttpRequest, quote: Quote, *, organization: Organization) -> str:
        verbs.assign_quote(quote_id=quote.pk, organization=organization, actor=request.user, at=clock.now())
        return _("The request is %(organization)s's now.") % {"organization": organization.name}

    @button(gettext_lazy("Add line"), form=LineForm, shown=is_draft)
    def add_line(self, request: HttpRequest, quote: Quote, **line: Any) -> str:
        made = verbs.add_quote_line(quote_id=quote.pk, at=clock.now(), **line)
        return _("Line %(position)d added: %(offer)s.") % {"position": made.position, "offer": made.offer.title}

    @button(
        gettext_lazy("Remove line"),
        form=RemoveLineForm,
        shown=lambda quote: is_draft(quote) and quote.total_minor is not None and quote.lines.exists(),
    )
    def remove_line(self, request: HttpRequest, quote: Quote, *, line: QuoteLine) -> str:
        verbs.remove_quote_line(line_id=line.pk)
        return _("The line was removed.")

    @button(
        gettext_lazy("Send to the customer"),
        explain=gettext_lazy(
            "The quote becomes binding until its date and opens at its link. It cannot be edited then."
        ),
        shown=is_draft,
    )
    def send(self, request: HttpRequest, quote: Quote) -> str:
        sent = verbs.send_quote(quote_id=quote.pk, actor=request.user, at=clock.now())
        address = link_for_customer(request, sent)
        return _("Sent. Give the customer this link: %(address)s") % {"address": address}

    @button(
        gettext_lazy("Revise"),
        form=ReviseForm,
        explain=gettext_lazy(
            "Makes the next version as a draft with the same lines and prices. This version is withdrawn: its link no"
            " longer accepts."
        ),
        shown=lambda quote: quote.status not in {Quote.Status.ACCEPTED, Quote.Status.SUPERSEDED},
    )
    def revise(self, request: HttpRequest, quote: Quote, *, valid_until: datetime | None) -> HttpResponse:
        successor = verbs.revise_quote(quote_id=quote.pk, actor=request.user, at=clock.now(), valid_until=valid_until)
        self.message_user(request, _("Version %(version)d is a draft now.") % {"version": successor.version})
        return HttpResponseRedirect(show.page_of(successor))


class OrderLineRows(Rows):
    model = OrderLine
    fields = (
        "product", "image", "quantity", "cards_per_unit", "term", "periods", "per_card", "amount", "tax_percent",
    )  # fmt: skip
    select = ("offer__gpu_model", "offer__region", "image", "order")

    per_card = show.rate("rate", gettext_lazy("rate per card"), currency="order__currency")
    amount = show.money("amount_minor", gettext_lazy("paid in advance"), currency="order__currency")

    @display(description=gettext_lazy("offer"))
    def product(self, line: OrderLine) -> str:
        return f"{line.offer.title} · {line.offer.region.name}"


class StandingFilter(admin.SimpleListFilter):
    """Orders that the sweeps should have moved on."""

    title = gettext_lazy("progress")
    parameter_name = "progress"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("none", str(gettext_lazy("stands still")))]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(pk__in=standing_still(clock.now())) if self.value() == "none" else queryset


@admin.register(Order)
class OrderDesk(Desk):
    """Orders as they were agreed: nothing in them changes but their state, and that by an action."""

    buttons = ("cancel",)
    actions = (bulk("cancel", gettext_lazy("Cancel the chosen unpaid orders")),)
    refusals = (verbs.IllegalMove,)
    select = ("organization", "project", "placed_by", "quote")
    fieldsets = (
        (None, {"fields": (("number", "identity"), ("customer", "project"), ("state", "total"))}),
        (gettext_lazy("Dates"), {"fields": (("placed", "placed_by"), ("expires", "paid"))}),
        (gettext_lazy("What belongs to it"), {"fields": (("quote_link", "elsewhere"),)}),
    )
    inlines = (OrderLineRows, OrderEventRows)
    list_display = ("number", "customer", "state", "total", "placed", "expires", "placed_by")
    list_filter = ("status", StandingFilter, "currency", "lines__term", "placed_at")
    search_fields = ("=pk", "=key", "organization__name", "placed_by__email", "lines__offer__slug")
    date_hierarchy = "placed_at"
    ordering = ("-placed_at", "-pk")

    customer = show.link("organization", gettext_lazy("organization"))
    state = show.badge("status", gettext_lazy("status"), ORDER_STATES)
    identity = show.plain("key", gettext_lazy("key"))
    total = show.money("total_minor", gettext_lazy("paid in advance"))
    placed = show.instant("placed_at", gettext_lazy("placed at"))
    expires = show.instant("hold_expires_at", gettext_lazy("hold expires at"))
    paid = show.instant("paid_at", gettext_lazy("paid at"))

    @display(description=gettext_lazy("number"), ordering="pk")
    def number(self, order: Order) -> str:
        return order.number

    @display(description=gettext_lazy("quote"))
    def quote_link(self, order: Order) -> str:
        quote = getattr(order, "quote", None)
        return show.link_to(quote) if quote else show.DASH

    @display(description=gettext_lazy("Lists"))
    def elsewhere(self, order: Order) -> str:
        invoices = show.list_of(Invoice, Invoice._meta.verbose_name_plural, order__id__exact=order.pk)
        rentals = show.list_of(Rental, Rental._meta.verbose_name_plural, order_line__order__id__exact=order.pk)
        return format_html("{} · {}", invoices, rentals)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> Any:
        """An order's number ends in its id."""
        digits = search_term.strip().upper()
        if digits.startswith("SO") and digits[2:].isdigit() and len(digits) > 8:
            return queryset.filter(pk=int(digits[8:])), False
        return super().get_search_results(request, queryset, search_term)

    @button(
        gettext_lazy("Cancel order"),
        explain=gettext_lazy(
            "The order expires now. Its cards are freed as soon as Stripe has confirmed that nobody can pay any more."
        ),
        shown=lambda order: order.status == Order.Status.AWAITING_PAYMENT,
        danger=True,
    )
    def cancel(self, request: HttpRequest, order: Order) -> str:
        verbs.cancel_order(order_id=order.pk, actor=request.user, at=clock.now())
        return _("%(order)s is being cancelled.") % {"order": order.number}
