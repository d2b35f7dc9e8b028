"""Addresses of the catalogue."""

from django.urls import path

from catalog.views import listing, offer

app_name = "catalog"
urlpatterns = [
    path("", listing.offer_list, name="list"),
    path("counts/", listing.offer_counts, name="counts"),
    path("<slug:slug>/", offer.offer_detail, name="offer"),
]
