"""Addresses of rentals, below /console/."""

from django.urls import path

from rentals import views

app_name = "rentals"
urlpatterns = [
    path("rentals/", views.RentalList.as_view(), name="list"),
    path("rentals/<uuid:key>/", views.RentalDetail.as_view(), name="detail"),
    path("rentals/<uuid:key>/live/", views.RentalLive.as_view(), name="live"),
    path("rentals/<uuid:key>/stop/", views.Stop.as_view(), name="stop"),
    path("rentals/<uuid:key>/start/", views.Start.as_view(), name="start"),
    path("rentals/<uuid:key>/terminate/", views.Terminate.as_view(), name="terminate"),
]
