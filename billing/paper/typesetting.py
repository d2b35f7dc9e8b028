"""From plain data to the bytes of a PDF. The only module that knows typst.

The same data gives the same bytes: no clock, no system font and no package of the outside takes part. Data reaches
the template as JSON, so that markup in a name stays what it is, text.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import typst

from billing.paper.glyphs import FONT_FILE, FONT_NAME

TEMPLATE = Path(__file__).resolve().parent / "document.typ"


class TypesettingFailed(Exception):
    """The template or its fonts are broken: a fault of ours, nothing that a customer can mend."""


def typeset(data: dict[str, Any], *, at: datetime, template: Path = TEMPLATE) -> bytes:
    """The PDF of one paper. `at` is when the paper came to be; it is all that the file says of time.

    Must not run inside a transaction: it takes a tenth of a second. Raises TypesettingFailed for any warning too (an
    unknown font would print boxes).
    """
    inputs = {"data": json.dumps(data, ensure_ascii=False), "font": FONT_NAME, "at": at.strftime("%Y-%m-%d-%H-%M-%S")}
    try:
        pdf, warnings = typst.compile_with_warnings(
            str(template),
            root=str(template.parent),
            font_paths=[str(FONT_FILE.parent)],
            ignore_system_fonts=True,
            sys_inputs=inputs,
            # For archives: it carries its fonts, its text as text and the structure for a screen reader.
            pdf_standards=["a-2a"],
        )
    except typst.TypstError as error:
        raise TypesettingFailed(str(error)) from error
    if warnings:
        raise TypesettingFailed("; ".join(str(warning.message) for warning in warnings))
    return pdf
