"""People for journeys. `make` runs inside the stack's own environment, through `manage.py shell`."""

import json

PASSWORD = "gpu-demo-2026"


def address(name: str) -> str:
    return f"{name}@example.com"


def make(wanted: str) -> None:
    """`wanted`: JSON of names and credit_minor."""
    from tests import factories  # noqa: PLC0415 - the test process imports this module without Django

    facts = json.loads(wanted)
    for name in facts["names"]:
        owner = factories.user(address(name))
        organization = factories.organization(owner, name=name, credit_minor=facts["credit_minor"])
        factories.ssh_key(organization, name="journey")
