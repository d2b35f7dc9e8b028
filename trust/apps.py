from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TrustConfig(AppConfig):
    name = "trust"
    verbose_name = _("Trust")
