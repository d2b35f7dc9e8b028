"""Addresses of accounts below /console/."""

from django.urls import path

from accounts.views import keys, notices, organization

app_name = "accounts"
urlpatterns = [
    path("keys/", keys.KeysView.as_view(), name="keys"),
    path("keys/<uuid:key>/default/", keys.DefaultKeyView.as_view(), name="default_key"),
    path("keys/<uuid:key>/remove/", keys.RemoveKeyView.as_view(), name="remove_key"),
    path("notifications/", notices.Notices.as_view(), name="notices"),
    path("notifications/read/", notices.ReadNotices.as_view(), name="read_notices"),
    path("notifications/preferences/", notices.Preferences.as_view(), name="notice_preferences"),
    path("notifications/<uuid:key>/", notices.OpenNotice.as_view(), name="notice"),
    path("notifications/<uuid:key>/read/", notices.ReadNotice.as_view(), name="read_notice"),
    path("organization/", organization.OrganizationView.as_view(), name="organization"),
    path("organization/<uuid:key>/switch/", organization.SwitchOrganizationView.as_view(), name="switch"),
]
