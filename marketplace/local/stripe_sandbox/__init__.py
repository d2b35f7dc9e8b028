"""A stateful stand-in for Stripe: the real SDK speaks to it over HTTP, no real money moves.

`python -m marketplace.local.stripe_sandbox` runs it; tests use `with SandboxServer() as sandbox:`.
"""

from .server import SandboxServer

__all__ = ["SandboxServer"]
