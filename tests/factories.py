"""Small builders for tests: the least rows a story needs, through the actions where one exists."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import asyncssh
from allauth.account.models import EmailAddress

from accounts import actions as accounts
from accounts.models import CreditLine, Membership, Organization, Project, SshKey, User
from billing import actions as billing
from billing.models import Invoice
from catalog.models import Gpu, GpuModel, Host, Image, Offer, Pool, Price, Region
from orders import actions as orders
from orders.models import Order
from rentals import actions as rentals
from rentals.models import Rental

NOON = datetime(2026, 11, 30, 4, 0, tzinfo=UTC)  # 12:00 in Shanghai
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDA1xyzsWf8y2E8+X0H0O3ZzN9pQeQ0bXy3b0Yb3mE0a"
PASSWORD = "gpu-demo-2026"

_serial = itertools.count(1)


def user(email: str = "", *, verified: bool = True, **fields: Any) -> User:
    """A person who can log in with PASSWORD."""
    person = User.objects.create_user(email or f"user{next(_serial)}@example.com", PASSWORD, **fields)
    EmailAddress.objects.create(user=person, email=person.email, verified=verified, primary=True)
    return person


def organization(
    owner: User | None = None,
    *,
    name: str = "福州智算科技",
    currency: str = "CNY",
    credit_minor: int = 10_000_000,
    at: datetime = NOON,
) -> Organization:
    """An organization with owner, default project and a credit line of `credit_minor` minor units."""
    made = accounts.open_organization(owner=owner or user(), name=name, currency=currency, at=at)
    CreditLine.objects.filter(organization=made).update(limit_minor=credit_minor, available_minor=credit_minor)
    return made


def member(of: Organization, role: str = "engineer", *, at: datetime = NOON, **fields: Any) -> User:
    """Another person of the organization."""
    person = user(**fields)
    Membership.objects.create(user=person, organization=of, role=role, joined_at=at)
    return person


def ssh_key(of: Organization, *, text: str = "", name: str = "") -> SshKey:
    """A fresh ed25519 key of the organization, or the given one."""
    return accounts.add_ssh_key(
        organization=of,
        name=name or f"key{next(_serial)}",
        text=text or new_public_key(),
        actor=of.memberships.order_by("pk").first().user,
        at=NOON,
    )


def new_public_key() -> str:
    return asyncssh.generate_private_key("ssh-ed25519").export_public_key().decode().strip()


def region(code: str = "cn-fuzhou") -> Region:
    made, _ = Region.objects.get_or_create(
        code=code,
        defaults={"name_zh": "福州", "name_en": "Fuzhou", "timezone": "Asia/Shanghai"},
    )
    return made


def gpu_model(slug: str = "rtx-4090-24gb", **fields: Any) -> GpuModel:
    defaults = {
        "name": "NVIDIA GeForce RTX 4090 24GB", "vendor": "NVIDIA", "family": "RTX 4090", "memory_gb": 24,
        "software_stack": "CUDA", "rental_class": "consumer",
    }  # fmt: skip
    made, _ = GpuModel.objects.get_or_create(slug=slug, defaults=defaults | fields)
    return made


def image(stack: str = "CUDA") -> Image:
    made, _ = Image.objects.get_or_create(
        slug=f"{stack.lower()}-base",
        defaults={
            "name": f"Ubuntu 22.04 · {stack}", "software_stack": stack, "stack_version": "12.4",
            "operating_system": "Ubuntu 22.04", "digest": "demo:0",
        },
    )  # fmt: skip
    return made


def pool(*, hosts: int = 1, cards: int = 8, model: GpuModel | None = None, code: str = "") -> Pool:
    """A demo pool with `hosts` hosts of `cards` free cards each."""
    code = code or f"pool{next(_serial)}"
    made = Pool.objects.create(
        code=code, region=region(), gpu_model=model or gpu_model(), driver="demo",
        endpoint="env:DEMO_ENGINE_URL", credential_ref="env:DEMO_ENGINE_TOKEN", resource_name="nvidia.com/gpu",
    )  # fmt: skip
    for number in range(1, hosts + 1):
        host = Host.objects.create(pool=made, name=f"{code}-h{number}", cards_total=cards, cards_free=cards)
        Gpu.objects.bulk_create(Gpu(host=host, slot=slot, serial=f"{code}-h{number}-{slot}") for slot in range(cards))
    return made


def offer(
    of: Pool | None = None, *, cards: int = 1, hour: str = "2.50", month: str = "1280", year: str = "13000",
    disk: str = "0.0005", currency: str = "CNY", hosts: int = 1, **fields: Any,
) -> Offer:  # fmt: skip
    """An offer of `cards` cards per unit with prices that began a year before NOON."""
    of = of or pool(hosts=hosts)
    made = Offer.objects.create(
        slug=f"{of.code}-{cards}x", kind="server" if cards == 8 else "gpu", region=of.region, gpu_model=of.gpu_model,
        pool=of, cards_per_unit=cards, disk_gb=100, vcpus=16 * cards, memory_gb=64 * cards, **fields,
    )  # fmt: skip
    price(made, currency=currency, card_hour=hour, month=month, year=year, disk_gb_hour=disk)
    return made


def price(of: Offer, *, currency: str = "CNY", since: datetime = NOON - timedelta(days=365), **rates: str) -> None:
    """Price rows by meter, valid from `since` on."""
    Price.objects.bulk_create(
        Price(offer=of, meter=meter, currency=currency, rate=Decimal(rate), valid_from=since)
        for meter, rate in rates.items()
    )


def order(
    of: Organization, what: Offer, *, term: str = "hour", quantity: int = 1, periods: int = 1,
    keys: list[SshKey] | None = None, project: Project | None = None, at: datetime = NOON,
) -> Order:  # fmt: skip
    """An order by the organization's first member at today's price."""
    meter = {"hour": "card_hour", "month": "month", "year": "year"}[term]
    rate = what.prices.get(meter=meter, currency=of.currency, valid_from__lte=at, valid_to=None).rate
    return orders.place_order(
        organization=of,
        project=project or of.projects.get(is_default=True),
        actor=of.memberships.order_by("pk").first().user,
        request_key=f"test-{next(_serial)}",
        offer=Offer.objects.select_related("gpu_model", "pool", "region").get(pk=what.pk),
        quantity=quantity,
        term=term,
        periods=periods,
        image=image(),
        ssh_keys=keys or [ssh_key(of)],
        seen_rate=rate,
        at=at,
    )


def rental(of: Order, *, at: datetime = NOON) -> Rental:
    """The first rental of a confirmed order, still reserved."""
    rentals.open_rentals(at=at)
    return Rental.objects.filter(order_line__order=of).order_by("pk").first()


def invoice(of: Order, *, at: datetime = NOON) -> Invoice:
    """The issued invoice of an order that awaits payment."""
    return billing.draft_order_invoice(order=of, at=at)
