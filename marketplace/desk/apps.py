"""The admin with our own site."""

from django.contrib.admin.apps import AdminConfig


class DeskConfig(AdminConfig):
    default_site = "marketplace.desk.site.DeskSite"
