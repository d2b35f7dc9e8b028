"""Fapiao: asked for by the customer, issued by finance at the tax bureau, taken back by a red flush; never deleted.

The row lock of the invoice is taken before that of its fapiao, so that a void or a credit note and a fapiao exclude
each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from django.core.files.base import ContentFile
from django.db import connection, transaction
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, User
from accounts.notices import notify
from billing import tax
from billing.actions.moving import locked
from billing.fapiao import NothingToInvoice, entitled, serial_of
from billing.fapiao_template import filled_in, workbook
from billing.models import Fapiao, FapiaoEvent, Invoice, TaxProfile
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal, Text

Kind, Status, RedReason = Fapiao.Kind, Fapiao.Status, Fapiao.RedReason
# Those that stand at the tax bureau: their invoice can be credited, not voided.
STANDING = (Status.ISSUED, Status.RED_PENDING)
# Those that wait for finance or the customer; a credit note or a void changes them without a red flush.
PENDING = (Status.REQUESTED, Status.FAILED)
_NUMBER = re.compile(r"[0-9]{20}")
# What the bureau hands out, by first bytes: PDF, and OFD, which is a zip.
_FILE_KINDS = ((b"%PDF-", "pdf"), (b"PK\x03\x04", "ofd"))
MOST_FILE_BYTES = 10 * 1024 * 1024


class FapiaoRefused(Refusal):
    """Nothing was done with the fapiao; `message` says why and what to do."""

    code = "fapiao_refused"


class IllegalFapiaoMove(FapiaoRefused):
    """The state of the fapiao does not allow this."""

    code = "illegal_move"

    def __init__(self, fapiao: Fapiao, to: str) -> None:
        facts = {"number": fapiao, "status": fapiao.get_status_display(), "to": Status(to).label}
        super().__init__(message=_("Fapiao %(number)s is “%(status)s” and cannot become “%(to)s”.") % facts)


def move_fapiao(fapiao: Fapiao, to: str, *, at: datetime, actor: User | None = None, note: str = "") -> None:
    """Move a locked fapiao along an arrow of its table and record the event. The only code that writes its status.

    Fields changed on the instance beforehand are saved with it. Raises IllegalFapiaoMove.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a fapiao moves under its row lock")
    if to not in Fapiao.NEXT.get(fapiao.status, set()):
        raise IllegalFapiaoMove(fapiao, to)
    fapiao.status = to
    fapiao.save()
    record(fapiao, at=at, actor=actor, note=note)


def record(fapiao: Fapiao, *, at: datetime, actor: User | None = None, note: str = "") -> None:
    """A line of its history at its present status."""
    FapiaoEvent.objects.create(fapiao=fapiao, status=fapiao.status, actor=actor, at=at, note=note[:300])


# --- the customer ---


@transaction.atomic
def request_fapiao(*, invoice: Invoice, kind: str, actor: User | None, at: datetime) -> Fapiao:
    """Ask for the fapiao of an issued invoice over what was consumed, with the tax profile as it is now.

    One that could not be issued is asked for anew. Raises FapiaoRefused; nothing was written then.
    """
    invoice = locked(invoice.pk)
    if invoice.status in {Invoice.Status.DRAFT, Invoice.Status.VOID}:
        raise FapiaoRefused("not_issued", _("A fapiao is made for an issued invoice that is not void."))
    if invoice.currency != "CNY":
        raise FapiaoRefused("currency", _("Fapiao are issued in renminbi only."))
    buyer = _buyer(invoice, kind)
    there = Fapiao.objects.select_for_update(no_key=True).filter(invoice=invoice)
    pending = there.filter(status=Status.FAILED).first()
    if there.filter(status__in=[Status.REQUESTED, *STANDING]).exists():
        raise FapiaoRefused("exists", _("There is a fapiao for this invoice already."))
    made = entitled(invoice)
    fapiao = pending or Fapiao(invoice=invoice, serial=serial_of(invoice, attempt=there.count() + 1))
    fapiao.kind, fapiao.buyer, fapiao.currency = kind, buyer, invoice.currency
    fapiao.total_minor, fapiao.tax_minor = made.total_minor, made.tax_minor
    fapiao.requested_by, fapiao.requested_at, fapiao.reason = actor, at, ""
    if pending:
        move_fapiao(fapiao, Status.REQUESTED, at=at, actor=actor)
        return fapiao
    fapiao.save()
    record(fapiao, at=at, actor=actor)
    return fapiao


def _buyer(invoice: Invoice, kind: str) -> dict[str, Any]:
    profile = TaxProfile.objects.filter(organization_id=invoice.organization_id).first()
    if profile is None:
        raise FapiaoRefused("no_profile", _("Fill in the tax profile first: it names the buyer."))
    if kind not in Kind.values:
        raise FapiaoRefused("kind", _("Choose a special or an ordinary VAT invoice."), field="kind")
    if kind == Kind.SPECIAL and profile.kind != TaxProfile.Kind.COMPANY:
        text = _("A special VAT invoice is for companies with a unified social credit code. Ask for an ordinary one.")
        raise FapiaoRefused("needs_company", text, field="kind")
    if not tax.is_gbk(profile.title + profile.address + profile.bank):
        raise FapiaoRefused("characters", _("The tax profile has characters that the tax bureau does not know."))
    return {name: getattr(profile, name) for name in tax.FIELDS}


@transaction.atomic
def withdraw_fapiao(*, fapiao: Fapiao, actor: User | None, at: datetime, note: str = "") -> Fapiao:
    """Take a request back before it is issued. Raises IllegalFapiaoMove afterwards."""
    _invoice, fapiao = _locked(fapiao)
    move_fapiao(fapiao, Status.WITHDRAWN, at=at, actor=actor, note=note)
    return fapiao


# --- finance ---


@transaction.atomic
def issue_fapiao(
    *, fapiao: Fapiao, number: str, issued_on: date, content: bytes, actor: User | None, at: datetime
) -> Fapiao:
    """Record what the tax bureau issued: its number of 20 digits, its day and its file (PDF or OFD).

    Raises FapiaoRefused, also when what may be invoiced has changed since it was asked for (`amount_changed`).
    """
    invoice, fapiao = _locked(fapiao)
    if fapiao.status != Status.REQUESTED:
        raise IllegalFapiaoMove(fapiao, Status.ISSUED)
    _expect_same_amount(fapiao, invoice)
    number = number.strip()
    _expect_number(number, "number")
    if issued_on > clock.local_date(at, invoice.organization.zone):
        raise FapiaoRefused("future", _("A fapiao cannot be issued in the future."), field="issued_on")
    fapiao.number, fapiao.issued_on = number, issued_on
    fapiao.file.save(f"{fapiao.key}.{_kind_of(content)}", ContentFile(content), save=False)
    move_fapiao(fapiao, Status.ISSUED, at=at, actor=actor)
    amount = format_minor(fapiao.total_minor, fapiao.currency)
    _tell(fapiao, invoice, Notification.Kind.FAPIAO_ISSUED, at=at, amount=amount)
    return fapiao


@transaction.atomic
def refuse_fapiao(*, fapiao: Fapiao, reason: str, actor: User | None, at: datetime) -> Fapiao:
    """It cannot be issued, for a reason that the customer is told and can mend. Raises IllegalFapiaoMove."""
    invoice, fapiao = _locked(fapiao)
    fapiao.reason = reason[:300]
    move_fapiao(fapiao, Status.FAILED, at=at, actor=actor, note=reason)
    _tell(fapiao, invoice, Notification.Kind.FAPIAO_REFUSED, at=at, reason=fapiao.reason)
    return fapiao


@transaction.atomic
def recalculate_fapiao(*, fapiao: Fapiao, actor: User | None, at: datetime) -> Fapiao:
    """Bring the amounts of one that is not issued yet to the invoice as it stands; nothing left: withdrawn."""
    invoice, fapiao = _locked(fapiao)
    if fapiao.status not in PENDING:
        raise IllegalFapiaoMove(fapiao, Status.REQUESTED)
    _follow(fapiao, invoice, at=at, actor=actor, note="recalculated")
    return fapiao


@transaction.atomic
def open_red_flush(*, fapiao: Fapiao, reason: str, actor: User | None, at: datetime, note: str = "") -> Fapiao:
    """Begin to take an issued fapiao back whole (红字信息确认单), for one of the four reasons of the bureau."""
    _invoice, fapiao = _locked(fapiao)
    if reason not in RedReason.values:
        raise FapiaoRefused("reason", _("Choose one of the tax bureau's four reasons."), field="reason")
    fapiao.red_reason = reason
    move_fapiao(fapiao, Status.RED_PENDING, at=at, actor=actor, note=note)
    return fapiao


@transaction.atomic
def cancel_red_flush(*, fapiao: Fapiao, actor: User | None, at: datetime, note: str = "") -> Fapiao:
    """The buyer or the bureau did not confirm it: the fapiao stands as before."""
    _invoice, fapiao = _locked(fapiao)
    fapiao.red_reason = ""
    move_fapiao(fapiao, Status.ISSUED, at=at, actor=actor, note=note)
    return fapiao


@transaction.atomic
def finish_red_flush(*, fapiao: Fapiao, red_number: str, flushed_on: date, actor: User | None, at: datetime) -> Fapiao:
    """The red fapiao is issued: this one no longer counts, and what is left may be asked for anew."""
    invoice, fapiao = _locked(fapiao)
    red_number = red_number.strip()
    _expect_number(red_number, "red_number")
    if red_number == fapiao.number:
        raise FapiaoRefused("same_number", _("The red fapiao has a number of its own."), field="red_number")
    if flushed_on > clock.local_date(at, invoice.organization.zone) or flushed_on < (fapiao.issued_on or flushed_on):
        text = _("The day must lie between that of the fapiao and today.")
        raise FapiaoRefused("day", text, field="flushed_on")
    fapiao.red_number, fapiao.red_flushed_on = red_number, flushed_on
    move_fapiao(fapiao, Status.RED_FLUSHED, at=at, actor=actor)
    _tell(fapiao, invoice, Notification.Kind.FAPIAO_FLUSHED, at=at, number=fapiao.number)
    return fapiao


@transaction.atomic
def export_fapiao(*, fapiao_ids: Iterable[int], actor: User | None, at: datetime) -> bytes:
    """The requested ones among these as the tax bureau's batch file, noted in each one's history.

    Raises ExportRefused with every row that the bureau would refuse, FapiaoRefused when there is none to issue or an
    amount has changed; nothing is exported then.
    """
    rows = list(
        Fapiao.objects.select_for_update(no_key=True, of=("self",))
        .select_related("invoice")
        .filter(pk__in=list(fapiao_ids), status=Status.REQUESTED)
        .order_by("requested_at", "pk")
    )
    if not rows:
        raise FapiaoRefused("none", _("None of the chosen fapiao waits to be issued."))
    pairs = [(row, entitled(row.invoice)) for row in rows]
    for row, _made in pairs:
        _expect_same_amount(row, row.invoice)
    file = workbook(filled_in(pairs))
    for row in rows:
        record(row, at=at, actor=actor, note="exported for the tax bureau")
    return file


# --- what happens to the invoice ---


def has_fapiao(invoice: Invoice) -> bool:
    """Whether a fapiao of the invoice stands at the tax bureau. Certain while the invoice's row is locked."""
    return Fapiao.objects.filter(invoice=invoice, status__in=STANDING).exists()


def follow_void(*, invoice: Invoice, at: datetime, actor: User | None = None) -> None:
    """A request for the fapiao of a void invoice is over. Within the transaction that voids, under the invoice's
    lock."""
    for fapiao in Fapiao.objects.select_for_update(no_key=True).filter(invoice=invoice, status__in=PENDING):
        move_fapiao(fapiao, Status.WITHDRAWN, at=at, actor=actor, note="invoice void")


def follow_credit(*, invoice: Invoice, at: datetime, actor: User | None = None, note: str = "") -> None:
    """After a credit note on the locked invoice, in its transaction: an issued fapiao goes to its red flush, a request
    is brought down to what is left."""
    there = Fapiao.objects.select_for_update(no_key=True).filter(invoice=invoice)
    for fapiao in there.filter(status__in=[*PENDING, Status.ISSUED]):
        if fapiao.status != Status.ISSUED:
            _follow(fapiao, invoice, at=at, actor=actor, note=note)
            continue
        whole = invoice.credited_minor >= invoice.total_minor
        fapiao.red_reason = RedReason.ENDED if whole else RedReason.DISCOUNT
        move_fapiao(fapiao, Status.RED_PENDING, at=at, actor=actor, note=note)


def _follow(fapiao: Fapiao, invoice: Invoice, *, at: datetime, actor: User | None, note: str) -> None:
    try:
        made = entitled(invoice)
    except NothingToInvoice:
        move_fapiao(fapiao, Status.WITHDRAWN, at=at, actor=actor, note=note)
        return
    if (made.total_minor, made.tax_minor) == (fapiao.total_minor, fapiao.tax_minor):
        return
    before = format_minor(fapiao.total_minor, fapiao.currency)
    fapiao.total_minor, fapiao.tax_minor = made.total_minor, made.tax_minor
    fapiao.save(update_fields=["total_minor", "tax_minor"])
    record(fapiao, at=at, actor=actor, note=f"{before} → {format_minor(made.total_minor, fapiao.currency)} {note}")


def _tell(fapiao: Fapiao, invoice: Invoice, kind: Notification.Kind, *, at: datetime, **figures: str) -> None:
    """Once for each answer; a second refusal is a new one."""
    answers = fapiao.events.filter(status=fapiao.status).count()
    notify(
        organization=invoice.organization,
        kind=kind,
        fact=f"{fapiao.key}:{answers}",
        params={"invoice": str(invoice), **figures},
        page="billing:invoice",
        page_args=[str(invoice.key)],
        at=at,
    )


# --- what is expected ---


def _locked(fapiao: Fapiao) -> tuple[Invoice, Fapiao]:
    invoice = locked(fapiao.invoice_id)
    return invoice, Fapiao.objects.select_for_update(no_key=True).get(pk=fapiao.pk)


def _expect_same_amount(fapiao: Fapiao, invoice: Invoice) -> None:
    made = entitled(invoice)
    if (made.total_minor, made.tax_minor) != (fapiao.total_minor, fapiao.tax_minor):
        facts = {
            "number": fapiao,
            "now": format_minor(made.total_minor, fapiao.currency),
            "then": format_minor(fapiao.total_minor, fapiao.currency),
        }
        text: Text = _("%(number)s: %(now)s may be invoiced now, no longer %(then)s. Recalculate it first.") % facts
        raise FapiaoRefused("amount_changed", text)


def _expect_number(number: str, where: str) -> None:
    if not _NUMBER.fullmatch(number):
        raise FapiaoRefused("number", _("The number of a fapiao has 20 digits."), field=where)
    taken = Fapiao.objects.filter(number=number).exists() or Fapiao.objects.filter(red_number=number).exists()
    if taken:
        raise FapiaoRefused("taken", _("Another fapiao has this number."), field=where)


def _kind_of(content: bytes) -> str:
    if len(content) > MOST_FILE_BYTES:
        raise FapiaoRefused("file_size", _("The file is larger than 10 MB."), field="file")
    for start, kind in _FILE_KINDS:
        if content.startswith(start):
            return kind
    raise FapiaoRefused("file_kind", _("The file is neither a PDF nor an OFD."), field="file")
