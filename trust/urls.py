"""Addresses of the pages of trust."""

from django.urls import path
from django.views.decorators.http import require_safe

from trust import views
from trust.feeds import StatusFeed

app_name = "trust"
urlpatterns = [
    path("status/", views.status, name="status"),
    path("status/feed/", require_safe(StatusFeed()), name="feed"),
    path("about/", views.about, name="about"),
    path("sla/", views.sla, name="sla"),
    path("security/", views.security, name="security"),
]
