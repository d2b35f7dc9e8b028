"""Addresses of the catalogue."""

from django.urls import path

from catalog.views import compare, guide, listing, offer, rent_or_buy, waitlist

app_name = "catalog"
urlpatterns = [
    path("guide/", guide.guide_page, name="guide"),
    path("rent-or-buy/", rent_or_buy.rent_or_buy_page, name="rent_or_buy"),
    path("gpus/", listing.offer_list, name="list"),
    path("gpus/counts/", listing.offer_counts, name="counts"),
    path("gpus/compare/", compare.compare, name="compare"),
    path("gpus/waitlist/<uuid:key>/leave/", waitlist.LeaveWaitlistView.as_view(), name="waitlist_leave"),
    path("gpus/<slug:slug>/waitlist/", waitlist.JoinWaitlistView.as_view(), name="waitlist_join"),
    path("gpus/<slug:slug>/", offer.offer_detail, name="offer"),
]
