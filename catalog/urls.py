"""Addresses of the catalogue."""

from django.urls import path

from catalog.views import listing, offer

app_name = "catalog"
urlpatterns = [
    path("gpus/", listing.offer_list, name="list"),
    path("gpus/counts/", listing.offer_counts, name="counts"),
    path("gpus/<slug:slug>/", offer.offer_detail, name="offer"),
]
