"""A reproduction as one page: the figures as Vega-Lite and PNG, and every row. Nothing is fetched."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.reports.markup import render
from dosimeter.reports.standalone_page import standalone_page
from dosimeter.reproductions.comparison import PaperReport, Row


@dataclass(frozen=True)
class Figure:
    """One figure: charts or images as markup, and a caption."""

    name: str
    caption: str
    markup: str


@dataclass(frozen=True)
class Reproduction:
    """Every row of a paper, and its figures redrawn."""

    report: PaperReport
    figures: tuple[Figure, ...]


def page(reproduction: Reproduction) -> str:
    """A whole HTML page."""
    report = reproduction.report
    body = render(
        "reproduction.html.j2",
        report=report,
        held=sum(row.ok for row in report.rows),
        weak=sum(row.ok and row.weak for row in report.rows),
        # `chart` and `strip` escape the markup of a figure; joined, it is a plain string again.
        figures=[{"name": f.name, "caption": f.caption, "markup": Markup(f.markup)} for f in reproduction.figures],
        lines=[_line(row) for row in report.rows],
    )
    return standalone_page(f"{report.name} reproduced", body, images=True)


def _line(row: Row) -> dict[str, str]:
    return {
        "state": row.state,
        "kind": row.state.partition(",")[0],
        "figure": row.figure,
        "paper": f"{row.paper:g}",
        "ours": f"{row.ours:.5g}",
        "words": "; ".join(part for part in (row.measured, row.why) if part),
    }


def strip(title: str, images: Sequence[NDArray[np.uint8]], texts: Sequence[str]) -> Markup:
    """A row of small images, each with a short text above it."""
    return render("strip.html.j2", title=title, cells=list(zip(texts, map(png, images), strict=True)))


def png(pixels: NDArray[np.uint8]) -> str:
    """A data URI of an image (h, w) in grey or (h, w, 3) in colour."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise Refusal(f"pixels must be bytes of shape (h, w) or (h, w, 3), not {pixels.dtype} {pixels.shape}")
    h, w = pixels.shape[:2]
    lines = np.column_stack([np.zeros((h, 1), dtype=np.uint8), pixels.reshape(h, -1)])  # each starts with filter 0
    head = struct.pack(">IIBBBBB", w, h, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
