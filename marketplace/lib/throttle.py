"""How often something may be done from one place. Counts live in the cache: flushing it forgives, and loses no fact."""

from __future__ import annotations

import hashlib
from datetime import datetime

from django.core.cache import cache


def allows(what: str, who: str, *, most: int, seconds: int, at: datetime) -> bool:
    """Count this attempt and say whether it is within `most` in the current window of so many seconds."""
    window = int(at.timestamp()) // seconds
    place = hashlib.sha256(who.encode()).hexdigest()[:32]
    key = f"throttle:{what}:{place}:{window}"
    cache.add(key, 0, timeout=2 * seconds)
    return int(cache.incr(key)) <= most
