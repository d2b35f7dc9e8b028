"""Addresses of rentals."""

app_name = "rentals"
urlpatterns: list = []
