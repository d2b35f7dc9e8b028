"""The desk's sidebar: four groups by who works with them. Each entry shows only to those who may see its rows."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from marketplace.lib.product import PRODUCT_NAME

Text = str | Promise

# (app.model, icon): the title is the model's own plural.
OPERATIONS = (
    ("rentals.rental", _("Rentals"), "dns"),
    ("catalog.pool", _("Pools"), "hub"),
    ("catalog.host", _("Hosts"), "host"),
    ("catalog.gpu", _("GPU cards"), "memory"),
    ("catalog.allocation", _("Allocations"), "assignment_ind"),
    ("catalog.reservation", _("Reservations"), "event_available"),
    ("catalog.deliveryrecord", _("Delivery records"), "speed"),
    ("rentals.orphan", _("Orphans"), "help_center"),
    ("catalog.image", _("Images"), "deployed_code"),
    ("catalog.region", _("Regions"), "location_on"),
    ("trust.incident", _("Incidents"), "warning"),
    ("trust.maintenance", _("Planned maintenance"), "engineering"),
    ("trust.watch", _("Status page"), "monitor_heart"),
)
SALES = (
    ("orders.quote", _("Quotes"), "request_quote"),
    ("orders.order", _("Orders"), "shopping_cart"),
    ("accounts.organization", _("Organizations"), "apartment"),
    ("catalog.offer", _("Offers"), "sell"),
    ("catalog.price", _("Prices"), "price_change"),
    ("catalog.contractprice", _("Contract prices"), "handshake"),
    ("orders.volumetier", _("Volume tiers"), "stairs"),
    ("orders.commitment", _("Minimum commitments"), "verified"),
    ("orders.pack", _("Packs of card-hours"), "inventory_2"),
    ("orders.service", _("Services"), "build"),
    ("catalog.gpumodel", _("GPU models"), "developer_board"),
    ("catalog.waitlist", _("Waitlist"), "hourglass_empty"),
    ("catalog.question", _("Questions and answers"), "quiz"),
    ("trust.page", _("Pages of the site"), "article"),
    ("trust.block", _("Blocks of pages"), "view_agenda"),
)
FINANCE = (
    ("billing.invoice", _("Invoices"), "receipt_long"),
    ("billing.payment", _("Payments"), "payments"),
    ("billing.creditnote", _("Credit notes"), "undo"),
    ("billing.fapiao", _("fapiao"), "request_quote"),
    ("billing.taxprofile", _("Tax profiles"), "badge"),
    ("billing.refund", _("Refunds"), "currency_exchange"),
    ("orders.termrefund", _("Refunds of terms"), "event_busy"),
    ("billing.dispute", _("Disputes"), "gavel"),
    ("billing.banktransfer", _("Bank transfers"), "move_to_inbox"),
    ("billing.transferslip", _("Transfer slips"), "receipt"),
    ("billing.topup", _("Top-ups"), "add_card"),
    ("billing.gift", _("Gifted credit"), "redeem"),
    ("billing.voucher", _("Vouchers"), "confirmation_number"),
    ("billing.receivingaccount", _("Our bank accounts"), "account_balance_wallet"),
    ("billing.billingaccount", _("Billing accounts"), "account_balance"),
    ("billing.arrears", _("Arrears"), "money_off"),
    ("rentals.usagewindow", _("Usage windows"), "timer"),
    ("billing.posting", _("Postings"), "menu_book"),
    ("billing.closedmonth", _("Closed months"), "lock_clock"),
    ("billing.exportjob", _("Exports"), "download"),
    ("billing.stripeevent", _("Stripe events"), "webhook"),
    ("billing.reconciliationdifference", _("Differences with Stripe"), "difference"),
    ("billing.reconciliation", _("Comparisons with Stripe"), "compare_arrows"),
    ("billing.numberseries", _("Number series"), "pin"),
)
SYSTEM = (
    ("accounts.user", _("Users"), "person"),
    ("auth.group", _("Staff groups"), "groups"),
    ("accounts.sshkey", _("SSH keys"), "key"),
    ("accounts.notification", _("Notifications"), "notifications"),
    ("catalog.source", _("Sources"), "link"),
    ("admin.logentry", _("Log of the desk"), "history"),
)


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """What unfold draws at the side."""
    overview = {"title": _("Dashboard"), "icon": "space_dashboard", "link": reverse("admin:index")}
    return [
        {"items": [overview]},
        _group(request, _("Operations"), OPERATIONS),
        _group(request, _("Sales"), SALES),
        _group(request, _("Finance"), FINANCE),
        _group(request, _("System"), SYSTEM),
    ]


def _group(request: HttpRequest, title: Text, entries: tuple[tuple[str, Text, str], ...]) -> dict[str, Any]:
    items = [_item(model, name, icon) for model, name, icon in entries if may_see(request, model)]
    return {"title": title, "separator": True, "items": items}


def _item(model: str, title: Text, icon: str) -> dict[str, Any]:
    return {"title": title, "icon": icon, "link": reverse(f"admin:{model.replace('.', '_')}_changelist")}


def may_see(request: HttpRequest, model: str) -> bool:
    app, name = model.split(".")
    user = request.user
    return user.has_perm(f"{app}.view_{name}") or user.has_perm(f"{app}.change_{name}")


def site_title(request: HttpRequest) -> str:
    return str(_("%(product)s desk") % {"product": PRODUCT_NAME})


def environment(request: HttpRequest) -> list[Any] | None:
    """A label that says when nothing here is real."""
    return [_("Local demonstration"), "warning"] if settings.DEBUG else None


def favicons(request: HttpRequest) -> list[dict[str, Any]]:
    return [{"rel": "icon", "type": "image/svg+xml", "href": lambda _request: static("img/favicon.svg")}]


def stylesheet(request: HttpRequest) -> str:
    return static("desk/desk.css")
