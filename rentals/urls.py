"""Addresses of rentals, below /console/."""

from django.urls import path

from rentals.views.listing import RentalList
from rentals.views.machine import RentalDetail, RentalLive, Start, Stop, Terminate

app_name = "rentals"
urlpatterns = [
    path("rentals/", RentalList.as_view(), name="list"),
    path("rentals/<uuid:key>/", RentalDetail.as_view(), name="detail"),
    path("rentals/<uuid:key>/live/", RentalLive.as_view(), name="live"),
    path("rentals/<uuid:key>/stop/", Stop.as_view(), name="stop"),
    path("rentals/<uuid:key>/start/", Start.as_view(), name="start"),
    path("rentals/<uuid:key>/terminate/", Terminate.as_view(), name="terminate"),
]
