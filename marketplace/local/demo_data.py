"""Who can log in on a fresh local installation: one place for the seeding command, the run command and the tests."""

from typing import Final, NamedTuple

DEMO_PASSWORD: Final = "gpu-demo-2026"


class Login(NamedTuple):
    role: str
    email: str
    is_staff: bool


DEMO_LOGINS: Final = (
    Login("customer", "demo@example.com", False),
    Login("operations", "ops@example.com", True),
    Login("sales", "sales@example.com", True),
    Login("finance", "finance@example.com", True),
)
