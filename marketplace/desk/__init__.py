"""The provider's own desk in the Django admin: what all of its pages share. Each app's `admin.py` builds on `base`."""
