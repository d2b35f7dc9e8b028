"""What is sold and what it is made of: regions, GPU models, images, offers, dated prices, pools, hosts, cards."""

from catalog.changes import Change, ChangeTotal
from catalog.models.cards import GpuModel, Image, Source
from catalog.models.offers import Offer, OfferQuerySet, Price, PriceQuerySet
from catalog.models.places import Region
from catalog.models.stock import Allocation, Gpu, Host, Pool, Reservation

__all__ = [
    "Allocation", "Change", "ChangeTotal", "Gpu", "GpuModel", "Host", "Image", "Offer", "OfferQuerySet", "Pool",
    "Price", "PriceQuerySet", "Region", "Reservation", "Source",
]  # fmt: skip
