"""The bare views behind the product's own middleware."""

from benchmarks.settings import *  # noqa: F403

ROOT_URLCONF = "benchmarks.reference.urls"
