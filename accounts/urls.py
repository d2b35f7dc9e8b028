"""Addresses of accounts below /console/."""

from django.urls import path

from accounts import views

app_name = "accounts"
urlpatterns = [
    path("keys/", views.KeysView.as_view(), name="keys"),
    path("keys/<uuid:key>/remove/", views.RemoveKeyView.as_view(), name="remove_key"),
    path("organization/", views.OrganizationView.as_view(), name="organization"),
    path("organization/<uuid:key>/switch/", views.SwitchOrganizationView.as_view(), name="switch"),
]
