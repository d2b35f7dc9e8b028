"""A QR code as a small picture of vectors."""

from __future__ import annotations

import itertools

from qrcode.constants import ERROR_CORRECT_M
from qrcode.main import QRCode

# The standard's quiet zone on each side, in modules.
_BORDER = 4


def svg(text: str) -> str:
    """The text as a QR code (error correction M) in one SVG path; the same text gives the same bytes."""
    code = QRCode(error_correction=ERROR_CORRECT_M, border=_BORDER)
    code.add_data(text)
    code.make(fit=True)
    rows = code.get_matrix()
    size = len(rows)
    path = "".join(_runs(row, y) for y, row in enumerate(rows))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" shape-rendering="crispEdges">'
        f'<path fill="#fff" d="M0 0h{size}v{size}H0z"/><path d="{path}"/></svg>'
    )


def _runs(row: list[bool], y: int) -> str:
    """The dark modules of a row as rectangles."""
    path, x = "", 0
    for dark, run in itertools.groupby(row):
        width = len(list(run))
        path += f"M{x} {y}h{width}v1h-{width}z" if dark else ""
        x += width
    return path
