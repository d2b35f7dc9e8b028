"""The Celery application and its beat table: the whole pipeline on one screen."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "marketplace.settings")

app = Celery("marketplace")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# Every entry is a sweep: it finds the rows that are ready for its floor, so a lost message costs one beat and no fact.
app.conf.beat_schedule = {}
