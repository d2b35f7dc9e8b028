"""How calls are made: one client a process, our own idempotency keys, the SDK's exceptions turned into ours."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import requests
import stripe
from django.conf import settings

from .errors import AuthFailed, CardDeclined, GatewayError, KeyReused, Refused, Unavailable, UnknownOutcome

NETWORK_RETRIES = 2
PAGE = 100
CLOCKS_DIFFER_BY = timedelta(hours=1)

stripe.enable_telemetry = False
_bundle = (
    os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
)
if _bundle and os.path.exists(_bundle):
    # The machine's own trust store, so that a company's proxy certificate works; else the SDK's bundle.
    stripe.ca_bundle_path = _bundle


_hurry: ContextVar[int | None] = ContextVar("stripe_hurry", default=None)


@contextmanager
def hurried(seconds: int) -> Iterator[None]:
    """Somebody waits in front of a page: inside, each call may take so many seconds and is not retried by itself."""
    token = _hurry.set(seconds)
    try:
        yield
    finally:
        _hurry.reset(token)


def services() -> Any:
    """The SDK's services. Typed as Any: the SDK's parameter types say `str` where our values are checked by Stripe."""
    key = settings.STRIPE_API_KEY
    if not key:
        raise AuthFailed("STRIPE_API_KEY is not set")
    seconds = _hurry.get()
    timeout = settings.STRIPE_TIMEOUT if seconds is None else min(seconds, settings.STRIPE_TIMEOUT)
    retries = NETWORK_RETRIES if seconds is None else 0
    return _client(key, settings.STRIPE_API_BASE.rstrip("/"), timeout, retries, os.getpid()).v1


@lru_cache(maxsize=4)
def _client(key: str, base: str, timeout: int, retries: int, process: int) -> stripe.StripeClient:
    """One client a process: a forked worker must not share its parent's connections."""
    session = requests.Session()
    # The sandbox on this machine is never behind the machine's proxy.
    session.trust_env = urlsplit(base).hostname not in {"127.0.0.1", "localhost", "::1"}
    return stripe.StripeClient(
        key,
        base_addresses={"api": base},
        max_network_retries=retries,
        http_client=stripe.RequestsClient(timeout=timeout, session=session),
    )


def idempotent(value: str) -> Any:
    return {"idempotency_key": value}


def since_filter(since: datetime | None) -> dict[str, Any]:
    """Stripe's filter for what was made since then, with room for clocks that differ."""
    return {"created": {"gte": int((since - CLOCKS_DIFFER_BY).timestamp())}} if since else {}


def step_key(invoice_uuid: UUID | str, version: int, step: str) -> str:
    return f"inv:{invoice_uuid}:v{version}:{step}"


def digest(params: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(params, sort_keys=True).encode()).hexdigest()[:32]


@contextmanager
def translated_errors(*, write: bool) -> Iterator[None]:
    """The SDK's exceptions as ours. The originals hold headers and bodies, so they are not chained."""
    try:
        yield
    except stripe.StripeError as error:
        raise _translated(error, write=write) from None


def _translated(error: stripe.StripeError, *, write: bool) -> GatewayError:
    detail, request_id = (error.user_message or type(error).__name__)[:500], error.request_id
    if isinstance(error, stripe.AuthenticationError | stripe.PermissionError):
        return AuthFailed(f"{type(error).__name__} ({error.http_status})", request_id=request_id)
    if isinstance(error, stripe.IdempotencyError):
        return KeyReused(detail, request_id=request_id)
    if isinstance(error, stripe.RateLimitError) or error.http_status in {409, 429}:
        return Unavailable(detail, request_id=request_id)
    if isinstance(error, stripe.InvalidRequestError | stripe.CardError):
        return _refused(error, detail)
    if not write:
        return Unavailable(detail, request_id=request_id)
    return UnknownOutcome(detail, request_id=request_id, stored=_is_stored(error))


def _refused(error: stripe.InvalidRequestError | stripe.CardError, detail: str) -> Refused:
    facts: Any = {
        "request_id": error.request_id,
        "reason": error.code or "",
        "param": error.param or "",
        "http_status": error.http_status or 400,
    }
    if isinstance(error, stripe.InvalidRequestError):
        return Refused(detail, **facts)
    body = error.json_body if isinstance(error.json_body, dict) else {}
    said = body.get("error") or {}
    intent = said.get("payment_intent") or {}
    return CardDeclined(
        detail,
        **facts,
        decline_code=said.get("decline_code") or "",
        payment_intent=intent.get("id", "") if isinstance(intent, dict) else str(intent),
    )


def _is_stored(error: stripe.StripeError) -> bool:
    """Whether Stripe says that repeating this key would repeat this 500."""
    return (error.headers or {}).get("stripe-should-retry") == "false"
