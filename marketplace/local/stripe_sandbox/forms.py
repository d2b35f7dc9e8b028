"""Stripe's form encoding: `lines[0][metadata][key]=value`, read back into values by a schema."""

import re
from typing import Any
from urllib.parse import parse_qsl

from .errors import invalid

_NAME = re.compile(r"^([^\[\]]+)((?:\[[^\[\]]*\])*)$")
_KEY = re.compile(r"\[([^\[\]]*)\]")
_INTEGER = re.compile(r"^-?\d+$")
_NUMBER = re.compile(r"^-?\d+(\.\d+)?$")


def unflatten(encoded: str) -> dict[str, Any]:
    """Nested dictionaries and lists of strings. Raises a refusal for a name or bytes that cannot be read."""
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, strict_parsing=bool(encoded), errors="strict")
    except ValueError:
        raise invalid("Invalid request: the form body could not be parsed") from None
    tree: dict[str, Any] = {}
    for name, value in pairs:
        match = _NAME.match(name)
        if not match:
            raise invalid(f"Invalid parameter name: {name[:80]}", param=name[:80])
        _put(tree, [match.group(1), *_KEY.findall(match.group(2))], value, name)
    return {key: _lists(value) for key, value in tree.items()}


def _put(tree: dict[str, Any], path: list[str], value: str, name: str) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key or str(len(tree)), {})
        if not isinstance(tree, dict):
            raise invalid(f"Invalid parameter: {name[:80]}", param=name[:80])
    tree[path[-1] or str(len(tree))] = value


def _lists(node: Any) -> Any:
    """A dictionary whose keys are 0, 1, 2 … was a list."""
    if not isinstance(node, dict):
        return node
    if node and list(node) == [str(index) for index in range(len(node))]:
        return [_lists(value) for value in node.values()]
    return {key: _lists(value) for key, value in node.items()}


def coerce(value: Any, schema: dict[str, Any]) -> Any:
    """The value as its schema's type where its spelling allows; otherwise unchanged, for validation to refuse."""
    if "anyOf" in schema:
        return _first_fit(value, schema["anyOf"])
    kind = schema.get("type")
    if isinstance(value, str):
        return _scalar(value, kind)
    if kind == "object" and isinstance(value, list):
        value = {str(index): item for index, item in enumerate(value)}  # metadata whose keys are 0, 1, 2
    if kind == "object" and isinstance(value, dict):
        properties, rest = schema.get("properties", {}), schema.get("additionalProperties")
        other = rest if isinstance(rest, dict) else {}
        return {key: coerce(item, properties.get(key, other)) for key, item in value.items()}
    if kind == "array" and isinstance(value, list):
        return [coerce(item, schema.get("items", {})) for item in value]
    return value


def _scalar(value: str, kind: str | None) -> Any:
    if kind == "integer" and _INTEGER.match(value):
        return int(value)
    if kind == "number" and _NUMBER.match(value):
        return float(value)
    if kind == "boolean" and value in {"true", "false"}:
        return value == "true"
    return value


_TYPES: dict[str, type | tuple[type, ...]] = {
    "integer": int, "number": (int, float), "boolean": bool, "string": str, "object": dict, "array": list,
}  # fmt: skip


def _first_fit(value: Any, options: list[dict[str, Any]]) -> Any:
    for option in options:
        candidate = coerce(value, option)
        kind = option.get("type")
        if kind and isinstance(candidate, _TYPES[kind]) and candidate in option.get("enum", [candidate]):
            return candidate
    return value
