"""The reproduction as one page: the figures as Vega-Lite and PNG, every row beside them. Nothing is fetched."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.refusal import Refusal
from dosimeter.report.charts import POLICY, scripts
from dosimeter.reproduce.row import Report, Row

STYLE = (
    "body{font:15px/1.45 sans-serif;max-width:1340px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:3px 9px;text-align:left;vertical-align:top}"
    "tr{border-top:1px solid #ddd}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "tr.differs{background:#fdf3e1}tr.unexplained{background:#fbdcdc}figure{margin:1.5em 0}"
    "figcaption{font-size:13px;color:#444;max-width:60em}.strip{display:inline-block;margin:0 6px 6px 0;"
    "text-align:center;font-size:11px}.strip img{display:block;width:64px;height:64px;image-rendering:pixelated}"
)


@dataclass(frozen=True)
class Figure:
    """One figure: charts or pictures that are already markup, and plain words under them."""

    name: str
    caption: str
    markup: str


@dataclass(frozen=True)
class Reproduction:
    """Every row of a paper, and its figures redrawn."""

    report: Report
    figures: tuple[Figure, ...]


def page(told: Reproduction) -> str:
    """A whole HTML page."""
    report = told.report
    held = sum(row.ok for row in report.rows)
    figures = "".join(
        f"<figure><h2>{escape(f.name)}</h2>{f.markup}<figcaption>{escape(f.caption)}</figcaption></figure>"
        for f in told.figures
    )
    lines = "".join(_line(row) for row in report.rows)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(report.name)} reproduced</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<style>{STYLE}</style></head><body><h1>{escape(report.name)}, reproduced</h1>"
        f"<p>{held} of {len(report.rows)} rows hold; {len(report.rows) - held - len(report.unexplained)} differ and "
        f"say why; {len(report.unexplained)} differ without a reason. A claim in words is 1 where it holds by the "
        "measure named beside it; where the paper's words have no number, the threshold is ours, and most were "
        "set after a first look at the figures.</p>"
        f"{figures}<h2>Every row</h2><table><thead><tr><th>figure or claim</th><th>paper</th><th>ours</th><th></th>"
        f"<th>measured; why it differs</th></tr></thead><tbody>{lines}</tbody></table>{scripts()}</body></html>\n"
    )


def _line(row: Row) -> str:
    state = "ok" if row.ok else "differs" if row.why else "unexplained"
    words = "; ".join(part for part in (row.measured, row.why) if part)
    return (
        f'<tr class="{state}"><td>{escape(row.figure)}</td><td class="n">{row.paper:g}</td>'
        f'<td class="n">{row.ours:.5g}</td><td>{state}</td><td>{escape(words)}</td></tr>'
    )


def strip(title: str, images: Sequence[NDArray[np.uint8]], words: Sequence[str]) -> str:
    """A line of small pictures, each with a few words above it."""
    cells = "".join(
        f'<span class="strip">{escape(said)}<img alt="" src="{png(pixels)}"></span>'
        for pixels, said in zip(images, words, strict=True)
    )
    return f"<div><div>{escape(title)}</div>{cells}</div>"


def png(pixels: NDArray[np.uint8]) -> str:
    """A data URI of an image (h, w) in grey or (h, w, 3) in colour."""
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise Refusal(f"pixels are bytes of shape (h, w) or (h, w, 3), not {pixels.dtype} {pixels.shape}")
    h, w = pixels.shape[:2]
    lines = np.column_stack([np.zeros((h, 1), dtype=np.uint8), pixels.reshape(h, -1)])  # each begins with filter 0
    head = struct.pack(">IIBBBBB", w, h, 8, 0 if pixels.ndim == 2 else 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()
