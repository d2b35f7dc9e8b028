"""User-visible texts that nobody marked for translation, as far as the source shows it plainly.

Templates: words outside tags, and in the attributes that people see or hear. Python: literals handed to the arguments
that Django shows to people. Names that are the same in every language are listed.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from marketplace.local import translations

SHOWN = {"verbose_name", "verbose_name_plural", "help_text", "label", "description", "short_description", "empty_label"}
RAISED = {"ValidationError"}
MESSAGES = {"success", "info", "warning", "error"}
ATTRIBUTES = re.compile(r"\b(?:alt|title|placeholder|aria-label|aria-description)=\"([^\"]*)\"")
# Names of things, units and formats.
SAME_IN_BOTH = {
    "BF", "CSV", "Fuzhou", "GB", "GPU", "ICP", "ID", "NVMe", "SSH", "Stripe", "TB", "TFLOPS", "URL", "XLSX",
    "ms", "vCPU",
}  # fmt: skip
WORD = re.compile(r"[A-Za-z]{2,}")


def check() -> list[str]:
    """One line for each literal found, with its file and line."""
    return [
        *(fault for file in _pages() for fault in _in_template(file)),
        *(fault for file in translations.python_files() for fault in _in_python(file)),
    ]


def _pages() -> list[Path]:
    return [file for file in translations.template_files() if file.suffix == ".html"]


def _in_template(file: Path) -> Iterator[str]:
    source = file.read_text(encoding="utf-8")
    blank = lambda found: "\n" * found[0].count("\n") + " "  # noqa: E731 - keeps the line numbers
    for pattern in (
        r"\{#.*?#\}",
        r"\{% comment.*?endcomment %\}",
        r"\{% blocktrans(?:late)?\b.*?\{% endblocktrans(?:late)? %\}",
        r"\{% block \w*class %\}.*?\{% endblock",
        r"\{[{%].*?[%}]\}",
        r"<!--.*?-->",
        r"<(script|style|code|pre|svg)\b.*?</\1>",
    ):
        source = re.sub(pattern, blank, source, flags=re.DOTALL)
    seen = [(found.start(1), found[1]) for found in ATTRIBUTES.finditer(source)]
    text = re.sub(r"<[^>]*>", lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    seen += [(found.start(), found[0]) for found in re.finditer(r"[^\n]+", text)]
    for start, words in sorted(seen):
        if _english(words):
            yield _fault(file, source.count("\n", 0, start) + 1, words.strip())


def _in_python(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        shown = [item.value for item in node.keywords if item.arg in SHOWN]
        if _name(node.func) in RAISED:
            shown += node.args[:1]
        if isinstance(node.func, ast.Attribute) and node.func.attr in MESSAGES and _name(node.func.value) == "messages":
            shown += node.args[1:2]
        for value in shown:
            parts = value.values if isinstance(value, ast.JoinedStr) else [value]
            for part in parts:
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and _english(part.value):
                    yield _fault(file, part.lineno, part.value)


def _english(text: str) -> bool:
    return any(word not in SAME_IN_BOTH for word in WORD.findall(re.sub(r"&\w+;", " ", text)))


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _fault(file: Path, line: int, text: str) -> str:
    return f"{file.relative_to(translations.ROOT).as_posix()}:{line}: not marked for translation: {text!r}"
