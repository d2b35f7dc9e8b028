"""What can go wrong with Stripe, by what the caller should do about it."""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _


class GatewayError(Exception):
    """Stripe did not do what was asked. `message` is fit for a customer, `detail` for staff; neither holds a secret."""

    code = "payment_service_error"
    message: str | Promise = _("The payment service could not complete this step.")

    def __init__(self, detail: str = "", *, request_id: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else self.code


class Unavailable(GatewayError):
    """Stripe could not take the request now (409, 429; no connection or 5xx on a read). Repeat the same call later.

    A write that ends so may have been taken by an earlier try of the same call, which its key makes harmless.
    """

    code = "payment_service_unavailable"
    message = _("The payment service cannot be reached right now. Please try again in a few minutes.")


class UnknownOutcome(GatewayError):
    """A write whose answer never came or was a 500: it may or may not have happened. Look before writing again.

    `stored` means that Stripe remembers the 500 for this key and will only repeat it: look up what exists, and where it
    does not, push under the next version.
    """

    code = "payment_outcome_unknown"
    message = _("The payment service did not answer. We are checking what happened; please do not pay twice.")

    def __init__(self, detail: str = "", *, request_id: str | None = None, stored: bool = False) -> None:
        super().__init__(detail, request_id=request_id)
        self.stored = stored


class Refused(GatewayError):
    """Stripe understood and said no; repeating will not help. `reason` is Stripe's code, `param` what it objects to."""

    code = "payment_request_refused"
    message = _("The payment service refused this step. Our finance team can see why.")

    def __init__(
        self,
        detail: str = "",
        *,
        request_id: str | None = None,
        reason: str = "",
        param: str = "",
        http_status: int = 400,
    ) -> None:
        super().__init__(detail, request_id=request_id)
        self.reason = reason
        self.param = param
        self.http_status = http_status


class CardDeclined(Refused):
    """The payer's bank said no, or wants its customer to confirm (`authentication_required`). No money moved."""

    code = "payment_declined"
    message = _("The bank declined the payment. Use another means of payment, or ask the bank why.")

    def __init__(
        self,
        detail: str = "",
        *,
        request_id: str | None = None,
        reason: str = "",
        param: str = "",
        http_status: int = 402,
        decline_code: str = "",
        payment_intent: str = "",
    ) -> None:
        super().__init__(detail, request_id=request_id, reason=reason, param=param, http_status=http_status)
        self.decline_code = decline_code
        self.payment_intent = payment_intent


class AuthFailed(GatewayError):
    """The key is missing, wrong or lacks a permission: an operator must act."""

    code = "payment_service_not_configured"
    message = _("Online payment is not set up correctly at the moment. Please pay by bank transfer or contact us.")


class KeyReused(GatewayError):
    """The same idempotency key came with other parameters: a fact changed between attempts. Look up and adopt."""

    code = "payment_key_reused"


class TotalMismatch(GatewayError):
    """Stripe's invoice does not add up to ours. It was taken back (deleted or voided) and must be looked at."""

    code = "payment_total_mismatch"

    def __init__(self, detail: str, *, invoice_id: str) -> None:
        super().__init__(detail)
        self.invoice_id = invoice_id


class Ambiguous(GatewayError):
    """More than one live Stripe invoice carries our invoice's uuid: a person must decide which one stays."""

    code = "payment_invoice_ambiguous"


class BadSignature(GatewayError):
    """A webhook that Stripe did not sign, signed too long ago, or that is no event."""

    code = "webhook_signature_invalid"
