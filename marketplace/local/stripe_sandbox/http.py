"""The wire: reads requests, sends answers, serves the hosted page and the control addresses."""

from __future__ import annotations

import ipaddress
import json
import socket
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from . import checkout_page, pages
from .errors import Dropped, Refusal
from .faults import BadFault

if TYPE_CHECKING:
    from .server import SandboxServer

MAX_BODY = 1 << 20


class HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """End kept-alive connections, so that stopping leaves no thread and no socket behind."""
        with self._guard:
            open_now = list(self._connections)
        for connection in open_now:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "StripeSandbox"
    disable_nagle_algorithm = True
    server: HttpServer

    def do_GET(self) -> None:
        self._dispatch("GET")

    def do_POST(self) -> None:
        self._dispatch("POST")

    def do_DELETE(self) -> None:
        self._dispatch("DELETE")

    def _dispatch(self, method: str) -> None:
        body = self._body()
        if body is None:
            return
        path = urlsplit(self.path).path
        if path.startswith("/v1/"):
            self._api(method, body)
        elif path.startswith("/_sandbox/"):
            self._control(method, path, body)
        elif path.startswith("/i/") and method in {"GET", "POST"}:
            self._page(method, path)
        elif path.startswith("/c/") and method in {"GET", "POST"}:
            self._checkout(method, path, body)
        elif path in {"/", "/healthz"}:
            self._json(200, {"sandbox": "stripe", "checked": self.server.sandbox.contract is not None})
        else:
            self._json(404, {"error": {"type": "invalid_request_error", "message": f"Unrecognized URL ({path})."}})

    def _body(self) -> str | None:
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = MAX_BODY + 1
        if not 0 <= length <= MAX_BODY:
            self.close_connection = True
            self._json(413, {"error": {"type": "invalid_request_error", "message": "The body is too large."}})
            return None
        return self.rfile.read(length).decode("utf-8", "replace")

    def _api(self, method: str, body: str) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            status, answer, extra = self.server.sandbox.answer(method, self.path, headers, body)
        except Dropped:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        except Exception as error:  # a fault of the sandbox itself must neither hide nor look like a lost connection
            traceback.print_exc()
            self.server.sandbox.violations.append(f"crash {method} {self.path}: {error!r}")
            status, extra = 500, {"Stripe-Should-Retry": "false"}
            answer = {"error": {"type": "api_error", "message": f"The sandbox failed: {type(error).__name__}"}}
        self._json(status, answer, extra)

    def _control(self, method: str, path: str, body: str) -> None:
        """Faults and clock, for this machine only; JSON only, so that no web page can post here unasked."""
        sandbox = self.server.sandbox
        local = ipaddress.ip_address(self.client_address[0]).is_loopback
        if not local or (
            method == "POST" and not (self.headers.get("Content-Type") or "").startswith("application/json")
        ):
            self._json(403, {"error": "loopback and JSON only"})
            return
        try:
            wanted = json.loads(body or "{}")
            if (method, path) == ("GET", "/_sandbox/state"):
                self._json(200, sandbox.state())
            elif (method, path) == ("POST", "/_sandbox/faults"):
                self._json(200, sandbox.set_faults(wanted))
            elif (method, path) == ("POST", "/_sandbox/clock"):
                self._json(200, {"now": sandbox.advance_clock(int(wanted["advance"]))})
            elif (method, path) == ("POST", "/_sandbox/act"):
                self._json(200, {"id": sandbox.act(**wanted)})
            elif (method, path) == ("POST", "/_sandbox/webhooks/flush"):
                self._json(200, {"accepted": sandbox.flush_webhooks()})
            else:
                self._json(404, {"error": f"no {method} {path}"})
        except (BadFault, Refusal, ValueError, KeyError, TypeError, AttributeError) as error:
            self._json(400, {"error": str(error)})

    def _page(self, method: str, path: str) -> None:
        _, _, token, *rest = path.split("/")
        action = rest[0] if rest else ""
        locale = pages.locale_of(urlsplit(self.path).query, self.headers.get("Accept-Language", ""))
        if (method == "POST") != (action in {"pay", "fail"}) or len(rest) > 1:
            self._html(404, pages.not_found(locale))
            return
        found = self.server.sandbox.hosted(token, action)
        if found is None:
            self._html(404, pages.not_found(locale))
        elif method == "POST":
            outcome = "&failed=1" if action == "fail" and found[0]["status"] != "paid" else ""
            self._redirect(f"/i/{token}?locale={locale}{outcome}")
        else:
            failed = "failed=1" in urlsplit(self.path).query
            self._html(200, pages.invoice(*found, locale=locale, failed=failed, token=token,
                                          return_url=self.server.sandbox.return_url))  # fmt: skip

    def _checkout(self, method: str, path: str, body: str) -> None:
        """The page of a session; a button leads on to the shop, or back here when the payment failed."""
        _, _, token, *rest = path.split("/")
        action = rest[0] if rest else ""
        query = urlsplit(self.path).query
        locale = pages.locale_of(query, self.headers.get("Accept-Language", ""))
        known = action in checkout_page.ACTIONS if method == "POST" else not rest
        kind = parse_qs(body).get("method", [""])[0]
        found = self.server.sandbox.checkout(token, action, kind) if known and len(rest) <= 1 else None
        if found is None:
            self._html(404, pages.not_found(locale))
            return
        shown, facts = found
        if method == "POST":
            onwards = checkout_page.return_to(shown) if shown["status"] == "complete" else ""
            self._redirect(onwards or f"/c/{token}?locale={locale}{'&failed=1' if action == 'fail' else ''}")
            return
        text = checkout_page.session(shown, facts, locale=locale, failed="failed=1" in query, token=token)
        self._html(200, text, leads_to=checkout_page.return_to(shown))

    def _json(self, status: int, body: dict[str, Any], extra: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(body, indent=2).encode(), "application/json", extra or {})

    def _html(self, status: int, text: str, *, leads_to: str = "") -> None:
        # Browsers hold the redirect after a form to form-action too.
        shop = urlsplit(leads_to)
        origin = f" {shop.scheme}://{shop.netloc}" if shop.netloc else ""
        policy = (
            f"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'{origin}; frame-ancestors 'none';"
            " base-uri 'none'"
        )
        self._send(
            status,
            text.encode(),
            "text/html; charset=utf-8",
            {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"},
        )

    def _redirect(self, target: str) -> None:
        self._send(303, b"", "text/plain", {"Location": target})

    def _send(self, status: int, body: bytes, kind: str, extra: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **extra}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        return
