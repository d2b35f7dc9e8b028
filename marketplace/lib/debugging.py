"""What the error page of DEBUG may show of the settings."""

import re

from django.views.debug import SafeExceptionReporterFilter


class HidesAddresses(SafeExceptionReporterFilter):
    """Also hides addresses that carry a password: Redis, the broker, the cache."""

    hidden_settings = re.compile(
        f"{SafeExceptionReporterFilter.hidden_settings.pattern}|REDIS|BROKER|LOCATION", flags=re.IGNORECASE
    )
