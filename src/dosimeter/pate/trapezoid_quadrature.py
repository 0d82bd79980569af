"""Gaussian and logistic noise: the trapezoidal rule on a lattice that all histograms share.

Counts are whole numbers, so on a lattice of whole votes, or of whole fractions of a vote, every g(s - v_l) and
G(s - v_l) is an entry of one table. On an analytic integrand the rule converges faster than any power of its step.
Derivations and the measured error are in docs/explanation/pate.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.by_law import ByLaw
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import Gaussian, LogisticNoise
from dosimeter.pate.gauss_legendre import legendre
from dosimeter.pate.histograms import Counts

CELLS = 1 << 16
"""Numbers in a temporary array that is read many times: half a megabyte stays in a cache."""
TABLE = 1 << 22
"""Most entries of a table; if it would be longer, the functions are evaluated node by node."""
MOST_NODES = 1 << 22
LOST = 42.0
"""The part left out at either end is below e^-42 of the whole."""
Function = Callable[[FloatArray], FloatArray]


def excess(gaps: Counts, weights: Counts | None, law: Density, c: int) -> FloatArray:
    """(u,) Σⱼ P(Y = j | v⁻ + cδⱼ) - 1; gaps (u, k) to the first class, ascending, each `weights` times."""
    m = 1 + (gaps.shape[1] if weights is None else int(weights.sum(axis=1).max(initial=0)))
    c = min(c, int(gaps.max(initial=0)) + _decided_gap(law))  # beyond it the votes win with certainty
    gaps = np.minimum(gaps, c + _decided_gap(law))
    lattice = _Lattice.of(law, m, int(gaps.max(initial=0)), *_reach_of_excess(gaps / law.scale, law, m, c / law.scale))
    cdf, step = lattice.values(law.cdf), lattice.values(lambda x: _step(law, x, c))
    hazard, rise = lattice.values(lambda x: _hazard(law, x)), lattice.values(lambda x: _rise(law, x, c))
    grow = cdf if weights is None else lattice.values(law.logcdf)
    out = np.zeros(len(gaps))
    for rows, node in lattice.blocks():
        product = np.zeros(node.shape) if weights is not None else np.ones(node.shape)
        falling, rising = np.zeros(node.shape), np.zeros(node.shape)
        for l in range(gaps.shape[1]):
            index = lattice.index(node, gaps[rows, l])
            if weights is None:
                product *= grow(index)
                falling += hazard(index)
                rising += rise(index)
            else:
                mu = weights[rows, l, None]
                product += mu * grow(index)
                falling += mu * hazard(index)
                rising += mu * rise(index)
        first = lattice.index(node, np.zeros(len(rows), dtype=np.int64))
        product = product if weights is None else np.exp(product)
        out[rows] = lattice.spacing * np.sum(product * (step(first) * falling + cdf(first) * rising), axis=1)
    return np.maximum(out, 0.0)


def wins(gaps: Counts, weights: Counts | None, law: Density) -> FloatArray:
    """(u, k) P(Y = j) of one class of each count; gaps (u, k) to the first class, which is among them."""
    m = gaps.shape[1] if weights is None else int(weights.sum(axis=1).max(initial=0))
    gaps = np.minimum(gaps, _decided_gap(law))
    lattice = _Lattice.of(law, m, int(gaps.max(initial=0)), *_reach_of_wins(gaps / law.scale, law, m))
    logcdf, hazard = lattice.values(law.logcdf), lattice.values(lambda x: _hazard(law, x))
    out = np.zeros(gaps.shape)
    for rows, node in lattice.blocks():
        product = np.zeros(node.shape)
        for l in range(gaps.shape[1]):
            index = lattice.index(node, gaps[rows, l])
            product += logcdf(index) if weights is None else weights[rows, l, None] * logcdf(index)
        np.exp(product, out=product)
        for l in range(gaps.shape[1]):
            out[rows, l] = lattice.spacing * np.sum(product * hazard(lattice.index(node, gaps[rows, l])), axis=1)
    return out


def _decided_gap(law: Density) -> int:
    """Votes behind, or ahead, that no noise makes up; classes further away would only lengthen the table."""
    return math.ceil(min(2 * TAILS[law].end * law.scale, 2.0**40))


def _hazard(law: Density, x: FloatArray) -> FloatArray:
    """g/G, which stays finite where both vanish."""
    return np.asarray(np.exp(law.logpdf(x) - law.logcdf(x)))


def _rise(law: Density, x: FloatArray, c: int) -> FloatArray:
    """(g(x - c) - g(x))/G(x); for a small c by the integral of the score, because a difference would cancel."""
    if c > law.scale:
        return np.asarray(np.exp(law.logpdf(x - c) - law.logcdf(x)) - _hazard(law, x))
    return np.asarray(_hazard(law, x) * np.expm1(-_over_shift(law.score, x, c)))


def _step(law: Density, x: FloatArray, c: int) -> FloatArray:
    """G(x) - G(x - c), with full precision in both tails and for a small c."""
    if c <= law.scale:
        return _over_shift(law.pdf, x, c)
    return np.where(x < c / 2, law.cdf(x) - law.cdf(x - c), law.sf(x - c) - law.sf(x))


def _over_shift(f: Function, x: FloatArray, c: int) -> FloatArray:
    """∫ f over [x - c, x], c at most one scale."""
    t, w = legendre(16)
    return np.asarray(sum(c / 2 * wi * f(x - c / 2 * (1 + ti)) for ti, wi in zip(t, w, strict=True)))


def _reach_of_excess(d: FloatArray, law: Density, m: int, c: float) -> tuple[FloatArray, FloatArray]:
    """(u,) the range of s - v₁ in which the integrand matters, in scales; only classes near the second matter."""
    tail = TAILS[law]
    behind = np.clip(d - c, 0.0, tail.end)
    low, high = tail.reach_of_excess(behind, behind[:, :1], LOST + math.log(m))
    return low, high + np.maximum(c - d[:, 0], 0.0)


def _reach_of_wins(d: FloatArray, law: Density, m: int) -> tuple[FloatArray, FloatArray]:
    """(u,) the range of s - v₁ in which any class can win, in scales."""
    tail = TAILS[law]
    low, high = tail.reach_of_wins(np.minimum(d.max(axis=1), tail.end), LOST + math.log(m))
    return low, np.full(len(d), high)


@dataclass(frozen=True)
class _Tail:
    """How a law decays, in scales: where the integrand matters, and how fine the lattice must be."""

    end: float
    """Scales behind the first beyond which a class wins with probability below 1e-300."""
    step: Callable[[int], float]
    """m -> the widest step for a product of m factors."""
    reach_of_excess: Callable[[FloatArray, FloatArray, float], tuple[FloatArray, FloatArray]]
    """(u, k) gaps, (u, 1) the smallest, the log of the lost part -> (u,) lower and (u,) upper end."""
    reach_of_wins: Callable[[FloatArray, float], tuple[FloatArray, float]]
    """(u,) largest gap, the log of the lost part -> (u,) lower end, and upper end."""


def _gaussian_excess(behind: FloatArray, first: FloatArray, lost: float) -> tuple[FloatArray, FloatArray]:
    far = np.where(behind**2 - first**2 < 4 * lost, behind, first).max(axis=1)
    return -far / 2 - math.sqrt(2 * lost), np.sqrt(first[:, 0] ** 2 / 2 + 2 * lost) - first[:, 0]


def _logistic_excess(behind: FloatArray, first: FloatArray, lost: float) -> tuple[FloatArray, FloatArray]:
    far = np.where(behind - first < lost, behind, first).max(axis=1)
    return -far - lost, np.full(len(far), lost)


TAILS: ByLaw[_Tail] = ByLaw(
    "is not integrated on a lattice here",
    {
        # The product of m factors turns over like exp(-m e^(-s)) and grows once Im s passes a quarter turn there.
        Gaussian: _Tail(
            60.0,
            lambda m: 0.25 / math.sqrt(2 * math.log(m)),
            _gaussian_excess,
            lambda far, lost: (-far / 2 - math.sqrt(2 * lost), math.sqrt(2 * lost)),
        ),
        LogisticNoise: _Tail(800.0, lambda m: 0.25, _logistic_excess, lambda far, lost: (-far - lost, lost)),
    },
)


@dataclass(frozen=True, eq=False)
class _Lattice:
    """Nodes s - v₁ = node · stride / parts votes; class l is looked up at s - v_l."""

    stride: int
    parts: int
    window: int
    """Entries of the table for one node: `stride` if they continue to the next node, else one for each gap."""
    start: Index
    """(u,) the first node of each histogram."""
    count: Index
    """(u,) its number of nodes."""
    most: int
    """The widest gap."""

    @classmethod
    def of(cls, law: Density, m: int, most: int, low: FloatArray, high: FloatArray) -> _Lattice:
        """A lattice for m classes, gaps up to `most` and a range from `low` to `high` in scales."""
        step = TAILS[law].step(m) * law.scale
        stride, parts = max(1, math.floor(step)), max(1, math.ceil(1 / step))
        start = np.floor(low * law.scale * parts / stride).astype(np.intp)
        end = np.ceil(high * law.scale * parts / stride).astype(np.intp)
        if (nodes := int((end - start).max(initial=0))) > MOST_NODES:
            raise CannotMeasure(
                f"{law} is too little noise for that many votes of one person: {nodes} nodes are needed"
            )
        return cls(stride, parts, min(stride, most + 1), start, end - start + 1, most)

    @property
    def spacing(self) -> float:
        """Votes between two nodes."""
        return self.stride / self.parts

    def blocks(self) -> Iterator[tuple[Index, Index]]:
        """Histograms (R,) with their nodes (R, n), those of similar length together."""
        order = np.argsort(self.count, kind="stable")
        i = 0
        while i < len(order):
            size = max(1, CELLS // int(self.count[order[min(len(order), i + CELLS // 64) - 1]]))
            rows = order[i : i + size]
            yield rows, self.start[rows, None] + np.arange(self.count[rows].max())
            i += len(rows)

    def index(self, node: Index, gaps: Counts) -> Index:
        """(R, n) indices into the table for classes `gaps` (R,) behind the first."""
        return node * self.window + self.parts * gaps[:, None]

    def values(self, f: Function) -> Callable[[Index], FloatArray]:
        """f(s - v_l) by index; from a table if that is short enough."""
        least = int(self.start.min(initial=0)) * self.window
        length = int((self.start + self.count).max(initial=0)) * self.window + self.parts * self.most + 1 - least
        if length > TABLE:
            return lambda index: f(self._votes(index))
        table = f(self._votes(np.arange(least, least + length)))
        return lambda index: table.take(index - least, mode="clip")

    def _votes(self, index: Index) -> FloatArray:
        return np.asarray((index // self.window * float(self.stride) + index % self.window) / self.parts)
