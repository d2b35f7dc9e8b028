"""The beat table: every sweep it names exists, and every sweep that exists is in it."""

from marketplace.celery import SWEEPS, app

# Tasks that a sweep or a view sends for one row; they need no beat of their own.
ONE_ROW = {"rentals.step", "billing.push", "billing.write_export"}


def test_the_beat_table_names_every_sweep_and_only_those():
    app.loader.import_default_modules()
    ours = {name for name in app.tasks if not name.startswith("celery.")}

    assert ours - ONE_ROW == set(SWEEPS)


def test_a_late_beat_expires():
    assert all(entry["options"]["expires"] >= 10 for entry in app.conf.beat_schedule.values())
