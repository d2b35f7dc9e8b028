"""The books as finance reads them: postings with both sides, and the months that are closed. Nothing is edited here."""

from django.contrib import admin
from django.utils.translation import gettext_lazy
from unfold.decorators import display

from billing.models import Book, ClosedMonth, LedgerEntry, Posting
from marketplace.desk import show
from marketplace.desk.base import Desk, Rows
from marketplace.lib.money import format_minor


class EntryRows(Rows):
    model = LedgerEntry
    fields = ("book", "debit", "credit")
    select = ("posting",)
    ordering = ("pk",)

    @display(description=gettext_lazy("debit"))
    def debit(self, entry: LedgerEntry) -> str:
        return format_minor(entry.amount_minor, entry.posting.currency) if entry.amount_minor > 0 else ""

    @display(description=gettext_lazy("credit"))
    def credit(self, entry: LedgerEntry) -> str:
        return format_minor(-entry.amount_minor, entry.posting.currency) if entry.amount_minor < 0 else ""


@admin.register(Posting)
class PostingDesk(Desk):
    """Every fact of money, once, with entries that sum to zero."""

    select = ("account__organization", "invoice", "actor")
    fieldsets = ((None, {"fields": (("customer", "kind"), ("when", "booked_on"), ("bill", "who"), "fact", "note")}),)
    inlines = (EntryRows,)
    list_display = ("when", "customer", "kind", "bill", "booked_on", "currency")
    list_filter = ("kind", "currency", "booked_on")
    search_fields = ("fact", "account__organization__name", "invoice__number")
    date_hierarchy = "booked_on"
    ordering = ("-pk",)

    when = show.instant("at", gettext_lazy("at"))
    customer = show.link("account__organization", gettext_lazy("organization"))
    bill = show.link("invoice", gettext_lazy("invoice"))
    who = show.plain("actor", gettext_lazy("by"))


@admin.register(ClosedMonth)
class ClosedMonthDesk(Desk):
    """Months that finance locked, with the sums it signed."""

    select = ("closed_by",)
    fieldsets = ((None, {"fields": (("name", "closed"), "who", "sums")}),)
    list_display = ("name", "closed", "who")
    ordering = ("-month",)

    closed = show.instant("closed_at", gettext_lazy("closed at"))
    who = show.plain("closed_by", gettext_lazy("closed by"))

    @display(description=gettext_lazy("month"))
    def name(self, month: ClosedMonth) -> str:
        return str(month)

    @display(description=gettext_lazy("totals"))
    def sums(self, month: ClosedMonth) -> str:
        return "; ".join(
            f"{Book(book).label} {format_minor(total, currency)}"
            for currency, books in month.totals.items()
            for book, total in books.items()
        )
