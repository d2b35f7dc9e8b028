"""The verbs of billing: the table of contents."""

from billing.actions.accounts import account_of
from billing.actions.arrears import enforce_arrears, hold_arrears
from billing.actions.budgets import enforce_budgets
from billing.actions.closing import CloseRefused, close_month, next_to_close
from billing.actions.credit import refresh_all, refresh_credit
from billing.actions.credit_notes import CreditRefused, issue_credit_note
from billing.actions.disputes import DisputeRefused, apply_dispute, give_credit_again
from billing.actions.drafting import draft_order_invoice, draft_order_invoices
from billing.actions.dunning import remind_of_unpaid
from billing.actions.fapiao import (
    FapiaoRefused,
    cancel_red_flush,
    export_fapiao,
    finish_red_flush,
    follow_credit,
    issue_fapiao,
    open_red_flush,
    recalculate_fapiao,
    refuse_fapiao,
    request_fapiao,
    withdraw_fapiao,
)
from billing.actions.gifts import (
    GiftRefused,
    VoucherRefused,
    create_vouchers,
    expire_gifts,
    grant_gift,
    redeem_voucher,
)
from billing.actions.issuing import issue
from billing.actions.months import Drafted, draft_usage_invoices
from billing.actions.moving import IllegalMove, move_invoice
from billing.actions.payments import PaymentRefused, record_payment
from billing.actions.pushing import due_for_push, push, retry_push
from billing.actions.reconciling import Difference, NotRepaired, reconcile, repair
from billing.actions.refunds import (
    RefundRefused,
    apply_refund,
    confirm_bank_refund,
    hurry_refund,
    keep_on_balance,
    refund_top_up,
    send_refund,
    sweep_refunds,
)
from billing.actions.running import BillingRun, push_due, run_billing
from billing.actions.settling import set_mode, settle_usage
from billing.actions.syncing import apply_stripe_invoice, report_out_of_band, sweep_open_invoices
from billing.actions.tax_profiles import ExportNotConfirmed, confirm_export, save_tax_profile
from billing.actions.telling import tell_of_overdue
from billing.actions.telling_stripe import apply_credit_note, report_payments, retry_credit_note, sweep_credit_notes
from billing.actions.term_refunds import credit_term_refunds
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
    "CloseRefused",
    "CreditRefused",
    "Difference",
    "DisputeRefused",
    "Drafted",
    "ExportNotConfirmed",
    "FapiaoRefused",
    "GiftRefused",
    "IllegalMove",
    "NotRepaired",
    "PaymentRefused",
    "RefundRefused",
    "SlipRefused",
    "StatementLine",
    "TopUpRefused",
    "TransferRefused",
    "VoidRefused",
    "VoucherRefused",
    "account_of",
    "apply_credit",
    "apply_credit_note",
    "apply_dispute",
    "apply_refund",
    "apply_stripe_invoice",
    "begin_top_up",
    "cancel_red_flush",
    "close_month",
    "confirm_bank_refund",
    "confirm_export",
    "create_vouchers",
    "credit_term_refunds",
    "draft_order_invoice",
    "draft_order_invoices",
    "draft_usage_invoices",
    "due_for_push",
    "enforce_arrears",
    "enforce_budgets",
    "expire_gifts",
    "export_fapiao",
    "finish_red_flush",
    "follow_credit",
    "give_credit_again",
    "grant_gift",
    "hold_arrears",
    "hurry_refund",
    "issue",
    "issue_credit_note",
    "issue_fapiao",
    "keep_on_balance",
    "match_transfer",
    "move_invoice",
    "next_to_close",
    "open_red_flush",
    "open_top_up",
    "pay_from_wallet",
    "propose",
    "push",
    "push_due",
    "recalculate_fapiao",
    "reconcile",
    "record_payment",
    "record_statement",
    "record_top_up",
    "record_transfer",
    "redeem_voucher",
    "refresh_all",
    "refresh_credit",
    "refund_top_up",
    "refuse_fapiao",
    "reject_slip",
    "remind_of_unpaid",
    "repair",
    "report_out_of_band",
    "report_payments",
    "request_fapiao",
    "retry_credit_note",
    "retry_push",
    "return_transfer",
    "run_billing",
    "save_tax_profile",
    "send_refund",
    "set_mode",
    "settle_charge",
    "settle_checkout",
    "settle_expiring",
    "settle_top_up",
    "settle_usage",
    "submit_slip",
    "sweep_credit_notes",
    "sweep_open_invoices",
    "sweep_refunds",
    "sweep_top_ups",
    "tell_of_overdue",
    "void_invoice",
    "withdraw_fapiao",
]
