"""The winner of a noisy vote with Laplace or one-sided exponential noise: `laplace_quadrature`, class by class."""

from __future__ import annotations

import math

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.pate.gauss_legendre import legendre, rule
from dosimeter.pate.histograms import Counts
from dosimeter.pate.laplace_quadrature import CELLS, SIDES, TINY


def wins(gaps: Counts, weights: Counts | None, law: Density) -> FloatArray:
    """(u, k) P(Y = j) of one class of each count; gaps (u, k) to the first class, which is among them, ascending."""
    multiplicity = np.ones_like(gaps) if weights is None else weights
    classes = int(multiplicity.sum(axis=1).max(initial=1))
    out = np.zeros(gaps.shape)
    N, w = _right_of_all(classes, halves=SIDES[law].both)
    size = max(1, CELLS // (len(N) * gaps.shape[1]))
    for start in range(0, len(gaps), size):
        part = slice(start, start + size)
        out[part] = _right(gaps[part], multiplicity[part], law, N, w)
    if SIDES[law].both:
        out += _left(gaps, multiplicity, law)[:, None] + _between(gaps, multiplicity, law, classes)
    return out


def _right_of_all(classes: int, *, halves: bool) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights in u = e^(-x) from 0 to 1: by pieces in x while u·m matters, then directly in u."""
    settled = math.log(classes) + 4
    t, w = rule(settled, classes, halves=halves)
    x, v = legendre(10)
    last = math.exp(-settled) / 2
    return np.concatenate([np.exp(-t), last * (1 + x)]), np.concatenate([w * np.exp(-t), last * v])


def _right(gaps: Counts, multiplicity: Counts, law: Density, N: FloatArray, w: FloatArray) -> FloatArray:
    """(u, k) the part with the winner's noisy count above v₁."""
    share = SIDES[law].theta * np.exp(-gaps / law.scale)
    G = np.maximum(1 - share[:, :, None] * N, TINY)
    whole = np.exp(np.einsum("uk,ukn->un", multiplicity, np.log(G)))
    return np.asarray(share * np.einsum("un,ukn,n->uk", whole, 1 / G, w, optimize=True))


def _left(gaps: Counts, multiplicity: Counts, law: Density) -> FloatArray:
    """(u,) the part below all counts, where every factor is e^x/2: the same for every class."""
    classes = multiplicity.sum(axis=1)
    climb = (multiplicity * (gaps - gaps[:, -1:])).sum(axis=1) / law.scale
    return np.asarray(np.exp(climb - classes * math.log(2)) / classes)


def _between(gaps: Counts, multiplicity: Counts, law: Density, classes: int) -> FloatArray:
    """(u, k) the part between the lowest and the highest count, piece by piece."""
    out = np.zeros(gaps.shape)
    row, column = np.nonzero(np.diff(gaps, axis=1))
    start, width = -gaps[row, column + 1], gaps[row, column + 1] - gaps[row, column]
    order = np.argsort(width, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(width[order])) + 1):
        if len(group):
            t, w = rule(float(width[group[0]]) / law.scale, classes, halves=True)
            size = max(1, CELLS // (len(t) * gaps.shape[1]))
            for i in range(0, len(group), size):
                part = group[i : i + size]
                np.add.at(out, row[part], _piece(start[part], gaps[row[part]], multiplicity[row[part]], law, t, w))
    return out


def _piece(start: Counts, gaps: Counts, multiplicity: Counts, law: Density, t: FloatArray, w: FloatArray) -> FloatArray:
    """(P, k) over pieces of one width: a class above has density G, a class that was passed has 1 - G as a factor."""
    x0 = start[:, None] + gaps
    passed = np.where(x0 >= 0, 0.5 * np.exp(-np.maximum(x0, 0) / law.scale), 0.0)[:, :, None] * np.exp(-t)
    above = np.where(x0 < 0, multiplicity, 0)
    climb = (above * x0).sum(axis=1) / law.scale - above.sum(axis=1) * math.log(2)
    logs = climb[:, None] + above.sum(axis=1)[:, None] * t + np.einsum("pk,pkn->pn", multiplicity, np.log1p(-passed))
    density = np.where((x0 < 0)[:, :, None], 1.0, passed / (1 - passed))
    return np.asarray(np.einsum("pn,pkn,n->pk", np.exp(logs), density, w, optimize=True))
