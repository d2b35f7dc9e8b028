"""Notices: what an organization should know, written down with the fact it is about, in words of the reader's language.

`notify` is called inside the transaction that makes the fact, so that neither stands without the other. A notice is
words (here, by kind) and figures (in the row); mails go out afterwards by `accounts.mailing`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Delivery, Membership, Notification, NotificationPreference, Organization, User
from accounts.permissions import can

Kind = Notification.Kind
Figure = str | int
Text = str | Promise


# --- words -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Words:
    """How a kind is said: a title, a sentence and what the link to its page is called. tone: info, good, warn, bad.

    `codes` gives words to figures that are codes: parameter → code → words. Where a parameter has codes, no other value
    is accepted.
    """

    title: Text
    text: Text
    link: Text
    tone: str
    codes: Mapping[str, Mapping[str, Text]] = field(default_factory=dict)

    def figures(self, params: Mapping[str, Figure]) -> dict[str, Text | Figure]:
        """The parameters with every code replaced by its words. Raises KeyError for a code without words."""
        coded = {name: words[str(params[name])] for name, words in self.codes.items()}
        return {**params, **coded}


RULES: Mapping[str, Text] = {
    "idle": _("Its cards had been idle for as long as you set."),
    "at_time": _("The time you set has come."),
    "at_spend": _("It has cost as much as you set."),
}

# Kinds whose page needs no sign-in: a mail about them may be passed on.
OPEN_PAGES = frozenset({Kind.QUOTE_SENT, Kind.WAITLIST_FREE})

# A comment over each kind names its figures.
WORDS: dict[str, Words] = {
    # name
    Kind.RENTAL_READY: Words(
        _("“%(name)s” is ready"),
        _("The machine is running, its cards were counted and you can log in by SSH."),
        _("Open the machine"),
        "good",
    ),
    # name, outcome: taken down, paid in advance and waiting, in our hands, or back to its disk
    Kind.RENTAL_FAILED: Words(
        _("“%(name)s” could not be started"),
        "%(outcome)s",
        _("See what happened"),
        "bad",
        {
            "outcome": {
                "gone": _("The machine could not be made and was taken down. Nothing was billed for it."),
                "waiting": _("Our staff has been told. Your payment is safe: we try again or return the money."),
                "operator": _("Our staff has been told and sees to it."),
                "stopped": _("The machine is stopped again and its disk is kept. You can try again."),
            }
        },
    ),
    # name
    Kind.RENTAL_LOST: Words(
        _("“%(name)s” was lost"),
        _("The data centre no longer reports this machine. Our staff has been told, and billing by the hour ended."),
        _("See what happened"),
        "bad",
    ),
    # name
    Kind.RENTAL_SUSPENDED: Words(
        _("“%(name)s” was suspended"),
        _("Our staff switched this machine off. Its disk is kept; please contact us."),
        _("Open the machine"),
        "bad",
    ),
    # name
    Kind.RENTAL_NOT_RESUMED: Words(
        _("“%(name)s” waits for free cards"),
        _("It is no longer suspended, but the server that keeps its disk has no free cards. Start it once there are."),
        _("Open the machine"),
        "warn",
    ),
    # name, rule
    Kind.AUTO_STOPPED: Words(
        _("“%(name)s” was stopped by its rule"),
        _("%(rule)s The machine is stopped and its disk is kept."),
        _("Open the machine"),
        "info",
        {"rule": RULES},
    ),
    # name, rule
    Kind.AUTO_STOP_FAILED: Words(
        _("“%(name)s” could not be stopped by its rule"),
        _("%(rule)s The machine still runs and is billed. Please stop it yourself."),
        _("Open the machine"),
        "bad",
        {"rule": RULES},
    ),
    # name, days, date; the days are 7, 3 or 1
    Kind.RENTAL_EXPIRING: Words(
        _("The term of “%(name)s” ends in %(days)s"),
        _("It ends at %(date)s. The machine is stopped then; copy what you need or order another term in time."),
        _("Open the machine"),
        "warn",
        {"days": {"7": _("7 days"), "3": _("3 days"), "1": _("1 day")}},
    ),
    # number
    Kind.HOLD_EXPIRED: Words(
        _("Order %(number)s expired"),
        _("It was not paid in time, so its cards are free for others again. Nothing was charged."),
        _("Open the order"),
        "warn",
    ),
    # offer
    Kind.WAITLIST_FREE: Words(
        _("%(offer)s is free again"),
        _("You asked us to tell you. The cards are not reserved: whoever orders first gets them."),
        _("Open the offer"),
        "good",
    ),
    # number, date
    Kind.QUOTE_SENT: Words(
        _("Quote %(number)s has arrived"),
        _("It is valid until %(date)s. You can read, print and accept it online."),
        _("Open the quote"),
        "info",
    ),
    # number, amount, date
    Kind.INVOICE_ISSUED: Words(
        _("Invoice %(number)s: %(amount)s"),
        _("A new invoice of %(amount)s was issued. Please pay it by %(date)s."),
        _("Open the invoice"),
        "info",
    ),
    # number, amount, date
    Kind.INVOICE_OVERDUE: Words(
        _("Invoice %(number)s is overdue"),
        _("%(amount)s was due by %(date)s. Please pay it, or write to us if you have done so."),
        _("Open the invoice"),
        "bad",
    ),
    # hours, left; the hours are 72 or 24
    Kind.CREDIT_LOW: Words(
        _("Credit lasts less than %(hours)s hours"),
        _("%(left)s of credit is left, enough for less than %(hours)s hours at the present use."),
        _("Open billing"),
        "warn",
    ),
    # number, amount, date, days: how many after the day of payment
    Kind.INVOICE_REMINDER: Words(
        _("Reminder: invoice %(number)s is overdue"),
        _("%(amount)s was due by %(date)s, %(days)s days ago or more. Please pay it, or write to us about it."),
        _("Open the invoice"),
        "bad",
    ),
    # amount, hours, date
    Kind.ARREARS_BEGUN: Words(
        _("Your balance is below zero"),
        _(
            "%(amount)s is missing. Machines by the hour run and are billed for %(hours)s h more, until %(date)s; then"
            " they are suspended."
        ),
        _("Top up or pay"),
        "bad",
    ),
    # amount, days, date
    Kind.ARREARS_SUSPENDED: Words(
        _("Your machines by the hour were suspended"),
        _(
            "%(amount)s is missing. Disks and data are kept for %(days)s days, until %(date)s, and then deleted. Top up"
            " and the machines go on by themselves."
        ),
        _("Top up or pay"),
        "bad",
    ),
    # amount, days: that are left, date
    Kind.ARREARS_KEPT: Words(
        _("Days until your data is deleted: %(days)s"),
        _(
            "%(amount)s is missing. The disks of your suspended machines are deleted after %(date)s unless you top up"
            " before."
        ),
        _("Top up or pay"),
        "bad",
    ),
    # amount
    Kind.ARREARS_RELEASED: Words(
        _("Your suspended machines were deleted"),
        _("The balance stayed below zero for as long as their data was kept. %(amount)s is still to be paid."),
        _("Open billing"),
        "bad",
    ),
    # now: nothing was suspended yet, what was goes on, or nothing is left
    Kind.ARREARS_CLEARED: Words(
        _("Your balance is settled"),
        "%(now)s",
        _("Open billing"),
        "good",
        {
            "now": {
                "in_time": _("Thank you. Your machines run on."),
                "resumed": _(
                    "Thank you. Machines that ran are started again, as far as their servers have free cards."
                ),
                "released": _("Thank you. You can order again."),
            }
        },
    ),
    # name, spent, amount, forecast, does
    Kind.BUDGET_REACHED: Words(
        _("Budget “%(name)s”: %(spent)s of %(amount)s spent"),
        _("If everything runs on as now, this month comes to %(forecast)s. %(does)s"),
        _("Open budgets"),
        "warn",
        {
            "does": {
                "warn": _("Nothing is stopped."),
                "block": _("New orders are refused until the month ends or the budget is raised."),
                "stop": _(
                    "Machines by the hour are stopped and new orders refused until the month ends or the budget is"
                    " raised."
                ),
            }
        },
    ),
    # amount, how: by which way
    Kind.BALANCE_CREDITED: Words(
        _("%(amount)s was added to your balance"),
        "%(how)s",
        _("Open the balance"),
        "good",
        {
            "how": {
                "transfer": _("Your bank transfer has arrived. Open invoices can be paid with it now."),
                "automatic": _("Your balance ran low, so your saved card was charged as you asked."),
            }
        },
    ),
    # amount, date, reason
    Kind.SLIP_REJECTED: Words(
        _("The transfer slip over %(amount)s was rejected"),
        _("You sent it on %(date)s. %(reason)s"),
        _("Open bank transfers"),
        "bad",
    ),
    # amount, what: what happens next
    Kind.TOP_UP_DECLINED: Words(
        _("Your card was declined"),
        _("%(amount)s could not be charged for the automatic top-up. %(what)s"),
        _("Open automatic top-up"),
        "bad",
        {
            "what": {
                "again": _("We try again later; you can also top up yourself or save another card."),
                "off": _("After three refusals it was switched off. Save another card and switch it on again."),
            }
        },
    ),
    # number, invoice, amount
    Kind.CREDIT_NOTE: Words(
        _("Credit note %(number)s: %(amount)s"),
        _("%(amount)s of invoice %(invoice)s was taken back. What you had paid of it goes back to you."),
        _("Open the invoice"),
        "good",
    ),
    # amount, how
    Kind.REFUND_ENDED: Words(
        _("Refund of %(amount)s"),
        "%(how)s",
        _("Open billing"),
        "info",
        {
            "how": {
                "done": _("The money is on its way to the account that it came from."),
                "failed": _("It could not be sent to where it came from, so it was added to your balance."),
            }
        },
    ),
    # amount
    Kind.DISPUTE_OPENED: Words(
        _("A payment of %(amount)s is disputed"),
        _("Your bank took it back. Until this is decided nothing new can be rented; please contact us."),
        _("Open billing"),
        "bad",
    ),
    # invoice, amount
    Kind.FAPIAO_ISSUED: Words(
        _("The fapiao for invoice %(invoice)s is here"),
        _("It was issued over %(amount)s. Download it from the page of the invoice."),
        _("Open the invoice"),
        "good",
    ),
    # invoice, reason
    Kind.FAPIAO_REFUSED: Words(
        _("The fapiao for invoice %(invoice)s could not be issued"),
        _("%(reason)s Mend it and ask for the fapiao again."),
        _("Open the invoice"),
        "bad",
    ),
    # number, invoice
    Kind.FAPIAO_FLUSHED: Words(
        _("Fapiao %(number)s was taken back"),
        _("A red fapiao was issued against it. If a part of invoice %(invoice)s is left, you can ask for a new one."),
        _("Open the invoice"),
        "info",
    ),
}


@dataclass(frozen=True, slots=True)
class Said:
    """A notice in words, in the language that was active when it was said."""

    title: str
    text: str
    link: str
    tone: str


def say(notification: Notification) -> Said:
    """The notice in the active language. Raises KeyError where a figure is missing; `notify` lets none such in."""
    return _say(notification.kind, notification.params)


def _say(kind: str, params: Mapping[str, Figure]) -> Said:
    words = WORDS[kind]
    figures = words.figures(params)
    return Said(str(words.title) % figures, str(words.text) % figures, str(words.link), words.tone)


# --- groups: what a person chooses by --------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Group:
    """Kinds that are wanted or not together. `verb`: who may see them (`accounts.permissions`).

    `always` keeps them in the console whatever is chosen: nobody shall miss what costs money.
    """

    name: str
    label: Text
    help: Text
    kinds: tuple[str, ...]
    verb: str = "view"
    mail: bool = True
    always: bool = False


GROUPS: tuple[Group, ...] = (
    Group(
        "machines",
        _("Machines"),
        _("Ready, failed, lost or suspended."),
        (
            Kind.RENTAL_READY,
            Kind.RENTAL_FAILED,
            Kind.RENTAL_LOST,
            Kind.RENTAL_SUSPENDED,
            Kind.RENTAL_NOT_RESUMED,
        ),
    ),
    Group(
        "rules",
        _("Auto-stop"),
        _("A machine was stopped by a rule, or could not be."),
        (Kind.AUTO_STOPPED, Kind.AUTO_STOP_FAILED),
    ),
    Group(
        "terms",
        _("Ending terms"),
        _("A prepaid term ends in 7 days, 3 days or 1 day."),
        (Kind.RENTAL_EXPIRING,),
    ),
    Group(
        "orders",
        _("Orders, quotes, waitlist"),
        _("An order expired unpaid, a quote arrived, cards you waited for are free."),
        (Kind.HOLD_EXPIRED, Kind.QUOTE_SENT, Kind.WAITLIST_FREE),
    ),
    Group(
        "money",
        _("Invoices and credit"),
        _("An invoice was issued or is overdue, credit runs low or is used up, a budget is used."),
        (
            Kind.INVOICE_ISSUED,
            Kind.INVOICE_OVERDUE,
            Kind.INVOICE_REMINDER,
            Kind.CREDIT_LOW,
            Kind.ARREARS_BEGUN,
            Kind.ARREARS_SUSPENDED,
            Kind.ARREARS_KEPT,
            Kind.ARREARS_RELEASED,
            Kind.ARREARS_CLEARED,
            Kind.BUDGET_REACHED,
            Kind.BALANCE_CREDITED,
            Kind.SLIP_REJECTED,
            Kind.TOP_UP_DECLINED,
            Kind.CREDIT_NOTE,
            Kind.REFUND_ENDED,
            Kind.DISPUTE_OPENED,
            Kind.FAPIAO_ISSUED,
            Kind.FAPIAO_REFUSED,
            Kind.FAPIAO_FLUSHED,
        ),
        verb="bills",
        always=True,
    ),
)
GROUP_OF: dict[str, Group] = {str(kind): group for group in GROUPS for kind in group.kinds}


def kinds_for(membership: Membership) -> list[str]:
    """The kinds that this member's role may see."""
    return [kind for kind, group in GROUP_OF.items() if can(membership, group.verb)]


# --- writing them down ------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Notice:
    """A fact to tell an organization's members, or only one of them."""

    organization_id: int
    fact: str
    params: Mapping[str, Figure]
    page: str
    page_args: Sequence[str] = ()
    user_id: int | None = None


def notify(
    *,
    organization: Organization,
    kind: Notification.Kind,
    fact: str,
    params: Mapping[str, Figure],
    page: str,
    page_args: Sequence[str],
    at: datetime,
    user: User | None = None,
) -> bool:
    """Tell the organization's members, or only `user`, a fact; inside the transaction that makes the fact.

    Once per organization, kind and fact: repeating it, also in parallel, changes nothing and gives False. `params` are
    the figures of the kind's words, ready to be read (amounts and dates formatted; codes as `WORDS` lists them);
    `page` is a URL name and `page_args` its arguments. Only members of this moment whose role may know are told.
    Raises KeyError for a missing figure and RuntimeError outside a transaction.
    """
    notice = Notice(organization.pk, fact, params, page, page_args, user.pk if user else None)
    return notify_many(kind=kind, notices=[notice], at=at) == 1


def notify_many(*, kind: Notification.Kind, notices: Sequence[Notice], at: datetime) -> int:
    """`notify` for many facts of one kind in a handful of statements; returns how many were new."""
    if not connection.in_atomic_block:
        raise RuntimeError("a notice is written in the transaction of its fact")
    for notice in notices:
        _say(kind, notice.params)
    rows = [
        Notification(
            organization_id=notice.organization_id,
            user_id=notice.user_id,
            kind=kind,
            fact=notice.fact,
            params=dict(notice.params),
            page=notice.page,
            page_args=[str(one) for one in notice.page_args],
            created_at=at,
        )
        for notice in notices
    ]
    Notification.objects.bulk_create(rows, ignore_conflicts=True)
    new = list(Notification.objects.filter(key__in=[row.key for row in rows]))
    if new:
        Delivery.objects.bulk_create(_deliveries(kind, new, at))
    return len(new)


def _deliveries(kind: Notification.Kind, notifications: Sequence[Notification], at: datetime) -> list[Delivery]:
    group = GROUP_OF[kind]
    members = Membership.objects.filter(
        organization_id__in={notification.organization_id for notification in notifications}, user__is_active=True
    )
    told: dict[int, list[int]] = defaultdict(list)
    for member in members.order_by("pk"):
        if can(member, group.verb):
            told[member.organization_id].append(member.user_id)
    people = {user_id for users in told.values() for user_id in users}
    chosen = {wish.user_id: wish for wish in NotificationPreference.objects.filter(group=group.name, user__in=people)}
    return [
        delivery
        for notification in notifications
        for user_id in told[notification.organization_id]
        if notification.user_id in {None, user_id}
        and (delivery := _delivery(notification, user_id, chosen.get(user_id), group, at)) is not None
    ]


def _delivery(
    notification: Notification, user_id: int, wish: NotificationPreference | None, group: Group, at: datetime
) -> Delivery | None:
    in_app, mail = (group.always or wish.in_app, wish.mail) if wish else (True, group.mail)
    if not (in_app or mail):
        return None
    return Delivery(notification=notification, user_id=user_id, in_app=in_app, mail_due_at=at if mail else None)
