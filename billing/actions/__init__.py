"""The verbs of billing: the table of contents."""

from billing.actions.accounts import account_of
from billing.actions.arrears import enforce_arrears, hold_arrears
from billing.actions.credit import refresh_all, refresh_credit
from billing.actions.drafting import Drafted, draft_order_invoice, draft_order_invoices, draft_usage_invoices
from billing.actions.budgets import enforce_budgets
from billing.actions.dunning import remind_of_unpaid
from billing.actions.gifts import (
    GiftRefused,
    VoucherRefused,
    create_vouchers,
    expire_gifts,
    grant_gift,
    redeem_voucher,
)
from billing.actions.issuing import issue
from billing.actions.moving import IllegalMove, move_invoice
from billing.actions.payments import PaymentRefused, record_payment
from billing.actions.pushing import due_for_push, push, retry_push
from billing.actions.running import BillingRun, push_due, run_billing
from billing.actions.syncing import (
    Difference,
    apply_stripe_invoice,
    reconcile,
    report_out_of_band,
    sweep_open_invoices,
)
from billing.actions.tax_profiles import ExportNotConfirmed, confirm_export, save_tax_profile
from billing.actions.telling import tell_of_overdue
from billing.actions.voiding import VoidRefused, settle_expiring, void_invoice
from billing.actions.wallet import BalanceRefused, apply_credit, pay_from_wallet

__all__ = [
    "BalanceRefused",
    "BillingRun",
    "Difference",
    "Drafted",
    "ExportNotConfirmed",
    "GiftRefused",
    "IllegalMove",
    "PaymentRefused",
    "VoidRefused",
    "VoucherRefused",
    "account_of",
    "apply_credit",
    "apply_stripe_invoice",
    "confirm_export",
    "create_vouchers",
    "draft_order_invoice",
    "draft_order_invoices",
    "draft_usage_invoices",
    "due_for_push",
    "enforce_budgets",
    "expire_gifts",
    "grant_gift",
    "issue",
    "move_invoice",
    "pay_from_wallet",
    "push",
    "push_due",
    "reconcile",
    "record_payment",
    "redeem_voucher",
    "refresh_all",
    "refresh_credit",
    "refund_top_up",
    "reject_slip",
    "remind_of_unpaid",
    "repair",
    "report_out_of_band",
    "retry_push",
    "hold_arrears",
    "run_billing",
    "save_tax_profile",
    "settle_expiring",
    "sweep_open_invoices",
    "tell_of_overdue",
    "void_invoice",
]
