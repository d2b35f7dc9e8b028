"""One request as Stripe treats it: authentication, idempotency, faults, the contract."""

import base64
import hmac
import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from . import checkout_page, routes
from . import contract as contracts
from .calls import API_VERSION, Call, public
from .doings import Doings, Ticker
from .errors import Dropped, Refusal
from .faults import Faults, RequestFault
from .forms import unflatten
from .http import HttpServer
from .store import Store
from .webhooks import Sender

MAX_KEY = 255
KINDS = (
    "customer", "tax_rate", "invoiceitem", "invoice", "payment_intent", "charge", "invoice_payment", "checkout.session",
    "setup_intent", "payment_method", "payment_record", "refund", "credit_note", "dispute",
)  # fmt: skip


class SandboxServer(Doings):
    """A Stripe of one's own. Use as a context manager, or `start()` and `stop()`.

    With `validate=True` (the default where the wheel is installed) each request and answer is held against Stripe's
    OpenAPI document; a breach becomes an error answer and an entry of `violations`.
    """

    def __init__(
        self,
        *,
        api_key: str = "sk_test_sandbox",
        port: int = 0,
        host: str = "127.0.0.1",
        state: Path | None = None,
        webhook_url: str = "",
        webhook_secret: str = "whsec_sandbox",
        validate: bool | None = None,
        public_url: str = "",
        return_url: str = "",
        first_pause: float = 1.0,
        settle_after: float | None = None,
    ) -> None:
        if "_live_" in api_key:
            raise ValueError("a live Stripe key has no business in the sandbox")
        self.contract = contracts.load() if (contracts.available() if validate is None else validate) else None
        self.violations: list[str] = []
        self.faults = Faults()
        self.return_url = return_url
        self.requests: deque[tuple[str, str, str]] = deque(maxlen=10_000)
        self._api_key = api_key
        self._public_url = public_url
        self._store = Store(state, deliver=bool(webhook_url))
        self._in_flight: set[str] = set()
        self._in_flight_lock = threading.Lock()
        self._http = HttpServer((host, port), self)
        self._host = host
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="stripe-sandbox", daemon=True
        )
        self._settle_after = settle_after
        self._ticker = Ticker(self.advance_due) if settle_after is not None else None
        self._sender = (
            Sender(self._store, self.faults, url=webhook_url, secret=webhook_secret, first_pause=first_pause)
            if webhook_url
            else None
        )

    # --- life ------------------------------------------------------------------------------------------------------
    @property
    def url(self) -> str:
        return f"http://{self._host}:{self._http.server_address[1]}"

    @property
    def public_url(self) -> str:
        """Where a browser finds the hosted pages."""
        return self._public_url.rstrip("/") or self.url

    def start(self) -> "SandboxServer":
        self._thread.start()
        if self._sender:
            self._sender.start()
        if self._ticker:
            self._ticker.start()
        return self

    def stop(self) -> None:
        if self._ticker:
            self._ticker.stop()
        if self._sender:
            self._sender.stop()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._http.close_connections()
        self._store.close()

    def __enter__(self) -> "SandboxServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- what tests ask --------------------------------------------------------------------------------------------
    def advance_clock(self, seconds: int) -> int:
        """Move the sandbox's clock on, so that keys expire and `created` grows. Returns its time."""
        with self._store.transaction():
            self._store.set_number("clock_offset", self._store.number("clock_offset") + seconds)
            now = self._store.now()
        self.advance_due()
        return now

    def set_faults(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """As `Faults.configure`; releasing a hold sends what waited. Returns what is set now."""
        self.faults.configure(wanted)
        if self._sender:
            self._sender.nudge()
        return self.faults.describe()

    def flush_webhooks(self) -> int:
        """Send everything that waits, now, in this thread. Returns how many deliveries were accepted."""
        return self._sender.send_due(None) if self._sender else 0

    def state(self) -> dict[str, Any]:
        """Everything that is stored, invoices as Stripe would answer them."""
        with self._store.transaction():
            call = Call(self._store, self.public_url)
            objects = {kind: [public(each) for each in self._store.all(kind)] for kind in KINDS}
            objects["invoice"] = self._store.all("invoice")
            objects["invoice"] = [routes.invoices.rendered(call, invoice) for invoice in objects["invoice"]]
            return {
                "now": self._store.now(),
                "objects": objects,
                "events": self._store.all("event"),
                "deliveries": self._store.deliveries(),
                "faults": self.faults.describe(),
                "violations": list(self.violations),
            }

    def objects(self, kind: str) -> list[dict[str, Any]]:
        """The stored objects of one kind, oldest first."""
        found = self.state()
        return found["events"] if kind == "event" else found["objects"][kind]

    def take_violations(self) -> list[str]:
        """The breaches so far, forgotten by asking."""
        found, self.violations = self.violations, []
        return found

    # --- one API request -------------------------------------------------------------------------------------------
    def answer(
        self, method: str, target: str, headers: dict[str, str], body: str
    ) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Status, body and extra headers. Raises Dropped when a fault closes the connection."""
        parts = urlsplit(target)
        key = headers.get("idempotency-key", "") if method == "POST" else ""
        self.requests.append((method, parts.path, key))
        extra = {"Request-Id": Store.new_id("req", 14), "Stripe-Version": headers.get("stripe-version", API_VERSION)}
        if key:
            extra["Idempotency-Key"] = key
        fault = None
        try:
            self._authenticate(headers.get("authorization", ""))
            fault = self.faults.take(method, parts.path)
            _before(fault)
            with self._exclusive(key):
                encoded = parts.query if method in {"GET", "DELETE"} else body
                status, answer = self._once(method, parts.path, encoded, key, extra, fault)
        except Refusal as refusal:
            status, answer = refusal.status, refusal.body
            _advise(extra, status)
        if fault_is(fault, "drop_after"):
            raise Dropped
        if self._sender:
            self._sender.nudge()
        return status, answer, extra

    def _authenticate(self, header: str) -> None:
        scheme, _, value = header.partition(" ")
        if scheme.lower() == "basic":
            value = base64.b64decode(value).decode("utf-8", "replace").split(":")[0]
        if not value:
            raise Refusal(
                "You did not provide an API key. You need to provide your API key in the Authorization header, using "
                "Bearer auth (e.g. 'Authorization: Bearer YOUR_SECRET_KEY').",
                status=401,
                stored=False,
            )
        if not hmac.compare_digest(value.encode(), self._api_key.encode()):
            shown = f"{value[:8]}{'*' * 8}{value[-4:]}" if len(value) > 20 else "****"
            raise Refusal(f"Invalid API Key provided: {shown}", status=401, stored=False)

    @contextmanager
    def _exclusive(self, key: str) -> Iterator[None]:
        """A key that is being worked on is refused to everybody else, and that refusal is not stored."""
        with self._in_flight_lock:
            if key and key in self._in_flight:
                raise _in_use(key)
            self._in_flight.add(key)
        try:
            yield
        finally:
            with self._in_flight_lock:
                self._in_flight.discard(key)

    def _once(
        self, method: str, path: str, encoded: str, key: str, extra: dict[str, str], fault: RequestFault | None
    ) -> tuple[int, dict[str, Any]]:
        """Run the request, or repeat the answer its key remembers."""
        if len(key) > MAX_KEY:
            raise Refusal(f"Idempotency keys can be at most {MAX_KEY} characters.", stored=False)
        if fault_is(fault, "delay"):
            time.sleep(fault.seconds if fault else 0)
        params = unflatten(encoded)
        fingerprint = json.dumps(params, sort_keys=True)
        with self._store.transaction():
            if key and (row := self._store.remembered(key)):
                _expect_same(row, f"{method} {path}", fingerprint)
                extra["Idempotent-Replayed"] = "true"
                _advise(extra, row["status"])
                return row["status"], json.loads(row["body"])
            status, answer = self._executed(method, path, params, key, extra["Request-Id"], fault)
            if key:
                self._store.remember(key, f"{method} {path}", fingerprint, status, answer)
            _advise(extra, status)
            return status, answer

    def _executed(
        self, method: str, path: str, params: dict[str, Any], key: str, request_id: str, fault: RequestFault | None
    ) -> tuple[int, dict[str, Any]]:
        """Within the transaction: what runs stays; a refusal that a key may not remember is raised and rolls back."""
        self._check_request(method, path, params)
        route, identifier = routes.find(method, path)
        call = Call(
            self._store, self.public_url, routes.accepted(route, params), identifier, request_id, key or None,
            faults=self.faults,
        )  # fmt: skip
        if fault_is(fault, "error"):
            return 500, _server_error()
        try:
            status, answer = 200, route.handler(call)
        except Refusal as refusal:
            if not refusal.kept and (not refusal.stored or call.events):
                raise
            status, answer = refusal.status, refusal.body
        answer = public(answer)
        self._check_answer(method, path, status, answer, call)
        return (500, _server_error()) if fault_is(fault, "error_after") else (status, answer)

    def _check_request(self, method: str, path: str, params: dict[str, Any]) -> None:
        if not self.contract:
            return
        try:
            self.contract.check_request(method, path, params)
        except contracts.Violation as violation:
            self.violations.append(f"request {method} {path}: {violation}")
            status = 400 if violation.param else 404
            raise Refusal(
                str(violation), status=status, code=violation.code, param=violation.param, stored=False
            ) from None

    def _check_answer(self, method: str, path: str, status: int, answer: dict[str, Any], call: Call) -> None:
        if not self.contract:
            return
        try:
            self.contract.check_answer(method, path, status, answer)
            for event in call.events:
                self.contract.check_object(event)
        except contracts.Violation as violation:
            self.violations.append(f"answer {method} {path}: {violation}")
            raise Refusal(
                f"The sandbox's answer breaks Stripe's schema: {violation}", status=500, type="api_error", stored=False
            ) from None

    # --- the hosted pages --------------------------------------------------------------------------------------------
    def hosted(self, token: str, action: str) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
        """The invoice behind a page's token, after `pay` or `fail` was pressed; None when there is no such page."""
        with self._store.transaction():
            call = Call(self._store, self.public_url)
            found = self._store.having("invoice", "sandbox_token", token)
            if not found or not found[0]["status_transitions"]["finalized_at"]:
                return None
            invoice = found[0]
            if action and invoice["status"] in {"open", "uncollectible"}:
                if action == "pay":
                    routes.payments.charge(call, invoice, routes.payments.ACCEPTED)
                    routes.invoices.settle(call, invoice)
                else:
                    routes.invoices.fail_payment(call, invoice)
                self._check_events(call)
            shown, lines = routes.invoices.rendered(call, invoice), routes.invoices.lines_of(call, invoice)
        if action and self._sender:
            self._sender.nudge()
        return shown, lines

    def checkout(self, token: str, action: str, kind: str) -> tuple[dict[str, Any], dict[str, str]] | None:
        """The session behind a page's token and what its page says, after a button was pressed; None without one."""
        with self._doing() as call:
            routes.checkout.expire_due(call)
            found = self._store.having("checkout.session", "sandbox_token", token)
            if not found:
                return None
            session = found[0]
            if action:
                kinds = session["payment_method_types"]
                outcome = checkout_page.ACTIONS[action]
                routes.checkout.complete(call, session, outcome, kind if kind in kinds else kinds[0])
            customer = self._store.get("customer", session["customer"]) or {}
            facts = {"for": session["sandbox_description"], "to": customer.get("name") or customer.get("email") or ""}
            return routes.checkout.rendered(call, session), facts

    def _check_events(self, call: Call) -> None:
        for event in call.events if self.contract else []:
            try:
                self.contract.check_object(event)  # type: ignore[union-attr]
            except contracts.Violation as violation:
                self.violations.append(f"event {event['type']}: {violation}")


def fault_is(fault: RequestFault | None, kind: str) -> bool:
    return fault is not None and fault.kind == kind


def _before(fault: RequestFault | None) -> None:
    """Faults that strike before anything runs."""
    if fault_is(fault, "drop_before"):
        raise Dropped
    if fault_is(fault, "conflict"):
        raise _in_use("sandbox fault")
    if fault_is(fault, "limit"):
        raise Refusal("Too many requests hit the API too quickly.", status=429, code="rate_limit", stored=False)


def _in_use(key: str) -> Refusal:
    return Refusal(
        f"There is currently another in-progress request using this Idempotent Key ({key}). Please try again later.",
        status=409,
        type="idempotency_error",
        code="idempotency_key_in_use",
        stored=False,
    )


def _expect_same(row: Any, endpoint: str, params: str) -> None:
    what = "endpoint" if row["endpoint"] != endpoint else "parameters" if row["params"] != params else ""
    if what:
        raise Refusal(
            f"Keys for idempotent requests can only be used for the same {what} they were first used "
            f"{'for' if what == 'endpoint' else 'with'}. Try using a key other than '{row['key']}' if you meant to "
            "execute a different request.",
            type="idempotency_error",
            stored=False,
        )


def _advise(extra: dict[str, str], status: int) -> None:
    """A stored 500 would only be replayed, so Stripe tells clients not to bother."""
    if status >= 500:
        extra["Stripe-Should-Retry"] = "false"


def _server_error() -> dict[str, Any]:
    return {"error": {"type": "api_error", "message": "An unknown error occurred (sandbox fault)"}}
