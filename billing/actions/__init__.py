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
from billing.actions.topups import (
    TopUpRefused,
    begin_top_up,
    open_top_up,
    record_top_up,
    settle_charge,
    settle_checkout,
    settle_top_up,
    sweep_top_ups,
)
from billing.actions.transfers import (
    SlipRefused,
    StatementLine,
    TransferRefused,
    match_transfer,
    propose,
    record_statement,
    record_transfer,
    reject_slip,
    return_transfer,
    submit_slip,
)
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
    "SlipRefused",
    "StatementLine",
    "TopUpRefused",
    "TransferRefused",
    "VoidRefused",
    "VoucherRefused",
    "account_of",
    "apply_credit",
    "apply_stripe_invoice",
    "begin_top_up",
    "confirm_export",
    "create_vouchers",
    "draft_order_invoice",
    "draft_order_invoices",
    "draft_usage_invoices",
    "due_for_push",
    "enforce_arrears",
    "enforce_budgets",
    "expire_gifts",
    "grant_gift",
    "hold_arrears",
    "issue",
    "match_transfer",
    "move_invoice",
    "open_top_up",
    "pay_from_wallet",
    "propose",
    "push",
    "push_due",
    "reconcile",
    "record_payment",
    "record_statement",
    "record_top_up",
    "record_transfer",
    "redeem_voucher",
    "refresh_all",
    "refresh_credit",
    "refund_top_up",
    "reject_slip",
    "remind_of_unpaid",
    "repair",
    "report_out_of_band",
    "retry_push",
    "return_transfer",
    "run_billing",
    "save_tax_profile",
    "settle_charge",
    "settle_checkout",
    "settle_expiring",
    "settle_top_up",
    "submit_slip",
    "sweep_open_invoices",
    "sweep_top_ups",
    "tell_of_overdue",
    "void_invoice",
]
