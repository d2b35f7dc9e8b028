"""What is sold and what it is made of: regions, GPU models, images, offers, dated prices, pools, hosts, cards."""

from catalog.changes import Change, ChangeTotal
from catalog.models.cards import GpuModel, Image, Source
from catalog.models.contracts import ContractPrice
from catalog.models.offers import Offer, OfferQuerySet, Price, PriceQuerySet
from catalog.models.places import Region
from catalog.models.service import DeliveryRecord, Question
from catalog.models.stock import Allocation, Gpu, Host, Pool, Reservation
from catalog.models.waiting import Waitlist

__all__ = [
    "Allocation", "Change", "ChangeTotal", "ContractPrice", "DeliveryRecord", "Gpu", "GpuModel", "Host", "Image",
    "Offer", "OfferQuerySet", "Pool", "Price", "PriceQuerySet", "Question", "Region", "Reservation", "Source",
    "Waitlist",
]  # fmt: skip
