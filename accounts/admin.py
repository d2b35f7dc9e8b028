"""The desk for people: users, customer organizations, their credit, keys and notices, staff groups, the desk's log."""

from decimal import Decimal

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import display
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from accounts import actions as verbs
from accounts.mailing import NOT_SENT
from accounts.models import CreditLine, Delivery, Membership, Notification, Organization, Project, SshKey, User
from accounts.notices import say
from billing.models import Invoice
from marketplace.desk import inputs, show
from marketplace.desk.base import Desk, Rows, button
from marketplace.lib.money import exponent, format_minor, major, minor
from orders.models import Order, Quote
from rentals.models import Rental

STANDING = {"good": "success", "frozen": "danger"}


class NewUserForm(UserCreationForm):
    class Meta:
        model = User
        fields = ("email",)


@admin.register(User)
class UserDesk(UserAdmin, Desk):
    """People. Who works here and in which groups is a superuser's to decide."""

    form = UserChangeForm
    add_form = NewUserForm
    change_password_form = AdminPasswordChangeForm
    addable = True
    editable = (
        "email", "first_name", "last_name", "password", "is_active", "is_staff", "is_superuser", "groups",
    )  # fmt: skip
    fieldsets = (
        (None, {"fields": ("email", "password", "first_name", "last_name")}),
        (gettext_lazy("Access"), {"fields": ("is_active", "is_staff", "is_superuser", "groups")}),
        (gettext_lazy("Dates"), {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = ((None, {"fields": ("email", "password1", "password2")}),)
    list_display = ("email", "last_name", "first_name", "is_staff", "is_active", "joined")
    list_filter = ("is_staff", "is_active", "groups")
    search_fields = ("email", "first_name", "last_name", "organizations__name")
    ordering = ("email",)
    date_hierarchy = "date_joined"
    filter_horizontal = ()

    joined = show.instant("date_joined", gettext_lazy("Joined"))


@admin.register(Group)
class GroupDesk(GroupAdmin, Desk):
    """Staff groups. Their permissions come with the program; changing them here would not outlive the next release."""

    fieldsets = ((None, {"fields": ("name", "permission_names")}),)
    list_display = ("name",)
    search_fields = ("name",)

    @display(description=gettext_lazy("Permissions"))
    def permission_names(self, group: Group) -> str:
        permissions = group.permissions.select_related("content_type")
        return format_html_join("", "<div>{}</div>", ((str(permission),) for permission in permissions))


class MemberRows(Rows):
    model = Membership
    fields = ("user", "role", "joined_at")
    select = ("user",)


class ProjectRows(Rows):
    model = Project
    fields = ("name", "is_default")


class CreditRows(Rows):
    model = CreditLine
    fields = ("limit", "available", "committed", "state", "refreshed_at")
    select = ("organization",)

    limit = show.money("limit_minor", gettext_lazy("Credit limit"), currency="organization__currency")
    available = show.money("available_minor", gettext_lazy("Available"), currency="organization__currency")
    committed = show.money("committed_minor", gettext_lazy("Committed"), currency="organization__currency")
    state = show.badge("standing", gettext_lazy("Standing"), STANDING)


class CreditLimitForm(inputs.DeskForm):
    limit = inputs.decimal(label=gettext_lazy("New credit limit"), min_value=0, max_digits=14)

    def __init__(self, *args, obj: Organization, **kwargs):
        super().__init__(*args, obj=obj, **kwargs)
        digits = exponent(obj.currency)
        self.fields["limit"].decimal_places = digits
        self.fields["limit"].help_text = _("In %(currency)s, now %(limit)s.") % {
            "currency": obj.currency,
            "limit": format_minor(obj.credit_line.limit_minor, obj.currency),
        }
        self.initial.setdefault("limit", major(obj.credit_line.limit_minor, obj.currency))


@admin.register(Organization)
class OrganizationDesk(Desk):
    """Customers. They look after their own data; the provider sets the credit limit."""

    buttons = ("set_credit_limit",)
    select = ("credit_line",)
    fieldsets = (
        (None, {"fields": (("name", "identity"), ("currency", "zone"), ("created_at", "frozen_at"))}),
        (gettext_lazy("What belongs to it"), {"fields": ("elsewhere",)}),
    )
    inlines = (CreditRows, MemberRows, ProjectRows)
    list_display = ("name", "currency", "limit", "available", "state", "created")
    list_filter = ("currency", "credit_line__standing", "created_at")
    search_fields = ("name", "=key", "members__email")
    date_hierarchy = "created_at"
    ordering = ("-created_at",)

    limit = show.money("credit_line__limit_minor", gettext_lazy("Credit limit"))
    available = show.money("credit_line__available_minor", gettext_lazy("Available"))
    identity = show.plain("key", gettext_lazy("key"))
    state = show.badge("credit_line__standing", gettext_lazy("Standing"), STANDING)
    created = show.instant("created_at", gettext_lazy("Created"))

    @display(description=gettext_lazy("Lists"))
    def elsewhere(self, organization: Organization) -> str:
        models = (Order, Rental, Quote, Invoice, SshKey, Notification)
        links = (
            (show.list_of(model, model._meta.verbose_name_plural, organization__id__exact=organization.pk),)
            for model in models
        )
        return format_html_join(" · ", "{}", links)

    @button(
        gettext_lazy("Set credit limit"),
        form=CreditLimitForm,
        explain=gettext_lazy("What the organization may owe for usage before new hourly orders are refused."),
        permission="accounts.change_creditline",
    )
    def set_credit_limit(self, request: HttpRequest, organization: Organization, *, limit: Decimal) -> str:
        limit_minor = minor(limit, organization.currency)
        before = format_minor(organization.credit_line.limit_minor, organization.currency)
        after = format_minor(limit_minor, organization.currency)
        verbs.set_credit_limit(organization=organization, limit_minor=limit_minor)
        self.log_change(request, organization, f"{before} → {after}")
        return _("The credit limit is %(limit)s now; it was %(before)s.") % {"limit": after, "before": before}


@admin.register(SshKey)
class SshKeyDesk(Desk):
    """Public keys of customers, for reading."""

    select = ("organization", "created_by")
    fieldsets = (
        (
            None,
            {"fields": ("owner", "name", "algorithm", "fingerprint", "public_key", "created_by", "created_at")},
        ),
    )
    list_display = ("name", "owner", "algorithm", "fingerprint", "created")
    list_filter = ("algorithm",)
    search_fields = ("name", "fingerprint", "organization__name")
    date_hierarchy = "created_at"
    ordering = ("-created_at",)

    owner = show.link("organization", gettext_lazy("organization"))
    created = show.instant("created_at", gettext_lazy("Created"))


class DeliveryRows(Rows):
    model = Delivery
    fields = ("user", "in_app", "read", "mailed", "mail_due", "attempts", "why_not")
    select = ("user",)

    read = show.instant("read_at", gettext_lazy("read at"))
    mailed = show.instant("mailed_at", gettext_lazy("mailed at"))
    mail_due = show.instant("mail_due_at", gettext_lazy("mail due at"))

    @display(description=gettext_lazy("mail not sent because"))
    def why_not(self, delivery: Delivery) -> str:
        return str(NOT_SENT.get(delivery.failed_reason, delivery.failed_reason))


@admin.register(Notification)
class NotificationDesk(Desk):
    """What customers were told, and what became of the mails; for support, to read. Its link is not shown: it may be
    the secret one of a quote."""

    select = ("organization", "user")
    fieldsets = ((None, {"fields": ("title", "text", "kind", "owner", "user", "created")}),)
    inlines = (DeliveryRows,)
    list_display = ("title", "kind", "owner", "created")
    list_filter = ("kind",)
    search_fields = ("organization__name", "deliveries__user__email")
    date_hierarchy = "created_at"
    ordering = ("-created_at", "-pk")

    owner = show.link("organization", gettext_lazy("organization"))
    created = show.instant("created_at", gettext_lazy("Created"))

    @display(description=gettext_lazy("Title"))
    def title(self, notification: Notification) -> str:
        return say(notification).title

    @display(description=gettext_lazy("Text"))
    def text(self, notification: Notification) -> str:
        return say(notification).text


@admin.register(LogEntry)
class LogDesk(Desk):
    """What staff did in the admin: who, when, which row. Written by every button and form, never edited."""

    select = ("user", "content_type")
    fieldsets = ((None, {"fields": ("when", "user", "content_type", "row", "what")}),)
    list_display = ("when", "user", "content_type", "row", "what")
    list_filter = ("action_flag", ("content_type", admin.RelatedOnlyFieldListFilter))
    search_fields = ("object_repr", "change_message", "user__email")
    date_hierarchy = "action_time"
    ordering = ("-action_time", "-pk")

    when = show.instant("action_time", gettext_lazy("When"))

    @display(description=gettext_lazy("Row"), ordering="object_repr")
    def row(self, entry: LogEntry) -> str:
        address = entry.get_admin_url()
        if not address:
            return entry.object_repr
        return format_html('<a class="text-link" href="{}">{}</a>', address, entry.object_repr)

    @display(description=gettext_lazy("What was done"))
    def what(self, entry: LogEntry) -> str:
        return entry.get_change_message() or entry.get_action_flag_display()
