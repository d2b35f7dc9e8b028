"""The credit line kept fresh: what an organization has used and not paid, written down where orders look."""

import logging
from datetime import datetime

from django.db import transaction

from accounts import actions as accounts_actions
from accounts.models import CreditLine
from billing.actions.accounts import lock_account
from billing.actions.telling import tell_of_low_credit
from billing.queries import held_minor, owed_minor, settled_minor, unbilled_minor

logger = logging.getLogger(__name__)


@transaction.atomic
def refresh_credit(*, organization_id: int, at: datetime) -> int:
    """Write what is available to the credit line (limit + balance and gifted credit − unpaid usage invoices −
    everything unbilled up to `at` that was not taken from the balance) and warn where that runs low. Returns the
    amount spent in minor units, negative where more is held than used.

    The line's row lock comes first, so that figures read later are never overwritten by older ones; the account's
    holds still what is taken from the balance meanwhile.
    """
    line = (
        CreditLine.objects.select_for_update(no_key=True, of=("self",))
        .select_related("organization")
        .get(organization_id=organization_id)
    )
    account = lock_account(organization_id=organization_id)
    owed, unbilled = owed_minor(organization=line.organization), unbilled_minor(organization=line.organization, at=at)
    spent = max(owed + unbilled - settled_minor(account), 0) - held_minor(account)
    accounts_actions.set_available(organization_id=organization_id, spent_minor=spent, at=at)
    tell_of_low_credit(line=line, available_minor=line.limit_minor - spent, at=at)
    return spent


def refresh_all(*, at: datetime) -> int:
    """Refresh every credit line, each in a transaction of its own; returns how many were refreshed."""
    done = 0
    for organization_id in CreditLine.objects.order_by("pk").values_list("organization_id", flat=True):
        try:
            refresh_credit(organization_id=organization_id, at=at)
        except Exception:
            logger.exception("credit line of organization %s could not be refreshed", organization_id)
            continue
        done += 1
    return done
