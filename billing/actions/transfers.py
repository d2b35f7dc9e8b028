"""Money by bank: what customers say they sent, what stands on the statement, and which belongs to whom.

A slip credits nothing, a line of the statement credits nothing: only finance's match does, once, into the balance.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from django.core.files.base import ContentFile
from django.db import connection, transaction
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from accounts.models import Notification, Organization, User
from accounts.notices import notify
from billing import ledger
from billing.actions.accounts import lock_account
from billing.actions.wallet import BalanceRefused, pay_from_wallet
from billing.models import BankTransfer, BillingAccount, Book, Invoice, Posting, TaxProfile, TransferSlip
from billing.remarks import account_of_remark
from marketplace.lib import clock
from marketplace.lib.money import format_minor
from marketplace.lib.refusals import Refusal
from orders.models import Order

logger = logging.getLogger(__name__)

SLIP_MOST_BYTES = 5 * 1024 * 1024
# Which files are slips, by how they begin; what a browser says about a file is nobody's word.
SLIP_KINDS = {b"%PDF-": ("pdf", "application/pdf"), b"\x89PNG\r\n\x1a\n": ("png", "image/png"),
              b"\xff\xd8\xff": ("jpg", "image/jpeg")}  # fmt: skip
PROPOSED_AT_MOST = 5


class SlipRefused(Refusal):
    """This slip cannot be taken or decided; nothing changed."""


class TransferRefused(Refusal):
    """This transfer cannot be recorded or matched so; nothing changed."""


# --- slips ----------------------------------------------------------------------------------------------------------
def kind_of_file(content: bytes) -> tuple[str, str] | None:
    """Extension and media type of a PDF, PNG or JPEG by its content; None for anything else."""
    return next((kind for start, kind in SLIP_KINDS.items() if content.startswith(start)), None)


def submit_slip(
    *,
    organization: Organization,
    amount_minor: int,
    payer: str,
    sent_on: date,
    content: bytes,
    at: datetime,
    actor: User | None = None,
) -> TransferSlip:
    """Keep a customer's slip for finance, once per file and figures. Raises SlipRefused naming the field at fault."""
    kind = _expect_slip(organization, amount_minor=amount_minor, payer=payer, sent_on=sent_on, content=content, at=at)
    facts = f"{amount_minor}:{payer.strip()}:{sent_on}".encode()
    fingerprint = hashlib.sha256(facts + b"\0" + content).hexdigest()
    with transaction.atomic():
        # The row's lock makes of two presses one slip.
        account = lock_account(organization_id=organization.pk)
        same = account.slips.exclude(status=TransferSlip.Status.REJECTED).filter(fingerprint=fingerprint).first()
        if same is not None:
            return same
        slip = TransferSlip(
            account=account,
            amount_minor=amount_minor,
            currency=organization.currency,
            payer=payer.strip(),
            sent_on=sent_on,
            fingerprint=fingerprint,
            submitted_by=actor,
            submitted_at=at,
        )
        # Named by us: a customer's file name reaches no file system.
        slip.file.save(f"{slip.key}.{kind[0]}", ContentFile(content), save=False)
        slip.save()
    return slip


def _expect_slip(
    organization: Organization, *, amount_minor: int, payer: str, sent_on: date, content: bytes, at: datetime
) -> tuple[str, str]:
    if amount_minor <= 0:
        raise SlipRefused("amount_not_positive", _("The amount must be more than zero."), field="amount")
    if not payer.strip():
        raise SlipRefused("payer_missing", _("Say in whose name the money was sent."), field="payer")
    if sent_on > clock.local_date(at, organization.zone):
        raise SlipRefused("sent_in_future", _("The day of the transfer lies in the future."), field="sent_on")
    if len(content) > SLIP_MOST_BYTES:
        raise SlipRefused("file_too_large", _("The file may have at most 5 MB."), field="file")
    kind = kind_of_file(content)
    if kind is None:
        raise SlipRefused("file_kind", _("The slip must be a PDF, PNG or JPEG file."), field="file")
    return kind


def move_slip(slip: TransferSlip, to: str, *, at: datetime, actor: User | None, reason: str = "") -> None:
    """The only code that writes TransferSlip.status, under its row lock. The database keeps the history."""
    if not connection.in_atomic_block:
        raise RuntimeError("a slip moves under its row lock")
    if to not in TransferSlip.NEXT.get(slip.status, set()):
        facts = {"status": slip.get_status_display()}
        raise SlipRefused("decided", _("This slip is decided already: %(status)s.") % facts)
    slip.status, slip.decided_at, slip.decided_by, slip.reason = to, at, actor, reason[:300]
    slip.save()


@transaction.atomic
def reject_slip(*, slip: TransferSlip, reason: str, at: datetime, actor: User | None = None) -> TransferSlip:
    """Say no to a slip with a reason its customer reads. Repeating it with the same reason changes nothing."""
    if not reason.strip():
        raise SlipRefused("reason_missing", _("Say why, the customer reads it."), field="reason")
    fresh = _locked_slip(slip.pk)
    if fresh.status == TransferSlip.Status.REJECTED and fresh.reason == reason.strip()[:300]:
        return fresh
    move_slip(fresh, TransferSlip.Status.REJECTED, at=at, actor=actor, reason=reason.strip())
    organization = fresh.account.organization
    notify(
        organization=organization,
        kind=Notification.Kind.SLIP_REJECTED,
        fact=str(fresh.key),
        params={
            "amount": format_minor(fresh.amount_minor, fresh.currency),
            "date": clock.read(fresh.submitted_at, organization.zone),
            "reason": fresh.reason,
        },
        page="billing:transfer",
        page_args=[],
        at=at,
    )
    return fresh


def _locked_slip(slip_id: int) -> TransferSlip:
    slips = TransferSlip.objects.select_for_update(no_key=True, of=("self",))
    return slips.select_related("account__organization").get(pk=slip_id)


# --- the statement --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class StatementLine:
    """One incoming payment as the bank states it."""

    reference: str
    payer: str
    amount_minor: int
    currency: str
    remark: str
    received_at: datetime


def record_transfer(*, line: StatementLine, at: datetime, actor: User | None = None) -> tuple[BankTransfer, bool]:
    """Write down a line of the statement, once per bank's reference; the row and whether it is new.

    Raises TransferRefused for what cannot be, and for a reference that stands for other money.
    """
    if not line.reference.strip():
        raise TransferRefused("reference_missing", _("Give the bank's reference of the transfer."), field="reference")
    if line.amount_minor <= 0:
        raise TransferRefused("amount_not_positive", _("The amount must be more than zero."), field="amount")
    if line.received_at > at:
        raise TransferRefused("in_future", _("Money cannot be received in the future."), field="received_at")
    transfer, created = BankTransfer.objects.get_or_create(
        reference=line.reference.strip(),
        defaults={
            "payer": line.payer.strip()[:100],
            "amount_minor": line.amount_minor,
            "currency": line.currency,
            "remark": line.remark.strip()[:200],
            "received_at": line.received_at,
            "recorded_by": actor,
        },
    )
    if not created and (transfer.amount_minor, transfer.currency) != (line.amount_minor, line.currency):
        facts = {"amount": format_minor(transfer.amount_minor, transfer.currency)}
        text = _("This reference is recorded already, over %(amount)s.") % facts
        raise TransferRefused("reference_taken", text, field="reference")
    return transfer, created


@transaction.atomic
def record_statement(*, lines: Iterable[StatementLine], at: datetime, actor: User | None = None) -> tuple[int, int]:
    """Write down a whole statement or, where one line is refused, nothing of it; how many lines are new and known."""
    new = known = 0
    for line in lines:
        _transfer, created = record_transfer(line=line, at=at, actor=actor)
        new, known = new + created, known + (not created)
    return new, known


# --- whose it is ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Proposal:
    """An account that a transfer may belong to, why, and the slip that told of it. `certainty` 3 is the most."""

    account: BillingAccount
    slip: TransferSlip | None
    certainty: int
    why: tuple[str | Promise, ...]


def propose(transfer: BankTransfer) -> list[Proposal]:
    """Accounts an unmatched transfer may belong to, the likeliest first. A proposal: a person decides."""
    coded = account_of_remark(transfer.remark)
    slips = _slips_like(transfer)
    titled = set(TaxProfile.objects.filter(title=transfer.payer).values_list("organization_id", flat=True))
    named = set(Organization.objects.filter(name=transfer.payer).values_list("pk", flat=True))
    accounts = {slip.account_id: slip.account for slip in slips}
    known = BillingAccount.objects.filter(organization_id__in=titled | named).select_related("organization")
    accounts |= {account.pk: account for account in known}
    if coded is not None:
        accounts[coded.pk] = coded
    found = [
        _proposal(account, transfer, [slip for slip in slips if slip.account_id == pk], titled | named, coded)
        for pk, account in accounts.items()
        if account.organization.currency == transfer.currency
    ]
    return sorted(found, key=lambda each: (-each.certainty, each.account.pk))[:PROPOSED_AT_MOST]


def _slips_like(transfer: BankTransfer) -> list[TransferSlip]:
    """Submitted slips over the same amount and in the same payer's name or, failing that, over the same amount."""
    slips = TransferSlip.objects.filter(
        status=TransferSlip.Status.SUBMITTED, currency=transfer.currency, amount_minor=transfer.amount_minor
    )
    return list(slips.select_related("account__organization").order_by("submitted_at", "pk")[:50])


def _proposal(
    account: BillingAccount,
    transfer: BankTransfer,
    slips: list[TransferSlip],
    by_name: set[int],
    coded: BillingAccount | None,
) -> Proposal:
    why: list[str | Promise] = []
    if coded is not None and coded.pk == account.pk:
        why.append(_("remark code"))
    if account.organization_id in by_name:
        why.append(_("payer's name"))
    slip = next((each for each in slips if each.payer == transfer.payer), slips[0] if slips else None)
    if slip is not None:
        why.append(_("slip: payer and amount") if slip.payer == transfer.payer else _("slip: amount"))
    code_counts_twice = 2 if coded is not None and coded.pk == account.pk else 0
    return Proposal(account, slip, min(len(why) + code_counts_twice, 3), tuple(why))


@transaction.atomic
def match_transfer(
    *,
    transfer: BankTransfer,
    organization: Organization,
    at: datetime,
    actor: User | None = None,
    slip: TransferSlip | None = None,
    invoice: Invoice | None = None,
) -> BankTransfer:
    """Credit a transfer to an organization's balance, once; then, where one is named, pay its invoice from it.

    Less than the invoice pays a part of it (a prepaid order: nothing), more stays in the balance. Raises
    TransferRefused when it is matched elsewhere, sent back, in another currency, or slip or invoice are another's.
    """
    if invoice is not None and invoice.order_id is not None:
        # Orders are locked before accounts everywhere; paying below needs this one.
        Order.objects.select_for_update(no_key=True).get(pk=invoice.order_id)
    account = lock_account(organization_id=organization.pk)
    fresh = BankTransfer.objects.select_for_update(no_key=True).get(pk=transfer.pk)
    if fresh.status == BankTransfer.Status.MATCHED and fresh.account_id == account.pk:
        return fresh
    _expect_fit(fresh, account, slip, invoice)
    fresh.account, fresh.slip, fresh.matched_by, fresh.matched_at = account, slip, actor, at
    move_transfer(fresh, BankTransfer.Status.MATCHED)
    if slip is not None:
        move_slip(_locked_slip(slip.pk), TransferSlip.Status.MATCHED, at=at, actor=actor)
    ledger.post(
        account=account,
        kind=Posting.Kind.TRANSFER,
        fact=fresh.reference,
        entries={Book.CASH: fresh.amount_minor, Book.WALLET: -fresh.amount_minor},
        at=at,
        currency=fresh.currency,
        actor=actor,
        note=fresh.payer,
    )
    notify(
        organization=account.organization,
        kind=Notification.Kind.BALANCE_CREDITED,
        fact=f"transfer:{fresh.key}",
        params={"amount": format_minor(fresh.amount_minor, fresh.currency), "how": "transfer"},
        page="billing:balance",
        page_args=[],
        at=at,
    )
    if invoice is not None:
        _pay(invoice, at=at, actor=actor)
    return fresh


def _pay(invoice: Invoice, *, at: datetime, actor: User | None) -> None:
    """Bank money pays what finance chose, never gifted credit. Where it does not, it stays in the balance."""
    try:
        with transaction.atomic():
            pay_from_wallet(invoice=invoice, at=at, actor=actor, gifts=False)
    except BalanceRefused as refusal:
        logger.warning("invoice %s was not paid by the transfer that was matched: %s", invoice, refusal.code)


def move_transfer(transfer: BankTransfer, to: str) -> None:
    """The only code that writes BankTransfer.status, under its row lock. The database keeps the history."""
    if not connection.in_atomic_block:
        raise RuntimeError("a transfer moves under its row lock")
    if to not in BankTransfer.NEXT.get(transfer.status, set()):
        facts = {"status": transfer.get_status_display()}
        raise TransferRefused("decided", _("This transfer is dealt with already: %(status)s.") % facts)
    transfer.status = to
    transfer.save()


def _expect_fit(
    transfer: BankTransfer, account: BillingAccount, slip: TransferSlip | None, invoice: Invoice | None
) -> None:
    currency = account.organization.currency
    if transfer.currency != currency:
        facts = {"theirs": transfer.currency, "ours": currency}
        text = _("The transfer is in %(theirs)s, the balance in %(ours)s.") % facts
        raise TransferRefused("currency_differs", text, field="organization")
    if slip is not None and slip.account_id != account.pk:
        raise TransferRefused("slip_of_another", _("This slip is another organization's."), field="slip")
    if invoice is not None and invoice.organization_id != account.organization_id:
        raise TransferRefused("invoice_of_another", _("This invoice is another organization's."), field="invoice")


@transaction.atomic
def return_transfer(*, transfer: BankTransfer, note: str, at: datetime, actor: User | None = None) -> BankTransfer:
    """Write down that money nobody knows was sent back by the bank. Repeating it changes nothing."""
    if not note.strip():
        raise TransferRefused("reason_missing", _("Say why it was sent back."), field="note")
    fresh = BankTransfer.objects.select_for_update(no_key=True).get(pk=transfer.pk)
    if fresh.status == BankTransfer.Status.RETURNED:
        return fresh
    fresh.note, fresh.matched_by, fresh.matched_at = note.strip()[:300], actor, at
    move_transfer(fresh, BankTransfer.Status.RETURNED)
    return fresh
