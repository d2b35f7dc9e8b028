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
    """Prints the addresses of the busy customer's quote and quote request as JSON."""
    from catalog.models import Offer  # noqa: PLC0415 - the test process imports this module without Django
    from marketplace.lib import clock  # noqa: PLC0415
    from orders import actions  # noqa: PLC0415
    from orders.basket import Item  # noqa: PLC0415
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
    asked = actions.request_quote(
        organization=busy, actor=busy.members.first(), currency="CNY", need="gpu",
        note="明年一月上线，需要 InfiniBand。",
        items=[Item(OFFER, "year", 1, 4)], contact=actions.Contact("", busy.name, BUSY, "+8613800138000"),
        request_key="world", at=at,
    )  # fmt: skip
    paths = {"quote": quote.token, "quote request": asked.token}
    print(json.dumps({name: f"/quotes/{token}/" for name, token in paths.items()}))  # noqa: T201


def _image():
    from catalog.models import Image  # noqa: PLC0415

    return Image.objects.filter(software_stack="CUDA").first()
