"""The provider's own people: which group may see and do what in the admin. Data, applied by `accounts.actions`.

`view` shows rows; `change` also presses the buttons of the model's desk; `add` makes new rows where a desk allows it.
Nobody deletes. Users and groups themselves are a superuser's.
"""


def _may(verb: str, *models: str) -> tuple[str, ...]:
    return tuple(f"{app}.{verb}_{name}" for app, name in (model.split(".") for model in models))


CATALOGUE = (
    "catalog.region", "catalog.gpumodel", "catalog.source", "catalog.image", "catalog.offer", "catalog.price",
    "catalog.pool", "catalog.host", "catalog.gpu", "catalog.allocation", "catalog.reservation",
    "catalog.question", "catalog.waitlist", "catalog.deliveryrecord",
)  # fmt: skip
CUSTOMERS = ("accounts.organization", "accounts.sshkey", "accounts.notification")
SALES = ("orders.quote", "orders.order")
AGREEMENTS = (
    "catalog.contractprice", "orders.volumetier", "orders.commitment", "orders.pack", "orders.service",
    "orders.termrefund",
)  # fmt: skip
MACHINES = ("rentals.rental", "rentals.usagewindow", "rentals.orphan")
MONEY = ("billing.invoice", "billing.payment", "billing.billingaccount", "billing.arrears", "billing.exportjob")
BALANCES = (
    "billing.topup", "billing.banktransfer", "billing.transferslip", "billing.receivingaccount", "billing.gift",
    "billing.voucher",
)  # fmt: skip
BOOKS = ("billing.stripeevent", "billing.numberseries", "billing.posting", "billing.closedmonth")
RETURNS = (
    "billing.creditnote", "billing.refund", "billing.dispute", "billing.reconciliation",
    "billing.reconciliationdifference",
)  # fmt: skip
TAX = ("billing.fapiao", "billing.taxprofile")
PAGES = ("trust.page", "trust.block")
REGIONS = ("trust.incident", "trust.maintenance", "trust.watch")
SYSTEM = ("accounts.user", "auth.group", "admin.logentry")

# model permissions by group, as "app.codename"; the admin's buttons check the change permission of their model.
STAFF_GROUPS: dict[str, tuple[str, ...]] = {
    "operations": (
        *_may("view", *CATALOGUE, *CUSTOMERS, *MACHINES, *REGIONS, *PAGES, "orders.order"),
        *_may(
            "change",
            "catalog.region", "catalog.image", "catalog.offer", "catalog.pool", "catalog.host", "catalog.gpu",
            "catalog.reservation", "rentals.rental", "orders.order", *REGIONS,
        ),
        *_may("add", "catalog.reservation", *REGIONS),
    ),
    "sales": (
        *_may("view", *CATALOGUE, *CUSTOMERS, *SALES, *AGREEMENTS, *MONEY, *REGIONS, *PAGES, "rentals.rental"),
        *_may(
            "change",
            "orders.quote", "orders.order", "catalog.offer", "catalog.price", "catalog.contractprice",
            "orders.volumetier", "orders.commitment", "orders.pack", "orders.service", "catalog.reservation",
            "catalog.question", *PAGES,
        ),
        *_may("add", "catalog.contractprice", "orders.volumetier", "orders.commitment"),
        *_may("add", "orders.pack", "orders.service"),
        *_may("add", "orders.quote", "catalog.price", "catalog.reservation", "catalog.question", "trust.block"),
    ),
    "finance": (
        *_may("view", *CUSTOMERS, *SALES, *AGREEMENTS, *MONEY, *BOOKS, *RETURNS, *MACHINES),
        *_may("view", "catalog.offer", "catalog.price"),
        *_may("change", "billing.creditnote", "billing.refund", "billing.dispute", "billing.reconciliationdifference"),
        *_may("view", *BALANCES, *TAX),
        *_may("change", *BALANCES, *TAX, "billing.billingaccount"),
        *_may("add", "billing.voucher", "billing.receivingaccount"),
        *_may("change", "billing.invoice", "billing.arrears", "billing.stripeevent", "accounts.creditline"),
    ),
    "auditor": _may(
        "view", *CATALOGUE, *CUSTOMERS, *SALES, *AGREEMENTS, *MACHINES, *MONEY, *BALANCES, *BOOKS,
        *RETURNS, *TAX, *REGIONS, *PAGES, *SYSTEM,
    ),
}  # fmt: skip
