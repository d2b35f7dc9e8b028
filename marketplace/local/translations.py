"""Translations without the gettext programs: compile, gather and check by Babel.

python -m marketplace.local.translations compile|gather|check
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parents[2]
LOCALE = ROOT / "locale"
CODE = ("accounts", "billing", "catalog", "marketplace", "orders", "rentals", "trust")
TEMPLATES = ("templates",)
# What stands for the outside world on one machine is nobody's product text.
OUTSIDE = (ROOT / "marketplace" / "local",)
# What a translation has to carry over unchanged, beside the %-placeholders that Babel compares.
FIXED = re.compile(r"(?<!\{)\{\w*\}|</?[a-z][^>]*>")
KEYWORDS: dict[str, tuple | None] = {
    name + suffix: arguments
    for name, arguments in {
        "gettext": None,
        "ngettext": (1, 2),
        "pgettext": ((1, "c"), 2),
        "npgettext": ((1, "c"), 2, 3),
    }.items()
    for suffix in ("", "_lazy", "_noop")
} | {"_": None}


def compile_stale(locale: Path = LOCALE) -> list[Path]:
    """Write the .mo of every .po that changed since; the files written. Safe beside a second process doing the same."""
    written = []
    for po in sorted(locale.glob("*/LC_MESSAGES/*.po")):
        mo = po.with_suffix(".mo")
        if mo.exists() and mo.stat().st_mtime_ns >= po.stat().st_mtime_ns:
            continue
        part = mo.with_name(f"{mo.name}.{os.getpid()}")
        with part.open("wb") as file:
            write_mo(file, _read(po))
        part.replace(mo)
        written.append(mo)
    return written


def gather(locale: Path = LOCALE) -> Catalog:
    """Bring every django.po up to date with the source. New texts come in empty, unused ones are kept as comments."""
    template = extract()
    for po in _catalogs(locale):
        catalog = _read(po) if po.exists() else Catalog(locale=po.parent.parent.name, charset="utf-8")
        # No guesses: a fuzzy translation is a wrong one that looks finished.
        made = catalog.creation_date
        catalog.update(template, no_fuzzy_matching=True)
        # Unchanged texts leave an unchanged file.
        catalog.creation_date = made
        with po.open("wb") as file:
            write_po(file, catalog, sort_output=True, include_lineno=False, width=120)
    return template


def check(locale: Path = LOCALE) -> list[str]:
    """What is missing (or only kept as obsolete), fuzzy or broken, one line each; empty when nothing is."""
    template = extract()
    faults = []
    for po in _catalogs(locale):
        catalog = _read(po) if po.exists() else Catalog()
        name = po.relative_to(locale).parts[0]
        for wanted in _messages(template):
            faults += [
                f"{name}: {fault}: {wanted.id!r} ({wanted.locations[0][0]})" for fault in _faults(catalog, wanted)
            ]
    return faults


def extract() -> Catalog:
    """Every translatable text of the product, from Python and from templates, with the files it stands in."""
    catalog = Catalog(charset="utf-8")
    for file, source in _sources():
        name = file.relative_to(ROOT).as_posix()
        for line, function, found, comments in extract_python(source, KEYWORDS, ["Translators:"], {}):
            _add(catalog, name, line, KEYWORDS[function], found, comments)
    return catalog


def _catalogs(locale: Path) -> list[Path]:
    """One for each language that has a folder, whether the file exists or not."""
    return [folder / "django.po" for folder in sorted(locale.glob("*/LC_MESSAGES"))]


def _sources() -> Iterator[tuple[Path, io.BytesIO]]:
    from django.utils.translation.template import templatize  # noqa: PLC0415 - needs Django's settings

    for file in python_files():
        yield file, io.BytesIO(file.read_bytes())
    for file in template_files():
        code = templatize(file.read_text(encoding="utf-8"), origin=str(file))
        # Templatize keeps the page's indentation, which Python's tokenizer would take for blocks.
        plain = "\n".join(line.strip() for line in code.split("\n"))
        yield file, io.BytesIO(plain.encode())


def python_files() -> list[Path]:
    """The product's own modules, without migrations and local stand-ins."""
    return _files(CODE, "*.py")


def template_files() -> list[Path]:
    """Pages and mails."""
    return [file for pattern in ("*.html", "*.txt") for file in _files((*TEMPLATES, *CODE), pattern)]


def _files(folders: Iterable[str], pattern: str) -> list[Path]:
    return [
        file
        for folder in folders
        for file in sorted((ROOT / folder).rglob(pattern))
        if "migrations" not in file.parts and not any(file.is_relative_to(outside) for outside in OUTSIDE)
    ]


def _add(
    catalog: Catalog, name: str, line: int, spec: tuple | None, found: str | tuple | None, comments: list[str]
) -> None:
    arguments = found if isinstance(found, tuple) else (found,)
    context, positions = None, spec or (1,)
    if isinstance(positions[0], tuple):
        context, positions = arguments[positions[0][0] - 1], positions[1:]
    if len(arguments) < positions[-1]:
        return
    texts = tuple(arguments[position - 1] for position in positions)
    if not all(isinstance(text, str) and text for text in texts):
        return  # a variable, not a literal
    catalog.add(
        texts if len(texts) > 1 else texts[0], locations=[(name, line)], auto_comments=comments, context=context
    )


def _faults(catalog: Catalog, wanted: Message) -> Iterator[str]:
    singular = wanted.id[0] if isinstance(wanted.id, tuple) else wanted.id
    message = catalog.get(singular, wanted.context)
    texts = () if message is None else message.string if isinstance(message.string, tuple) else (message.string,)
    if not texts or not all(texts):
        yield "missing"
    elif message.fuzzy:
        yield "fuzzy"
    else:
        message.flags |= wanted.flags
        yield from (str(error) for error in message.check(catalog))
        kept = sorted(FIXED.findall(singular))
        yield from (f"other placeholders or tags in {text!r}" for text in texts if sorted(FIXED.findall(text)) != kept)


def _messages(catalog: Catalog) -> list[Message]:
    return [message for message in catalog if message.id]


def _read(po: Path) -> Catalog:
    with po.open("rb") as file:
        return read_po(file, locale=po.parent.parent.name)


def main(verb: str) -> int:
    if verb == "compile":
        for file in compile_stale():
            print(f"compiled {file.relative_to(ROOT)}")
        return 0
    from django.conf import settings  # noqa: PLC0415 - compiling needs no Django

    with contextlib.suppress(RuntimeError):
        settings.configure(USE_I18N=True)
    if verb == "gather":
        print(f"{len(_messages(gather()))} texts")
        return 0
    faults = check()
    print("\n".join([*faults, f"translations: {len(faults)} missing, fuzzy or broken"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
