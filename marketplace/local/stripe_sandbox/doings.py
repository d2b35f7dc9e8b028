"""What happens at Stripe without anybody calling its API: payers pay, banks decide, time passes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from . import checkout, invoices, methods, refunds
from .calls import Call
from .faults import Faults
from .store import Store
from .webhooks import Sender


class Doings:
    """The part of the server that tests and `POST /_sandbox/act` pull at. Each is one transaction with its events."""

    faults: Faults
    public_url: str
    _store: Store
    _sender: Sender | None
    _settle_after: float | None

    def _check_events(self, call: Call) -> None:
        raise NotImplementedError

    @contextmanager
    def _doing(self) -> Iterator[Call]:
        with self._store.transaction():
            call = Call(self._store, self.public_url, faults=self.faults)
            yield call
            self._check_events(call)
        if call.events and self._sender:
            self._sender.nudge()

    def act(self, *, do: str, **facts: Any) -> str:
        """One of the verbs below by its name. Raises ValueError for another, TypeError for facts it does not take."""
        verbs: dict[str, Callable[..., str]] = {
            "attach_method": self.attach_method,
            "close_dispute": self.close_dispute,
            "open_dispute": self.open_dispute,
            "pay_checkout": self.pay_checkout,
            "settle_checkout": self.settle_checkout,
            "settle_refund": self.settle_refund,
        }
        if do not in verbs:
            raise ValueError(f"do may be {', '.join(sorted(verbs))}")
        return verbs[do](**facts)

    def pay_checkout(self, session_id: str, *, outcome: str = "paid", method: str = "card") -> str:
        """The payer presses a button: paid, declined, later, later_failed. Returns the intent's id, if there is one."""
        with self._doing() as call:
            session = call.require("checkout.session", session_id)
            checkout.complete(call, session, outcome, method)
            return session["payment_intent"] or ""

    def settle_checkout(self, session_id: str, *, succeeded: bool) -> str:
        """The money that was promised on the page arrives, or will not."""
        with self._doing() as call:
            checkout.settle(call, call.require("checkout.session", session_id), succeeded=succeeded)
        return session_id

    def settle_refund(self, refund_id: str, *, succeeded: bool) -> str:
        """The payer's bank takes the refund, or sends it back."""
        with self._doing() as call:
            refunds.settle(call, call.require("refund", refund_id), succeeded=succeeded)
        return refund_id

    def open_dispute(self, charge_id: str, *, amount: int | None = None, reason: str = "fraudulent") -> str:
        """The payer's bank takes a charge back; an intent's id stands for its charge. Returns the dispute's id."""
        with self._doing() as call:
            if charge_id.startswith("pi_"):
                charge_id = call.require("payment_intent", charge_id)["latest_charge"]
            charge = call.require("charge", charge_id)
            return str(refunds.open_dispute(call, charge, amount=amount, reason=reason)["id"])

    def close_dispute(self, dispute_id: str, *, won: bool) -> str:
        with self._doing() as call:
            refunds.close_dispute(call, call.require("dispute", dispute_id), won=won)
        return dispute_id

    def attach_method(self, customer: str, *, token: str = "pm_card_visa") -> str:
        """The customer left a card that behaves as Stripe's test token of that name. Returns its id."""
        with self._doing() as call:
            return str(methods.save(call, call.require("customer", customer), token=token)["id"])

    def advance_due(self) -> None:
        """What time alone brings: pages expire, invoices become overdue, and with `settle_after` what waits comes."""
        with self._doing() as call:
            checkout.expire_due(call)
            invoices.tell_overdue(call)
            if self._settle_after is not None:
                checkout.settle_due(call, after=self._settle_after)
                refunds.settle_due(call, after=self._settle_after)


class Ticker(threading.Thread):
    """Lets time pass once a second."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__(name="stripe-sandbox-clock", daemon=True)
        self._tick = tick
        self._stopping = threading.Event()

    def run(self) -> None:
        while not self._stopping.wait(1.0):
            self._tick()

    def stop(self) -> None:
        self._stopping.set()
        self.join(timeout=5)
