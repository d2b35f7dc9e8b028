"""The product's own settings as in production, with static files collected into the run's folder."""

import os
from pathlib import Path

from marketplace.settings import *  # noqa: F403

STATIC_ROOT = Path(os.environ["BENCHMARK_FOLDER"]) / "static"
EXPORT_FOLDER = Path(os.environ["BENCHMARK_FOLDER"]) / "exports"
