"""What tells whether anything that visitors see has changed: the number of committed changes and the next dated one.

Every write to a table that visitors see leaves a row here, in its own transaction and by a trigger of the database, so
that no writer can forget it and none waits for another (a counter in one row would be everybody's lock). A sweep folds
the rows into a total. Pages are kept by this version (`marketplace.lib.kept`): a changed catalogue is another key.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import pgtrigger
from django.db import models, transaction

from marketplace.lib import prepared


class Change(models.Model):
    """One statement that wrote to a table visitors see. Not yet in the total."""

    class Meta:
        # Only triggers write it.
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.pk)


class ChangeTotal(models.Model):
    """The one row: how many changes were folded in, and the last number among them."""

    changes = models.BigIntegerField()
    last = models.BigIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="change_total_one_row")]

    def __str__(self) -> str:
        return str(self.changes)


def leave_a_change() -> pgtrigger.Trigger:
    """For a model whose rows visitors see."""
    return pgtrigger.Trigger(
        name="leaves_a_change",
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        operation=pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
        func="INSERT INTO catalog_change DEFAULT VALUES; RETURN NULL;",
    )


class Version(NamedTuple):
    """Equal versions, read one after the other, mean that nothing visitors see changed in between.

    `last` is never used twice, so that even a database that was rolled back has another version. `until` is when the
    next dated price or reservation begins or ends: the catalogue changes then without a write.
    """

    changes: int
    last: int
    until: datetime | None


def version(*, at: datetime) -> Version:
    """To be read before what is kept by it: one statement."""
    return Version._make(prepared.fetch_all(_VERSION, {"at": at})[0])


@transaction.atomic
def fold_changes() -> int:
    """Fold the rows into the total, so that there are few to count. Returns how many. Safe in parallel."""
    ((folded,),) = prepared.fetch_all(_FOLD, {})
    return int(folded)


_VERSION = """
SELECT count(c.id) + coalesce(max(t.changes), 0), greatest(coalesce(max(c.id), 0), coalesce(max(t.last), 0)),
       least((SELECT min(valid_from) FROM catalog_price WHERE valid_from > %(at)s::timestamptz),
             (SELECT min(valid_to) FROM catalog_price WHERE valid_to > %(at)s::timestamptz),
             (SELECT min(bound) FROM catalog_reservation, unnest(ARRAY[lower(period), upper(period)]) bound
               WHERE upper(period) > %(at)s::timestamptz AND bound > %(at)s::timestamptz))
  FROM catalog_change c FULL JOIN catalog_changetotal t ON false"""

# The total's row is written only where rows were folded: a sweep with nothing to do changes nothing.
_FOLD = """
WITH folded AS (DELETE FROM catalog_change RETURNING id),
     summed AS (SELECT count(*) AS changes, max(id) AS last FROM folded),
     written AS (
       INSERT INTO catalog_changetotal (id, changes, last) SELECT 1, changes, last FROM summed WHERE changes > 0
       ON CONFLICT (id) DO UPDATE SET changes = catalog_changetotal.changes + excluded.changes,
                                      last = greatest(catalog_changetotal.last, excluded.last))
SELECT changes FROM summed"""
