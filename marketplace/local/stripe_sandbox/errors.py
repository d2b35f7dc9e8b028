"""Refusals in the shape Stripe gives them (https://docs.stripe.com/api/errors)."""

from typing import Any


class Refusal(Exception):
    """An answer other than 200. `stored` says whether an idempotency key would remember it, `kept` whether what was
    done before it stays."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        stored: bool = True,
        kept: bool = False,
        **extra: Any,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.stored = stored
        self.kept = kept
        self.body = {"error": {"message": message, "type": type, **extra}}
        if code:
            self.body["error"]["code"] = code
        if param:
            self.body["error"]["param"] = param


def invalid(message: str, *, code: str | None = None, param: str | None = None) -> Refusal:
    """The parameters are wrong; nothing ran, so no key remembers it."""
    return Refusal(message, code=code, param=param, stored=False)


def missing(kind: str, identifier: str, *, param: str = "id") -> Refusal:
    """A named object does not exist: 404 where it is the address itself, 400 where a parameter names it."""
    return Refusal(
        f"No such {kind}: '{identifier}'",
        status=404 if param == "id" else 400,
        code="resource_missing",
        param=param,
        stored=False,
    )


def wrong_state(message: str, *, code: str | None = None) -> Refusal:
    """The object is not in a state that allows this; the key remembers it, for the endpoint had begun."""
    return Refusal(message, code=code)


class Dropped(Exception):
    """The connection closes without an answer."""
