"""What stands in for the outside world on one machine: embedded servers, Stripe sandbox, demo machines.

None of it may run in production, so the package refuses to be imported unless `DEBUG` is on.
"""

from marketplace.lib import env

if not env.boolean("DEBUG", False):
    raise ImportError("marketplace.local is for development and tests only; set DEBUG=1 to use it")
