"""A small GPU engine for one computer: a process and state file of its own, an HTTP API, one real SSH server a machine.

Nothing here imports Django or the product's apps; the driver reaches it over HTTP like any other engine. No machine has
a GPU and none runs a command of the computer it stands on: each says so at login and lists the cards it was *given*.
"""

from marketplace.local.demo_engine.process import DemoEngine

__all__ = ["DemoEngine"]
