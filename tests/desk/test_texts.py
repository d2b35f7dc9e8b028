"""Unfold brings no Chinese: every text of its own that Django does not translate stands in our list."""

import ast
import re
from pathlib import Path

import unfold
from django.utils import translation

from marketplace.desk.texts import UNFOLD

ROOT = Path(unfold.__file__).parent
# Of pages and parts that we do not use: datasets, nested and Excel-like inlines, unfold's own login and logout pages.
UNUSED = {
    "Dataset not found. No action performed.",
    "You can not create nested object without parent",
    "You have been successfully logged out from the administration",
}


def _texts():
    for page in ROOT.glob("templates/**/*.html"):
        if "unfold_crispy" not in page.parts:
            for _quote, text in re.findall(r"(?:trans|translate) (['\"])(.+?)\1", page.read_text()):
                yield text
    for module in [*ROOT.glob("*.py"), *ROOT.glob("mixins/*.py"), *ROOT.glob("contrib/filters/**/*.py")]:
        for node in ast.walk(ast.parse(module.read_text())):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"_", "gettext", "gettext_lazy"}
            if called and node.args and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


def test_unfolds_own_texts_are_listed_for_translation():
    with translation.override("zh-hans"):
        english = {text for text in _texts() if translation.gettext(text) == text}
    assert english - set(UNFOLD) - UNUSED == set()
