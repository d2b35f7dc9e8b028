"""What the product is called: in the header, in mails and at the desk."""

from django.utils.translation import gettext_lazy as _

PRODUCT_NAME = _("GPU Cloud")
