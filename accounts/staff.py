"""The provider's own people: which group may see and do what in the admin. Data, applied by `accounts.actions`."""

# model permissions by group, as "app.codename"; the admin's buttons check the change permission of their model.
STAFF_GROUPS: dict[str, tuple[str, ...]] = {}
