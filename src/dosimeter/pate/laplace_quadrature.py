"""Laplace and one-sided exponential noise: smooth pieces between kinks, and a right tail in closed form.

In scales, x = γ(s - v₁) with s the winner's noisy count, and class l >= 2 is d_l behind the first. Both laws have
G(x) = 1 - θe^(-x) for x >= 0, θ = 1/2 or 1; below 0, Laplace has e^x/2 and the exponential 0. Derivations are in
docs/explanation/pate.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.by_law import ByLaw
from dosimeter.core.density import Density
from dosimeter.core.noise import Exponential, Laplace
from dosimeter.pate.gauss_legendre import rule
from dosimeter.pate.histograms import Counts

CELLS = 1 << 16
"""Numbers in a temporary array that is read many times: half a megabyte stays in a cache."""
ROWS = 1 << 15
TINY = 1e-300
"""Replaces a G that rounds to 0, which has no logarithm."""


@dataclass(frozen=True)
class _Sides:
    """The sides of 0 on which a law has mass."""

    both: bool
    theta: float
    """G(x) = 1 - θe^(-x) for x >= 0."""


SIDES: ByLaw[_Sides] = ByLaw(
    "is not integrated between kinks here", {Laplace: _Sides(True, 0.5), Exponential: _Sides(False, 1.0)}
)


def excess(gaps: Counts, weights: Counts | None, law: Density, c: int) -> FloatArray:
    """(u,) Σⱼ P(Y = j | v⁻ + cδⱼ) - 1, every term >= 0; gaps (u, k) to the first class, each `weights` times."""
    out = _tail(gaps, weights, law, c)
    for start in range(0, len(gaps), ROWS):
        part = slice(start, start + ROWS)
        out[part] += _pieces(gaps[part], None if weights is None else weights[part], law, c)
    return out


def _tail(gaps: Counts, weights: Counts | None, law: Density, c: int) -> FloatArray:
    """(u,) the integral over s > v₁ + c: (e^c - 1)(1 - Π G(d_l + c)), as a sum of terms >= 0 that cannot overflow."""
    gamma = 1 / law.scale
    q = SIDES[law].theta * np.exp(-gamma * gaps)
    p = SIDES[law].theta * np.exp(-gamma * (gaps + c))
    with np.errstate(divide="ignore"):
        y = np.log1p(-p)
    if weights is not None:
        y = np.where(weights > 0, weights * y, 0.0)
        q = q * np.where(p > 0, -np.expm1(y) / np.where(p > 0, p, 1.0), weights)
    before = np.zeros_like(y)
    np.cumsum(y[:, :-1], axis=1, out=before[:, 1:])
    return np.asarray(-np.expm1(-gamma * c) * np.sum(q * np.exp(before), axis=1))


def _pieces(gaps: Counts, weights: Counts | None, law: Density, c: int) -> FloatArray:
    """(u,) the integral over s < v₁ + c, piece by piece; pieces of the same width share their nodes."""
    ends = _ends(gaps, c, SIDES[law].both)
    width = np.diff(ends, axis=1)
    row, column = np.nonzero(width)
    start, width = ends[row, column], width[row, column]
    out = np.zeros(len(gaps))
    factors = gaps.shape[1] if weights is None else int(weights.sum(axis=1).max(initial=0))
    key = 2 * width + (start >= 0)
    order = np.argsort(key, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(key[order])) + 1):
        if len(group):
            t, w = rule(float(width[group[0]]) / law.scale, factors, halves=SIDES[law].both)
            size = max(1, CELLS // len(t))
            for i in range(0, len(group), size):
                part = group[i : i + size]
                piece = _Piece(start[part], gaps[row[part]], None if weights is None else weights[row[part]], law, c)
                out += np.bincount(row[part], piece.integral(t, w), minlength=len(out))
    return out


def _ends(gaps: Counts, c: int, two_sided: bool) -> Counts:
    """Kinks in votes from v₁, ascending: -d and c - d of every class, 0 and c; from 0 on for the one-sided law."""
    both = np.zeros((len(gaps), 2), dtype=np.int64) + np.array([0, c])
    kinks = np.concatenate([-gaps, c - gaps, both] if two_sided else [np.maximum(c - gaps, 0), both], axis=1)
    return np.sort(kinks, axis=1)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Pieces of one width: no kink inside, so each class is wholly above, in its zone [0, c) of x_l, or past it."""

    start: Counts
    """(P,) left end, in votes from v₁."""
    gaps: Counts
    weights: Counts | None
    law: Density
    c: int

    def integral(self, t: FloatArray, w: FloatArray) -> FloatArray:
        """(P,) by nodes t (n,) in scales from the start, with weights w (n,)."""
        gamma, theta = 1 / self.law.scale, SIDES[self.law].theta
        x0 = self.start[:, None] + self.gaps
        x, N = gamma * self.start[:, None] + t, np.exp(-t)
        reach = np.where(x0 >= 0, theta * np.exp(-gamma * np.maximum(x0, 0)), 0.0)
        past = np.where(x0 >= self.c, np.exp(-gamma * np.maximum(x0 - self.c, 0)), 0.0)
        zones = (x0 >= 0) & (x0 < self.c)
        product, total = np.ones(x.shape), np.zeros(x.shape)
        for l in range(x0.shape[1]):
            share = past[:, l, None] * N
            zone = np.flatnonzero(zones[:, l])
            if len(zone):
                share[zone] = self._in_zone(x[zone], np.asarray(gamma * self.gaps[zone, l, None]))
            G = 1.0 - reach[:, l, None] * N
            if self.weights is not None:
                share, G = _repeat_class(share, G, self.weights[:, l, None])
            total *= G
            share *= product
            total += share
            product *= G
        total *= self._common(x, x0, t)
        return np.asarray(theta * (total @ w))

    def _past(self, x: FloatArray) -> FloatArray:
        """(P, n) the factor beside e^(-(x_l - c)) of a class past its zone, the same for all; without P(N₁ <= x)."""
        c = self.c / self.law.scale
        if self.start[0] < 0:
            return np.full(x.shape, -np.expm1(-2 * c))
        first = -np.expm1(-x)
        return np.asarray((first - np.expm1(x - 2 * c)) / 2 if SIDES[self.law].both else first)

    def _in_zone(self, x: FloatArray, d: FloatArray) -> FloatArray:
        """(Z, n) the share of a class in its zone, over `_past`; x (Z, n) and d (Z, 1) in scales."""
        if not SIDES[self.law].both:
            return np.zeros(x.shape)
        c = self.c / self.law.scale
        class_mass = -np.expm1(-2 * (x + d)) if self.start[0] < 0 else -(np.expm1(-x) + np.expm1(-(x + 2 * d))) / 2
        return np.asarray(np.exp(x + d - c) * class_mass / self._past(x))

    def _common(self, x: FloatArray, x0: Counts, t: FloatArray) -> FloatArray:
        """(P, n) `_past` times e^(x_l)/2 of the first class and of every class above the piece."""
        if self.start[0] >= 0:
            return self._past(x)
        multiplicity = np.where(x0 < 0, 1 if self.weights is None else self.weights, 0)
        above = 1 + multiplicity.sum(axis=1)
        lift = (self.start + (multiplicity * x0).sum(axis=1)) / self.law.scale - above * np.log(2.0)
        return np.asarray(self._past(x) * np.exp(lift[:, None] + above[:, None] * t))


def _repeat_class(share: FloatArray, G: FloatArray, times: Counts) -> tuple[FloatArray, FloatArray]:
    """For `times` classes of one count: Σ share · G^(times - 1), and G^times."""
    G = np.maximum(G, TINY)
    rest = np.exp((times - 1) * np.log(G))
    return share * times * rest, G * rest
