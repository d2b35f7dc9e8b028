"""Texts that Django's own Chinese lacks: named here so that our catalogue carries them."""

from django.utils.translation import gettext_noop as _
from django.utils.translation import ngettext_lazy

DJANGO = (
    # django.contrib.auth, django.contrib.admin
    ngettext_lazy(
        "This password is too short. It must contain at least %d character.",
        "This password is too short. It must contain at least %d characters.",
        0,
    ),
    _("After you’ve created a user, you’ll be able to edit more user options."),
    _("Add link"),
    _("Change or view list link"),
    _("Error:"),
    _("Forgotten your login credentials?"),
    _("In case you’ve forgotten, you are:"),
    _("Model name"),
    _("%(model)s instance with %(field)s %(value)r is not a valid choice."),
)
