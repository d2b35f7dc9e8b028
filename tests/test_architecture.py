"""The house: floors import downwards only, edges are imported by nobody, and the outside world has one door each."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = ("marketplace.lib", "accounts", "catalog", "trust", "orders", "rentals", "billing", "marketplace")
EDGES = {"admin", "api", "context", "desk", "forms", "management", "middleware", "urls", "views", "wsgi"}
# Inside an app: models ← queries ← actions ← tasks; a module may know those before it.
LAYERS = ("models", "queries", "actions", "tasks")
# A library that only one module may know, so that it can be replaced in one place.
DOORS = {"stripe": "billing.stripe_gateway"}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the product by dotted name; tests and benchmarks are outside the house."""
    for top in ("accounts", "billing", "catalog", "marketplace", "orders", "rentals", "trust"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if "migrations" not in path.parts:
                parts = path.relative_to(ROOT).with_suffix("").parts
                yield ".".join(parts).removesuffix(".__init__"), path


def imports(path: Path, name: str) -> Iterator[str]:
    """Dotted names that a module imports anywhere, inside functions too."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def floor(name: str) -> int | None:
    """Which floor a dotted name of ours stands on; None for other people's modules."""
    if name == "marketplace.lib" or name.startswith("marketplace.lib."):
        return 0
    top = name.split(".", maxsplit=1)[0]
    return FLOORS.index(top) if top in FLOORS else None


def is_edge(name: str) -> bool:
    parts = name.split(".")
    return len(parts) > 1 and parts[0] in FLOORS and bool(EDGES & set(parts[1:]))


def is_local(name: str) -> bool:
    return name == "marketplace.local" or name.startswith("marketplace.local.")


ALL = list(modules())


def test_there_is_a_house_to_check():
    assert {"accounts.models", "catalog.inventory", "orders.actions", "rentals.reconcile"} <= {name for name, _ in ALL}


@pytest.mark.parametrize(("name", "path"), ALL, ids=[name for name, _ in ALL])
def test_imports_go_down(name, path):
    here = floor(name)
    upward = [
        target
        for target in imports(path, name)
        if (there := floor(target)) is not None and not is_edge(name) and not is_local(name) and there > here
    ]
    assert upward == []


def layer(name: str) -> int | None:
    """Which layer of its app a module belongs to; None for modules that have no place among them."""
    second = name.partition(".")[2].partition(".")[0]
    return LAYERS.index(second) if second in LAYERS else None


@pytest.mark.parametrize(("name", "path"), ALL, ids=[name for name, _ in ALL])
def test_inside_an_app_facts_come_before_questions_and_questions_before_verbs(name, path):
    here, app = layer(name), name.split(".")[0]
    above = [
        target
        for target in imports(path, name)
        if here is not None and target.split(".")[0] == app and (layer(target) or 0) > here
    ]
    assert above == []


@pytest.mark.parametrize(("name", "path"), ALL, ids=[name for name, _ in ALL])
def test_nothing_imports_an_edge(name, path):
    """But an edge those of its own app (views use forms, urls use views) and the admin's common kit."""
    friends = (name.split(".")[0] + ".", "marketplace.desk.")
    broken = [
        target
        for target in imports(path, name)
        if is_edge(target) and not is_local(name) and not (is_edge(name) and f"{target}.".startswith(friends))
    ]
    assert broken == []


@pytest.mark.parametrize(("name", "path"), ALL, ids=[name for name, _ in ALL])
def test_local_stand_ins_are_imported_by_no_floor(name, path):
    if is_local(name) or "management" in name.split("."):
        return
    assert [t for t in imports(path, name) if is_local(t)] == []


@pytest.mark.parametrize(("library", "door"), DOORS.items())
def test_each_outside_library_has_one_door(library, door):
    users = [
        name
        for name, path in ALL
        if not is_local(name) and any(t.split(".")[0] == library for t in imports(path, name))
    ]
    assert users
    assert [user for user in users if user != door and not user.startswith(f"{door}.")] == []


# The only functions that write a status: one for each model, and one more for many invoices or offers at a time.
MOVERS = {
    "billing.actions.arrears._move",
    "billing.actions.disputes.move_dispute",
    "billing.actions.exporting._move",
    "billing.actions.fapiao.move_fapiao",
    "billing.actions.moving.move_invoice",
    "billing.actions.moving.move_invoices",
    "billing.actions.refunds.move_refund",
    "billing.actions.topups.move_top_up",
    "billing.actions.transfers.move_slip",
    "billing.actions.transfers.move_transfer",
    "orders.actions.moving.move_order",
    "orders.actions.quotes.move_quote",
    "rentals.actions.moving.move_rental",
    "trust.actions._move",
}


def writes_status(node: ast.AST) -> bool:
    """An assignment to `.status`, alone or among others, or a queryset's update of it."""
    if isinstance(node, ast.Assign):
        targets = [part for target in node.targets for part in getattr(target, "elts", [target])]
        return any(isinstance(target, ast.Attribute) and target.attr == "status" for target in targets)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "update"
        and any(keyword.arg == "status" for keyword in node.keywords)
    )


def test_status_is_written_in_one_place_per_model():
    """No code but the movers assigns `.status` of a row, or updates it by queryset."""
    writers = {
        f"{name}.{function.name}"
        for name, path in ALL
        if not is_edge(name) and not is_local(name)
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and any(writes_status(node) for node in ast.walk(function))
    }
    assert writers == MOVERS
