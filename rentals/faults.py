"""Where tests let a worker die: `RENTALS_KILL_AT=creating.called` ends the process as a power cut would."""

import os
import signal

from django.conf import settings


def checkpoint(name: str) -> None:
    """Nothing, unless DEBUG is on and the environment names this very place."""
    if settings.DEBUG and os.environ.get("RENTALS_KILL_AT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
