"""Secrets of one local installation: made once, kept in a file that only the owner may read."""

import json
import secrets
from pathlib import Path

from marketplace.local.postgres import write_private

_MAKERS = {
    "SECRET_KEY": lambda: secrets.token_urlsafe(50),
    "STRIPE_API_KEY": lambda: "sk_test_" + secrets.token_hex(16),
    "STRIPE_WEBHOOK_SECRET": lambda: "whsec_" + secrets.token_hex(16),
    "DEMO_ENGINE_TOKEN": lambda: secrets.token_urlsafe(32),
}


def load(file: Path) -> dict[str, str]:
    """By the names of the settings they are for; what is missing is made and kept."""
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        known = {}
    complete = {name: known.get(name) or make() for name, make in _MAKERS.items()}
    if complete != known:
        write_private(file, json.dumps(complete, indent=1))
    return complete
