"""`.env.example` is where a person looks for a setting, so it names every one that the code reads."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READERS = {"text", "secret", "boolean", "integer", "integers", "one_of", "words", "accounts", "seconds"}
FLOORS = ("accounts", "billing", "catalog", "marketplace", "orders", "rentals", "trust")


def names_read(source: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        first = node.args[0]
        if (
            function in READERS
            and isinstance(first, ast.Constant)
            and re.fullmatch(r"[A-Z][A-Z0-9_]+", str(first.value))
        ):
            found.add(first.value)
    return found


def documented() -> set[str]:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    return {line.partition("=")[0] for line in lines if line and not line.startswith("#")}


def test_every_setting_that_is_read_is_documented_and_no_other():
    read = set()
    for floor in FLOORS:
        for file in (ROOT / floor).rglob("*.py"):
            read |= names_read(file.read_text(encoding="utf-8"))
    assert read | {"POSTGRES_PASSWORD"} == documented()


def test_the_example_holds_no_secret():
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    for name in (
        "SECRET_KEY",
        "STRIPE_API_KEY",
        "STRIPE_WEBHOOK_SECRET",
        "EMAIL_HOST_PASSWORD",
        "POSTGRES_PASSWORD",
        "DEMO_ENGINE_TOKEN",
    ):
        assert f"\n{name}=\n" in text
