"""Addresses of the catalogue."""

from django.urls import path

from catalog import views

app_name = "catalog"
urlpatterns = [
    path("", views.offer_list, name="list"),
    path("counts/", views.offer_counts, name="counts"),
    path("<slug:slug>/", views.offer_detail, name="offer"),
]
