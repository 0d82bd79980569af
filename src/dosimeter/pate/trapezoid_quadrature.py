"""Gaussian and logistic noise: the trapezoidal rule on a lattice that all histograms share.

Counts are whole numbers, so on a lattice of whole votes, or of whole parts of a vote, every g(s - v_l) and G(s - v_l)
is an entry of one table. On an analytic integrand the rule converges faster than any power of its step.
Derivations and the measured error are in docs/pate.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.noise import Gaussian
from dosimeter.pate.gauss_legendre import legendre
from dosimeter.pate.histograms import Counts

CELLS = 1 << 16
"""Numbers in a temporary array that is passed over many times: half a megabyte stays in a cache."""
TABLE = 1 << 22
"""Entries of a table, at most; where it would be longer, the functions are evaluated node by node."""
MOST_NODES = 1 << 22
LOST = 42.0
"""What is left out at either end is below e^-42 of the whole."""
Function = Callable[[FloatArray], FloatArray]


def excess(gaps: Counts, weights: Counts | None, law: Density, c: int) -> FloatArray:
    """(u,) Σⱼ P(Y = j | v⁻ + cδⱼ) - 1; gaps (u, k) to the first class, ascending, each `weights` times."""
    m = 1 + (gaps.shape[1] if weights is None else int(weights.sum(axis=1).max(initial=0)))
    c = min(c, int(gaps.max(initial=0)) + _hopeless(law))  # from there on the votes win for certain
    gaps = np.minimum(gaps, c + _hopeless(law))
    lattice = _Lattice.of(law, m, int(gaps.max(initial=0)), *_reach_of_excess(gaps / law.scale, law, m, c / law.scale))
    cdf, step = lattice.values(law.cdf), lattice.values(lambda x: _step(law, x, c))
    hazard, rise = lattice.values(lambda x: _hazard(law, x)), lattice.values(lambda x: _rise(law, x, c))
    grow = cdf if weights is None else lattice.values(law.logcdf)
    out = np.zeros(len(gaps))
    for rows, node in lattice.blocks():
        product = np.zeros(node.shape) if weights is not None else np.ones(node.shape)
        falling, rising = np.zeros(node.shape), np.zeros(node.shape)
        for l in range(gaps.shape[1]):
            at = lattice.at(node, gaps[rows, l])
            if weights is None:
                product *= grow(at)
                falling += hazard(at)
                rising += rise(at)
            else:
                mu = weights[rows, l, None]
                product += mu * grow(at)
                falling += mu * hazard(at)
                rising += mu * rise(at)
        first = lattice.at(node, np.zeros(len(rows), dtype=np.int64))
        product = product if weights is None else np.exp(product)
        out[rows] = lattice.spacing * np.sum(product * (step(first) * falling + cdf(first) * rising), axis=1)
    return np.maximum(out, 0.0)


def wins(gaps: Counts, weights: Counts | None, law: Density) -> FloatArray:
    """(u, k) P(Y = j) of one class of each count; gaps (u, k) to the first class, which is among them."""
    m = gaps.shape[1] if weights is None else int(weights.sum(axis=1).max(initial=0))
    gaps = np.minimum(gaps, _hopeless(law))
    lattice = _Lattice.of(law, m, int(gaps.max(initial=0)), *_reach_of_wins(gaps / law.scale, law, m))
    logcdf, hazard = lattice.values(law.logcdf), lattice.values(lambda x: _hazard(law, x))
    out = np.zeros(gaps.shape)
    for rows, node in lattice.blocks():
        product = np.zeros(node.shape)
        for l in range(gaps.shape[1]):
            at = lattice.at(node, gaps[rows, l])
            product += logcdf(at) if weights is None else weights[rows, l, None] * logcdf(at)
        np.exp(product, out=product)
        for l in range(gaps.shape[1]):
            out[rows, l] = lattice.spacing * np.sum(product * hazard(lattice.at(node, gaps[rows, l])), axis=1)
    return out


def _hopeless(law: Density) -> int:
    """Votes behind, or ahead, that no noise makes up; classes further away would only lengthen the table."""
    return math.ceil(min(2 * _END[isinstance(law, Gaussian)] * law.scale, 2.0**40))


def _hazard(law: Density, x: FloatArray) -> FloatArray:
    """g/G, which stays finite where both vanish."""
    return np.asarray(np.exp(law.logpdf(x) - law.logcdf(x)))


def _rise(law: Density, x: FloatArray, c: int) -> FloatArray:
    """(g(x - c) - g(x))/G(x); for a small c through the integral of the score, where a difference would cancel."""
    if c > law.scale:
        return np.asarray(np.exp(law.logpdf(x - c) - law.logcdf(x)) - _hazard(law, x))
    return np.asarray(_hazard(law, x) * np.expm1(-_over_shift(law.score, x, c)))


def _step(law: Density, x: FloatArray, c: int) -> FloatArray:
    """G(x) - G(x - c), with its digits in both tails and for a small c."""
    if c <= law.scale:
        return _over_shift(law.pdf, x, c)
    return np.where(x < c / 2, law.cdf(x) - law.cdf(x - c), law.sf(x - c) - law.sf(x))


def _over_shift(f: Function, x: FloatArray, c: int) -> FloatArray:
    """∫ f over [x - c, x], c at most one scale."""
    t, w = legendre(16)
    return np.asarray(sum(c / 2 * wi * f(x - c / 2 * (1 + ti)) for ti, wi in zip(t, w, strict=True)))


def _reach_of_excess(d: FloatArray, law: Density, m: int, c: float) -> tuple[FloatArray, FloatArray]:
    """(u,) between which s - v₁ the integrand counts, in scales; only classes near enough to the second do."""
    lost, ahead = LOST + math.log(m), np.maximum(c - d[:, 0], 0.0)
    behind = np.clip(d - c, 0.0, _END[isinstance(law, Gaussian)])
    first = behind[:, :1]
    if isinstance(law, Gaussian):
        far = np.where(behind**2 - first**2 < 4 * lost, behind, first).max(axis=1)
        high = np.sqrt(first[:, 0] ** 2 / 2 + 2 * lost) - first[:, 0] + ahead
        return -far / 2 - math.sqrt(2 * lost), high
    far = np.where(behind - first < lost, behind, first).max(axis=1)
    return -far - lost, lost + ahead


def _reach_of_wins(d: FloatArray, law: Density, m: int) -> tuple[FloatArray, FloatArray]:
    """(u,) between which s - v₁ any class can win, in scales."""
    lost, far = LOST + math.log(m), np.minimum(d.max(axis=1), _END[isinstance(law, Gaussian)])
    if isinstance(law, Gaussian):
        return -far / 2 - math.sqrt(2 * lost), np.full(len(d), math.sqrt(2 * lost))
    return -far - lost, np.full(len(d), lost)


_END = {True: 60.0, False: 800.0}
"""Scales behind the first from which on a class wins with less than 1e-300: Gaussian, logistic."""


@dataclass(frozen=True, eq=False)
class _Lattice:
    """Nodes s - v₁ = node · stride / parts votes; class l is looked up at s - v_l."""

    stride: int
    parts: int
    window: int
    """Entries of the table for one node: `stride` if they run on to the next node, else one for each gap."""
    start: Index
    """(u,) the first node of each histogram."""
    count: Index
    """(u,) how many nodes it has."""
    most: int
    """The widest gap."""

    @classmethod
    def of(cls, law: Density, m: int, most: int, low: FloatArray, high: FloatArray) -> _Lattice:
        """A lattice for m classes, gaps up to `most` and a reach from `low` to `high` in scales."""
        # The product of m factors turns over like exp(-m e^(-s)) and grows once Im s passes a quarter turn there.
        step = (0.25 / math.sqrt(2 * math.log(m)) if isinstance(law, Gaussian) else 0.25) * law.scale
        stride, parts = max(1, math.floor(step)), max(1, math.ceil(1 / step))
        start = np.floor(low * law.scale * parts / stride).astype(np.intp)
        end = np.ceil(high * law.scale * parts / stride).astype(np.intp)
        if (nodes := int((end - start).max(initial=0))) > MOST_NODES:
            raise CannotMeasure(f"{law} is too little noise for so many votes of one person: {nodes} nodes are needed")
        return cls(stride, parts, min(stride, most + 1), start, end - start + 1, most)

    @property
    def spacing(self) -> float:
        """Votes between two nodes."""
        return self.stride / self.parts

    def blocks(self) -> Iterator[tuple[Index, Index]]:
        """Histograms (R,) with their nodes (R, n), those of like length together."""
        order = np.argsort(self.count, kind="stable")
        i = 0
        while i < len(order):
            size = max(1, CELLS // int(self.count[order[min(len(order), i + CELLS // 64) - 1]]))
            rows = order[i : i + size]
            yield rows, self.start[rows, None] + np.arange(self.count[rows].max())
            i += len(rows)

    def at(self, node: Index, gaps: Counts) -> Index:
        """(R, n) entries of the table for classes `gaps` (R,) behind the first."""
        return node * self.window + self.parts * gaps[:, None]

    def values(self, f: Function) -> Callable[[Index], FloatArray]:
        """f(s - v_l) by entry; from a table where that is short enough."""
        least = int(self.start.min(initial=0)) * self.window
        length = int((self.start + self.count).max(initial=0)) * self.window + self.parts * self.most + 1 - least
        if length > TABLE:
            return lambda at: f(self._votes(at))
        table = f(self._votes(np.arange(least, least + length)))
        return lambda at: table.take(at - least, mode="clip")

    def _votes(self, at: Index) -> FloatArray:
        return np.asarray((at // self.window * float(self.stride) + at % self.window) / self.parts)
