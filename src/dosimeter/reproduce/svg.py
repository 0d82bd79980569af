"""Charts as SVG text, made by hand: arrays in, a string out; no scripts, no network, all text escaped.

No copy of Vega travels with the package yet, and a page that fetched one would not work offline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal

WIDTH, HEIGHT = 420, 290
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 40, 46
COLOURS = ("#0b5fa5", "#d1495b", "#2e8b57", "#8a5a00", "#6a4c93")
Kind = Literal["line", "points", "bars"]


@dataclass(frozen=True)
class Axis:
    """A label and a scale."""

    label: str
    log: bool = False

    def place(self, values: FloatArray) -> FloatArray:
        """Values as they are, or their decimal logarithm."""
        if self.log and not (values > 0).all():
            raise Refusal(f"the logarithmic axis {self.label!r} needs values > 0")
        return np.asarray(np.log10(values) if self.log else values, dtype=np.float64)


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


def chart(title: str, x: Axis, y: Axis, series: Sequence[Series]) -> str:
    """One chart, with axes, ticks and a legend.

    >>> text = chart("a < b", Axis("x"), Axis("y"), [Series("s", np.array([0.0, 1.0]), np.array([1.0, 2.0]))])
    >>> text.startswith("<svg") and "a &lt; b" in text
    True
    """
    frame = _Frame.around(x, y, series)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="11">',
        f'<text x="{LEFT}" y="16" font-weight="bold">{escape(title)}</text>',
        *frame.axes(x, y),
    ]
    names = []
    for k, one in enumerate(series):
        colour = COLOURS[k % len(COLOURS)]
        parts += _draw(one, x, y, frame, colour)
        names.append(f'<tspan fill="{colour}" dx="{12 if k else 0}">{escape(one.name)}</tspan>')
    return "".join([*parts, f'<text x="{LEFT}" y="31">', *names, "</text></svg>"])


@dataclass(frozen=True)
class _Frame:
    """From placed values to pixels."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @classmethod
    def around(cls, x: Axis, y: Axis, series: Sequence[Series]) -> _Frame:
        if not series or any(not len(s.y) for s in series):
            raise Refusal("a chart needs at least one series, none of them empty")
        xs = np.concatenate([x.place(s.x) for s in series])
        ys = np.concatenate([y.place(v) for s in series for v in _reach(s, y)])
        if any(s.kind == "bars" for s in series):
            ys = np.append(ys, 0.0)
        if not (np.isfinite(xs).all() and np.isfinite(ys).all()):
            raise Refusal("a chart needs finite values")
        return cls(*_padded(xs), *_padded(ys))

    def across(self, v: FloatArray) -> FloatArray:
        share = (v - self.x_low) / (self.x_high - self.x_low)
        return np.asarray(LEFT + share * (WIDTH - LEFT - RIGHT))

    def down(self, v: FloatArray) -> FloatArray:
        share = (v - self.y_low) / (self.y_high - self.y_low)
        return np.asarray(HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM))

    def axes(self, x: Axis, y: Axis) -> list[str]:
        low, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        out = [f'<path d="M{LEFT} {TOP}V{low}H{right}" fill="none" stroke="#444"/>']
        for v in _ticks(self.x_low, self.x_high, x.log):
            at = float(self.across(np.array(v)))
            out.append(f'<path d="M{at:.1f} {low}v4" stroke="#444"/>')
            out.append(f'<text x="{at:.1f}" y="{low + 16}" text-anchor="middle">{_number(v, x.log)}</text>')
        for v in _ticks(self.y_low, self.y_high, y.log):
            at = float(self.down(np.array(v)))
            out.append(f'<path d="M{LEFT} {at:.1f}h-4" stroke="#444"/>')
            out.append(f'<text x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{_number(v, y.log)}</text>')
        middle = (TOP + low) / 2
        out.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x.label)}</text>')
        out.append(
            f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">'
            f"{escape(y.label)}</text>"
        )
        return out


def _reach(s: Series, y: Axis) -> list[FloatArray]:
    """What must fit into the frame; a bar of spread that would pass zero on a logarithmic axis is cut."""
    if s.spread is None:
        return [s.y]
    low = s.y - s.spread
    return [s.y, s.y + s.spread, np.where(low > 0, low, s.y) if y.log else low]


def _padded(values: FloatArray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    room = 0.04 * (high - low) or max(abs(high), 1.0) * 0.1
    return low - (room if low != 0 else 0.0), high + room


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        if high - low < 2.5:
            decades = range(int(np.floor(low)), int(np.ceil(high)) + 1)
            fine = [float(k + np.log10(m)) for k in decades for m in (1, 2, 5)]
            return [v for v in fine if low <= v <= high]
        whole = list(range(int(np.ceil(low)), int(np.floor(high)) + 1))
        step = max(1, -(-len(whole) // 6))
        return [float(v) for v in whole[::step]]
    rough = (high - low) / 5
    size = 10.0 ** np.floor(np.log10(rough))
    step = size * next(m for m in (1, 2, 5, 10) if m * size >= rough)
    return [float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _number(v: float, log: bool) -> str:
    return f"{10.0**v:.3g}" if log else f"{v:.6g}"


def _draw(s: Series, x: Axis, y: Axis, frame: _Frame, colour: str) -> list[str]:
    across, down = frame.across(x.place(s.x)), frame.down(y.place(s.y))
    out: list[str] = []
    if s.kind == "bars":
        base = float(frame.down(np.array(0.0)))
        steps = "".join(f"L{a:.1f} {h:.1f}L{b:.1f} {h:.1f}" for a, b, h in zip(across, across[1:], down, strict=False))
        path = f"M{across[0]:.1f} {base:.1f}{steps}L{across[-1]:.1f} {base:.1f}Z"
        out.append(f'<path d="{path}" fill="{colour}" fill-opacity="0.35" stroke="{colour}"/>')
    elif s.kind == "points":
        dots = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in zip(across, down, strict=True))
        out.append(f'<path d="{dots}" stroke="{colour}" stroke-width="2.4" stroke-linecap="round" opacity="0.5"/>')
    else:
        path = "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(across, down, strict=True))
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    if s.spread is not None:
        _, high, low = (frame.down(y.place(v)) for v in _reach(s, y))
        bars = "".join(f"M{a:.1f} {b:.1f}V{c:.1f}" for a, b, c in zip(across, low, high, strict=True))
        out.append(f'<path d="{bars}" stroke="{colour}" opacity="0.6"/>')
    if s.mark is not None:
        at = float(frame.across(x.place(np.array(s.mark))))
        out.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{colour}" stroke-dasharray="4 3"/>')
    return out
