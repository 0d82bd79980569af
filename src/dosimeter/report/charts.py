"""Charts as Vega-Lite specifications, and the scripts that draw them inside a page that fetches nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
COLOURS = ("#0b5fa5", "#d1495b", "#2e8b57", "#8a5a00", "#6a4c93")
SIZE = {"width": 360, "height": 220}
Kind = Literal["line", "points", "bars"]

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'unsafe-inline' 'unsafe-eval'"
"""For the page's head: nothing is fetched. Vega compiles its expressions, hence 'unsafe-eval'; specs are made here."""


@dataclass(frozen=True)
class Axis:
    """A label and a scale."""

    label: str
    log: bool = False


@dataclass(frozen=True, eq=False)
class Series:
    """One set of points with a name."""

    name: str
    x: FloatArray
    """(k,), or (k + 1,) edges for bars."""
    y: FloatArray
    """(k,)."""
    kind: Kind = "line"
    spread: FloatArray | None = None
    """(k,) half-length of the bar through each point, or None."""
    mark: float | None = None
    """x of a dashed vertical line: the mean of a histogram."""


def spec(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> dict[str, Any]:
    """The Vega-Lite specification of one chart.

    >>> made = spec("a", Axis("x"), Axis("y"), [Series("s", np.array([0.0, 1.0]), np.array([1.0, 2.0]))])
    >>> made["layer"][0]["mark"]["type"]
    'line'
    """
    names = [s.name for s in series]
    layers: list[dict[str, Any]] = []
    for one in series:
        layers += _layers(one, x, y, names)
    return {"$schema": SCHEMA, "title": title, **SIZE, "layer": layers}


def _layers(s: Series, x: Axis, y: Axis, names: Sequence[str]) -> list[dict[str, Any]]:
    for axis, values in ((x, s.x), (y, s.y)):
        if not np.isfinite(values).all() or (axis.log and not (values > 0).all()):
            raise Refusal(f"the axis {axis.label!r} needs finite values, above 0 where it is logarithmic")
    colour = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(names), "range": [COLOURS[k % len(COLOURS)] for k in range(len(names))]},
    }
    across, up = _field("x", x), _field("y", y)
    encoding: dict[str, Any] = {"x": across, "y": up, "color": colour}
    if s.kind == "bars":
        rows = [{"x": a, "x2": b, "y": c} for a, b, c in zip(s.x[:-1], s.x[1:], s.y, strict=True)]
        encoding |= {"x2": {"field": "x2"}, "y2": {"datum": 0}}
        mark: dict[str, Any] = {"type": "rect", "opacity": 0.35}
    else:
        rows = [{"x": a, "y": b} for a, b in zip(s.x, s.y, strict=True)]
        line = {"type": "line", "point": {"size": 18}}
        mark = line if s.kind == "line" else {"type": "point", "filled": True, "size": 6, "opacity": 0.5}
    made = [{"data": {"values": _plain(rows, s.name)}, "mark": mark, "encoding": encoding}]
    if s.spread is not None:
        # On a logarithmic axis a bar that would pass zero is cut at a thousandth of its point.
        low = np.maximum(s.y - s.spread, 1e-3 * s.y) if y.log else s.y - s.spread
        bars = [{"x": a, "y": b, "y2": c} for a, b, c in zip(s.x, low, s.y + s.spread, strict=True)]
        ends = {"x": across, "y": up, "y2": {"field": "y2"}, "color": colour}
        made.append(
            {"data": {"values": _plain(bars, s.name)}, "mark": {"type": "rule", "opacity": 0.6}, "encoding": ends}
        )
    if s.mark is not None:
        at = {"x": across, "color": colour}
        dashed = {"type": "rule", "strokeDash": [4, 3]}
        made.append({"data": {"values": _plain([{"x": s.mark}], s.name)}, "mark": dashed, "encoding": at})
    return made


def _field(name: str, axis: Axis) -> dict[str, Any]:
    scale = {"type": "log"} if axis.log else {"zero": False}
    return {"field": name, "type": "quantitative", "title": axis.label, "scale": scale}


def _plain(rows: list[dict[str, Any]], name: str) -> list[dict[str, float | str]]:
    # Six digits draw the same picture as sixteen, and do not carry a private figure in full.
    return [{"series": name, **{k: float(f"{float(v):.6g}") for k, v in row.items()}} for row in rows]


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """Markup of one chart: its specification as data, drawn by `scripts` at the end of the page."""
    # A "</" inside the data would end the element; "<\\/" is the same text in JSON.
    text = json.dumps(spec(title, x, y, series), ensure_ascii=True, allow_nan=False).replace("</", "<\\/")
    label = f'role="img" aria-label="{escape(title)}"'
    return f'<span class="chart" {label}><script type="application/json">{text}</script></span>'


def scripts() -> str:
    """Vega, Vega-Lite and Vega-Embed inline, and the line that draws every chart of the page."""
    folder = files("dosimeter.report.vega")
    names = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")
    libraries = "".join(f"<script>{folder.joinpath(name).read_text(encoding='utf-8')}</script>" for name in names)
    draw = (
        "for(const c of document.querySelectorAll('.chart')){const s=JSON.parse(c.firstElementChild.textContent);"
        "const d=document.createElement('div');c.appendChild(d);vegaEmbed(d,s,{actions:false,renderer:'svg'});}"
    )
    return f"{libraries}<script>{draw}</script>"
