"""What every template may know: `portal`. (allauth puts a `site` of its own into its pages.)"""

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from marketplace.lib import visitor
from marketplace.lib.money import BILLING_CURRENCIES
from marketplace.lib.product import PRODUCT_NAME

# Each language by its own name, short enough for the header.
LANGUAGE_NAMES = (("zh-hans", "中文"), ("en", "English"))


def site(request: HttpRequest) -> dict[str, Any]:
    """Costs no query of its own: the organization is what the middleware put on the request."""
    organization = getattr(request, "organization", None)
    return {
        "portal": {
            "name": PRODUCT_NAME,
            "url": settings.SITE_URL,
            "organization": organization,
            "zone": organization.zone if organization else settings.TIME_ZONE,
            "currency": visitor.currency_of(request),
            "currencies": BILLING_CURRENCIES,
            "languages": LANGUAGE_NAMES,
            "icp_number": settings.ICP_NUMBER,
            "police_filing": settings.POLICE_FILING_NUMBER,
            "telecom_licence": settings.TELECOM_LICENCE,
            "support_phone": settings.SUPPORT_PHONE,
            "demo": settings.DEBUG,
        }
    }
