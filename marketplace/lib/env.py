"""Settings read from the environment: typed, loud about bad values, secrets from files too."""

import os
from pathlib import Path


class BadSetting(ValueError):
    """An environment variable that cannot mean what its setting needs."""


def text(name: str, default: str = "") -> str:
    """The variable's value, or the default when it is unset or empty."""
    return os.environ.get(name, "").strip() or default


def secret(name: str, default: str = "") -> str:
    """Like `text`, but `NAME_FILE` may point to a file that holds the value (Docker and Kubernetes secrets)."""
    path = os.environ.get(f"{name}_FILE", "").strip()
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise BadSetting(f"{name}_FILE: cannot read the file ({error.strerror})") from None
    return text(name, default)


def boolean(name: str, default: bool) -> bool:
    """true/false, yes/no, on/off, 1/0 in any case."""
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise BadSetting(f"{name} must be true or false, not {value!r}")


def integer(name: str, default: int, *, minimum: int | None = None) -> int:
    """A whole number, at least `minimum` where one is given."""
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise BadSetting(f"{name} must be a whole number, not {value!r}") from None
    if minimum is not None and number < minimum:
        raise BadSetting(f"{name} must be at least {minimum}, not {number}")
    return number


def integers(name: str, default: str = "", *, minimum: int | None = None) -> tuple[int, ...]:
    """A comma-separated list of whole numbers, each at least `minimum` where one is given; rising, each once."""
    try:
        numbers = sorted({int(part) for part in words(name, default)})
    except ValueError:
        raise BadSetting(f"{name} must be whole numbers with commas between them, not {text(name)!r}") from None
    if minimum is not None and numbers and numbers[0] < minimum:
        raise BadSetting(f"{name} must hold nothing below {minimum}, not {numbers[0]}")
    return tuple(numbers)


def one_of(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    value = text(name, default)
    if value not in allowed:
        raise BadSetting(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list without empty entries."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def accounts(name: str, default: str) -> dict[str, tuple[str, str]]:
    """`book=code:name` with commas between; books that the value leaves out keep their default."""
    found: dict[str, tuple[str, str]] = {}
    for part in (*default.split(","), *words(name)):
        book, equals, account = part.partition("=")
        code, colon, title = account.partition(":")
        if not (equals and colon and book.strip() and code.strip()):
            raise BadSetting(f"{name} must be book=code:name,…, not {part!r}")
        found[book.strip()] = (code.strip(), title.strip())
    return found
