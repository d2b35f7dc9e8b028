"""What quotes, orders and subscriptions have in common."""

import pgtrigger
from django.db import models
from django.utils.translation import gettext_lazy as _


class Term(models.TextChoices):
    HOUR = "hour", _("By the hour")
    MONTH = "month", _("By the month")
    YEAR = "year", _("By the year")


def transition_trigger(moves: dict[str, set[str]]) -> pgtrigger.FSM:
    """The database's copy of a model's transition table: an UPDATE of `status` along no listed arrow is refused."""
    return pgtrigger.FSM(
        name="status_moves",
        field="status",
        transitions=[(start, end) for start, ends in moves.items() for end in sorted(ends)],
    )
