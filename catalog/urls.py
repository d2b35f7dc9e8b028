"""Addresses of catalog."""

app_name = "catalog"
urlpatterns: list = []
