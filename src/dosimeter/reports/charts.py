"""Charts as Vega-Lite specifications. Untrusted text is data in them, never an expression, a field name or a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.reports.layout import Drawing, Grid
from dosimeter.reports.markup import render, visible

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
COLOURS = ("#0b5fa5", "#b83a4b", "#217346", "#8a5a00", "#6a4c93")
"""At least 4.5 : 1 on white; style.css gives each its counterpart for a dark page."""
SIZE = {"width": 360, "height": 220}
CONFIG = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "axis": {"labelLimit": 220, "labelSeparation": 6, "titleFontWeight": "normal"},
    "legend": {"orient": "bottom", "labelLimit": 320, "columns": 2},
    "view": {"stroke": "transparent"},
}
VegaSpec = dict[str, Any]
"""A Vega-Lite specification, or a part of one: JSON that the library reads."""
VegaSize = Mapping[str, Any]
MOST_ROWS = 200
"""Points up to which the table beside a chart lists every one; a cloud of thousands says nothing as a table."""
Kind = Literal["line", "points", "bars", "band", "rule"]


@dataclass(frozen=True)
class Axis:
    """A label and a scale."""

    label: str
    log: bool = False
    whole: bool = False
    """Rounds, ranks, numbers of components: there is nothing between two of them."""
    share: bool = False
    """From 0 to 1: a short axis would make a small difference look large."""


@dataclass(frozen=True, eq=False)
class Series:
    """One set of points with a name."""

    name: str
    x: FloatArray
    """(k,), or (k + 1,) edges for bars."""
    y: FloatArray
    """(k,); the lower edge of a band; empty for a rule, a dashed vertical line at each x."""
    kind: Kind = "line"
    spread: FloatArray | None = None
    """(k,) half-length of the bar through each point, or None."""
    mark: float | None = None
    """x of a dashed vertical line: the mean of a histogram."""
    top: FloatArray | None = None
    """(k,) the upper edge of a band."""
    large: bool = False
    """Points to be seen from afar."""


def spec(title: str, x: Axis, y: Axis, series: Sequence[Series], size: VegaSize | None = None) -> VegaSpec:
    """The Vega-Lite specification of one chart.

    >>> chart = spec("a", Axis("x"), Axis("y"), [Series("s", np.array([0.0, 1.0]), np.array([1.0, 2.0]))])
    >>> chart["layer"][0]["mark"]["type"]
    'line'
    """
    names = [s.name for s in series]
    layers: list[VegaSpec] = []
    for line in series:
        layers += _layers(line, x, y, names)
    return framed(title, size) | {"layer": layers}


def framed(title: str, size: VegaSize | None = None) -> VegaSpec:
    """What every specification begins with."""
    shape = dict(size or SIZE)
    # A chart as wide as the page keeps its labels inside that width. A height in steps would make Vega-Lite warn.
    fit = {"autosize": {"type": "fit-x", "contains": "padding"}} if shape.get("width") == "container" else {}
    return {"$schema": SCHEMA, "title": title, "config": CONFIG, **shape, **fit}


def _layers(s: Series, x: Axis, y: Axis, names: Sequence[str]) -> list[VegaSpec]:
    for axis, values in ((x, s.x), (y, s.y)):
        if not np.isfinite(values).all() or (axis.log and not (values > 0).all()):
            raise Refusal(f"the axis {axis.label!r} needs finite values, above 0 if it is logarithmic")
    across, up, colour = _field("x", x), _field("y", y), _colour(names)
    layers = [_main(s, {"x": across, "y": up, "color": colour})]
    if s.spread is not None:
        # On a logarithmic axis a bar that would pass zero is cut at a thousandth of its point.
        low = np.maximum(s.y - s.spread, 1e-3 * s.y) if y.log else s.y - s.spread
        bars = [{"x": a, "y": b, "y2": c} for a, b, c in zip(s.x, low, s.y + s.spread, strict=True)]
        ends = {"x": across, "y": up, "y2": {"field": "y2"}, "color": colour}
        layers.append(_layer(bars, s.name, {"type": "rule", "opacity": 0.6}, ends))
    if s.mark is not None:
        layers.append(_layer([{"x": s.mark}], s.name, _DASHED, {"x": across, "color": colour}))
    return layers


_DASHED = {"type": "rule", "strokeDash": [4, 3], "strokeWidth": 2}


def _main(s: Series, encoding: VegaSpec) -> VegaSpec:
    """The layer with the points themselves."""
    if s.kind == "bars":
        rows = [{"x": a, "x2": b, "y": c} for a, b, c in zip(s.x[:-1], s.x[1:], s.y, strict=True)]
        return _layer(
            rows,
            s.name,
            {"type": "rect", "opacity": 0.6},
            encoding | {"x2": {"field": "x2"}, "y2": {"datum": 0}},
        )
    if s.kind == "rule":
        rows = [{"x": a} for a in s.x]
        return _layer(rows, s.name, _DASHED, {k: v for k, v in encoding.items() if k != "y"})
    if s.kind == "band":
        if s.top is None:
            raise Refusal(f"the band {s.name!r} has no upper edge: pass top")
        rows = [{"x": a, "y": b, "y2": c} for a, b, c in zip(s.x, s.y, s.top, strict=True)]
        return _layer(rows, s.name, {"type": "area", "opacity": 0.3}, encoding | {"y2": {"field": "y2"}})
    rows = [{"x": a, "y": b} for a, b in zip(s.x, s.y, strict=True)]
    mark: VegaSpec = {"type": "line", "point": {"size": 18}}
    if s.kind == "points":
        mark = {"type": "point", "filled": True, "size": 120 if s.large else 12, "opacity": 1 if s.large else 0.7}
    return _layer(rows, s.name, mark, encoding)


def _layer(rows: list[VegaSpec], name: str, mark: VegaSpec, encoding: VegaSpec) -> VegaSpec:
    # Six digits draw the same picture as sixteen, and do not carry a private figure in full.
    values = [{"series": name, **{k: float(f"{float(v):.6g}") for k, v in row.items()}} for row in rows]
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}


def _colour(names: Sequence[str]) -> VegaSpec:
    scale = {"domain": list(names), "range": [COLOURS[k % len(COLOURS)] for k in range(len(names))]}
    return {"field": "series", "type": "nominal", "title": None, "scale": scale}


def _field(name: str, axis: Axis) -> VegaSpec:
    scale: VegaSpec = {"type": "log", "nice": False} if axis.log else {"zero": False}
    if axis.share:
        scale = {"domain": [0, 1]}
    encoding = {"field": name, "type": "quantitative", "title": axis.label, "scale": scale}
    return encoding | ({"axis": {"tickMinStep": 1, "format": "d"}} if axis.whole else {})


def table(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> Grid:
    """The figures of a chart as a table; a cloud of points by its size and its ends."""
    rows: list[tuple[str | float, ...]] = []
    for s in series:
        known = [float(v) for v in s.x]
        if s.kind == "rule":
            rows += [(s.name, _six(place), "") for place in known]
        elif len(known) > MOST_ROWS:
            rows.append((s.name, f"{len(known)} points, {min(known):.3g} to {max(known):.3g}", ""))
        else:
            rows += _points(s, known)
    return Grid(title, ("series", x.label, y.label), tuple(rows), folded=True)


def _six(value: float) -> float:
    """Six digits, as in the picture."""
    return float(f"{value:.6g}")


def _points(s: Series, x: list[float]) -> list[tuple[str | float, ...]]:
    y = [_six(float(v)) for v in s.y]
    if s.kind == "bars":
        return [(s.name, f"{a:.3g} to {b:.3g}", c) for a, b, c in zip(x[:-1], x[1:], y, strict=True)]
    if s.top is not None:
        return [(s.name, a, f"{b:.3g} to {c:.3g}") for a, b, c in zip(x, y, s.top, strict=True)]
    if s.spread is not None:
        return [(s.name, a, f"{b:.3g} ± {c:.2g}") for a, b, c in zip(x, y, s.spread, strict=True)]
    return [(s.name, _six(a), b) for a, b in zip(x, y, strict=True)]


def drawing(
    title: str, x: Axis, y: Axis, series: Sequence[Series], *, says: str = "", size: VegaSize | None = None
) -> Drawing:
    """A chart for a report: the picture, its table, a sentence."""
    return Drawing(title, spec(title, x, y, series, size), table(title, x, y, series), says)


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> Markup:
    """Markup of one chart: its specification as data, drawn at the end of the page, and its table."""
    return figure(drawing(title, x, y, series))


def figure(plot: Drawing) -> Markup:
    """Markup of a chart."""
    return render("chart.html.j2", drawing=plot, spec=visible(dict(plot.spec)))


@dataclass(frozen=True)
class Span:
    """A figure with a name, and its interval if it has one."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def dots(title: str, x: Axis, spans: Sequence[Span]) -> VegaSpec:
    """Named figures one under the other, each with its interval."""
    ends = [(s, s.value if s.low is None else s.low, s.value if s.high is None else s.high) for s in spans]
    for _, low, high in ends:
        if not (np.isfinite(low) and np.isfinite(high)) or (x.log and low <= 0):
            raise Refusal(f"the axis {x.label!r} needs finite values, above 0 if it is logarithmic")
    rows = [{"name": s.name, "x": _six(s.value), "low": _six(low), "high": _six(high)} for s, low, high in ends]
    down = {"field": "name", "type": "nominal", "title": None, "sort": None}
    mark = {"type": "rule", "color": COLOURS[0], "strokeWidth": 2, "opacity": 0.6}
    bar = {"y": down, "x": _field("low", x), "x2": {"field": "high"}}
    point = {"type": "point", "filled": True, "size": 70, "color": COLOURS[0], "opacity": 1}
    tall = {"width": "container", "height": 24 * len(spans)}
    layers = [{"mark": mark, "encoding": bar}, {"mark": point, "encoding": {"y": down, "x": _field("x", x)}}]
    return framed(title, tall) | {"data": {"values": rows}, "layer": layers}


def heat(title: str, rows: Sequence[str], columns: Sequence[str], values: FloatArray) -> VegaSpec:
    """A strip of cells, (rows, columns), the stronger the higher: one colour that shows on light and dark pages."""
    finite = values[np.isfinite(values) & (values > 0)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (1.0, 1.0)
    shades = np.clip(np.nan_to_num(values, posinf=high), low, high)
    cells = [
        {"row": name, "column": column, "value": _six(float(shades[i, j]))}
        for i, name in enumerate(rows)
        for j, column in enumerate(columns)
    ]
    scale = {"type": "log", "domain": [low, high if high > low else 10 * low], "range": [0.04, 1]}
    across = {
        "field": "column",
        "type": "nominal",
        "title": None,
        "sort": None,
        "axis": {"labelAngle": -45, "orient": "top", "labelLimit": 120},
    }
    encoding = {
        "x": across,
        "y": {"field": "row", "type": "nominal", "title": None, "sort": None},
        "fillOpacity": {"field": "value", "type": "quantitative", "scale": scale, "title": "η"},
    }
    tall = {"width": "container", "height": 14 * len(rows)}
    mark = {"type": "rect", "fill": COLOURS[0], "stroke": None}
    return framed(title, tall) | {"data": {"values": cells}, "mark": mark, "encoding": encoding}
