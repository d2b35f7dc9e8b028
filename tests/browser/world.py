"""Two customers for the pages: one with something on every page, one who has just signed up.

`make` runs inside the stack's own environment, through `manage.py shell`.
"""

import json
from datetime import timedelta
from decimal import Decimal

BUSY, NEW = "busy@example.com", "new@example.com"
PASSWORD = "gpu-demo-2026"
OFFER = "rtx-4090-24gb-1x-fuzhou"


def make() -> None:
    """Prints the address of the busy customer's quote as JSON."""
    from catalog.models import Offer  # noqa: PLC0415 - the test process imports this module without Django
    from marketplace.lib import clock  # noqa: PLC0415
    from orders import actions  # noqa: PLC0415
    from tests import factories  # noqa: PLC0415

    at = clock.now()
    busy = factories.organization(factories.user(BUSY), name="福州智算科技有限公司", at=at)
    factories.ssh_key(busy, name="工作站")
    factories.member(busy, "finance", email="cfo@example.com", at=at)
    factories.organization(factories.user(NEW), name="新客户", credit_minor=0, at=at)
    seller = factories.user("seller@example.com", is_staff=True)
    quote = actions.create_quote(
        organization=busy, actor=seller, valid_until=at + timedelta(days=14), at=at, note="价格含机房接入与现场支持。"
    )
    offer = Offer.objects.get(slug=OFFER)
    actions.add_quote_line(
        quote_id=quote.pk, offer=offer, image=_image(), quantity=2, term="month", periods=3,
        discount_percent=Decimal(15), at=at,
    )  # fmt: skip
    quote = actions.send_quote(quote_id=quote.pk, actor=seller, at=at)
    print(json.dumps({"quote": f"/quotes/{quote.token}/"}))  # noqa: T201


def _image():
    from catalog.models import Image  # noqa: PLC0415

    return Image.objects.filter(software_stack="CUDA").first()
