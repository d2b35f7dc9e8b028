"""Addresses of accounts below /console/."""

from django.urls import path

from accounts.views import budgets, keys, notices, organization

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
    path("budgets/", budgets.Budgets.as_view(), name="budgets"),
    path("budgets/new/", budgets.NewBudget.as_view(), name="new_budget"),
    path("budgets/<uuid:key>/", budgets.ChangeBudget.as_view(), name="budget"),
    path("budgets/<uuid:key>/delete/", budgets.DeleteBudget.as_view(), name="delete_budget"),
    path("projects/new/", budgets.NewProject.as_view(), name="new_project"),
    path("projects/<int:pk>/", budgets.RenameProject.as_view(), name="project"),
    path("organization/", organization.OrganizationView.as_view(), name="organization"),
    path("organization/<uuid:key>/switch/", organization.SwitchOrganizationView.as_view(), name="switch"),
]
