"""What search engines may list: the public pages, in every language."""

from django.contrib.sitemaps import Sitemap
from django.urls import reverse

from catalog.models import Offer

PUBLIC_PAGES = (
    "home",
    "catalog:list",
    "catalog:guide",
    "catalog:rent_or_buy",
    "orders:calculator",
    "orders:request_quote",
    "trust:status",
    "trust:about",
    "trust:sla",
    "trust:security",
)


class _InEachLanguage(Sitemap):
    i18n = alternates = x_default = True


class Pages(_InEachLanguage):
    def items(self) -> list[str]:
        return list(PUBLIC_PAGES)

    def location(self, item: str) -> str:
        return reverse(item)


class Offers(_InEachLanguage):
    changefreq = "hourly"

    def items(self) -> list[str]:
        on_sale = Offer.objects.on_sale().filter(gpu_model__isnull=False)
        return list(on_sale.order_by("slug").values_list("slug", flat=True))

    def location(self, item: str) -> str:
        return reverse("catalog:offer", args=[item])


SITEMAPS = {"pages": Pages, "offers": Offers}
