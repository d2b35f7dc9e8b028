"""Ask a worker to look now. A nudge may be lost: the sweeps find the same rows a beat later."""

import logging
from typing import Any

from celery import Task
from django.db import transaction
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def nudge(task: Task, **arguments: Any) -> None:
    """Send the task once the running transaction has committed; a broker that is down costs a beat, not the request."""
    transaction.on_commit(lambda: _send(task, arguments))


def _send(task: Task, arguments: dict[str, Any]) -> None:
    try:
        task.apply_async(kwargs=arguments, retry=False)
    except OperationalError:
        logger.warning("broker unreachable; %s waits for its sweep", task.name)
