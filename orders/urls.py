"""Addresses of orders."""

app_name = "orders"
urlpatterns: list = []
