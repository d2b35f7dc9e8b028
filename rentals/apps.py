from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class RentalsConfig(AppConfig):
    name = "rentals"
    verbose_name = _("Rentals")
