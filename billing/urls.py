"""Addresses of billing."""

app_name = "billing"
urlpatterns: list = []
