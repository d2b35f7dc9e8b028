"""Texts that Django's own Chinese lacks or words badly: named here so that our catalogue, which wins, has them."""

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

REWORDED = (
    _("This field is required."),
    _("Enter a valid email address."),
    _("Enter a whole number."),
    _("Ensure this value is less than or equal to %(limit_value)s."),
    _("Ensure this value is greater than or equal to %(limit_value)s."),
    _("Select a valid choice. %(value)s is not one of the available choices."),
    _("Select a valid choice. That choice is not one of the available choices."),
    _("Your password can’t be too similar to your other personal information."),
    ngettext_lazy(
        "Your password must contain at least %(min_length)d character.",
        "Your password must contain at least %(min_length)d characters.",
        0,
    ),
    _("Your password can’t be a commonly used password."),
    _("Your password can’t be entirely numeric."),
    _("This password is too common."),
    _("This password is entirely numeric."),
    _("The password is too similar to the %(verbose_name)s."),
    _("The two password fields didn’t match."),
    _("Group"),
    _("group"),
    _("groups"),
    _("Groups"),
    _("staff status"),
    _("superuser status"),
    _(" By %(filter_title)s "),
)
