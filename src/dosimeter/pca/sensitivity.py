"""Sensitivity: the most that one row changes Σ zzᵀ, entry by entry and as a whole, under a declared neighbour relation.

Everything is about the lower triangle with its diagonal, α = d(d + 1)/2 entries, because noise is drawn there and
mirrored. Proofs: docs/pca.md, "The mechanisms".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.pca.bounded_sums import ROUNDINGS
from dosimeter.pca.bounds import ROUNDING, Box

REPLACE, ADD_OR_REMOVE = "replace-one", "add-or-remove-one"
NEIGHBOURS = (REPLACE, ADD_OR_REMOVE)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The most that Σ zzᵀ and Σ z move between neighbours; for A = Σ zzᵀ / N and the mean Σ z / N divide by N.

    The same for a person whose rows weigh 1 in all: a mean of zzᵀ over their rows is no further from another one than
    some zzᵀ is from some z'z'ᵀ.
    """

    entries: FloatArray
    """(d, d) of each entry."""
    l1: float
    """Of the α entries together, in the 1-norm."""
    l2: float
    """And in the 2-norm."""
    mean_l1: float
    """Of the d entries of Σ z together, in the 1-norm."""
    mean_l2: float
    """And in the 2-norm."""
    neighbours: str


def sensitivity(box: Box, neighbours: str, rows: int = 0) -> Sensitivity:
    """Sensitivity of Σ zzᵀ and Σ z for rows z within the box, in the declared relation.

    `rows` > 0 adds what float64 can lose in two sums of that many rows, or people, taken as `pca.sums` does: each
    addend is off by `ROUNDINGS` ulp at most, so a sum by as much of Σ |z_i z_j| <= rows · max |z_i z_j|, and in a norm
    of rows · the largest norm of one row. So the bound holds for the sum that is computed, not only for the one meant.

    >>> from dosimeter.pca.bounds import Bounds
    >>> unit = Bounds(row_norm=1.0).over(3)
    >>> sensitivity(unit, "add-or-remove-one").l2, round(sensitivity(unit, "replace-one").l2, 6)
    (1.0, 1.414214)
    """
    if neighbours not in NEIGHBOURS:
        raise Refusal(f"neighbours {neighbours!r} is not one of {', '.join(NEIGHBOURS)}")
    box.refuse_extreme()
    most = _largest(box)
    one = _l1(box, most), _l2(box), _mean_l1(box), box.length
    entries, together = most, one
    if neighbours == REPLACE:
        entries = _ranges(box, most)
        low = entries[np.tril_indices(box.d)]
        mean = min(float(box.spread.sum()), 2 * one[2]), min(float(np.linalg.norm(box.spread)), 2 * one[3])
        together = min(float(low.sum()), 2 * one[0]), _l2_replaced(box, low), *mean
    lost = 2.0 * rows * ROUNDINGS * ROUNDING
    l1, l2, mean_l1, mean_l2 = (moved + lost * size for moved, size in zip(together, one, strict=True))
    return Sensitivity(entries + lost * most, l1, l2, mean_l1, mean_l2, neighbours)


def _largest(box: Box) -> FloatArray:
    """(d, d) max |z_i z_j|: M_i M_j, and within a norm C no more than C²/2 beside the diagonal, C² on it."""
    M = box.reach
    if not box.shortens:
        return np.asarray(np.outer(M, M))
    C2 = box.norm**2
    most = np.minimum(np.outer(M, M), C2 / 2)
    np.fill_diagonal(most, np.minimum(M * M, C2))
    return most


def _ranges(box: Box, most: FloatArray) -> FloatArray:
    """(d, d) max z_i z_j - min z_i z_j: a bilinear form is extreme at corners, a square at an end or at 0."""
    a, b = box.low, box.high
    corners = np.stack([np.outer(p, q) for p in (a, b) for q in (a, b)])
    width = corners.max(axis=0) - corners.min(axis=0)
    least = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(a * a, b * b))
    np.fill_diagonal(width, box.reach**2 - least)
    # |z_i z_j| <= most on both sides; on the diagonal one side is 0.
    return np.asarray(np.minimum(width, most * (2 - np.eye(box.d))))


def _l1(box: Box, most: FloatArray) -> float:
    """max Σ_{i>=j} |z_i z_j| = (‖z‖₁² + ‖z‖²)/2; within a norm C at most C²(d + 1)/2."""
    entries = float(most[np.tril_indices(box.d)].sum())
    return min(entries, box.norm**2 * (box.d + 1) / 2) if box.shortens else entries


def _mean_l1(box: Box) -> float:
    """max ‖z‖₁; within a norm C at most √d C."""
    most = float(box.reach.sum())
    return min(most, math.sqrt(box.d) * box.norm) if box.shortens else most


def _l2(box: Box) -> float:
    """max √(Σ_{i>=j} z_i² z_j²) = √((‖z‖⁴ + Σ z_i⁴)/2), exactly.

    In w = z² it is convex on 0 <= w <= M², Σ w <= C²: largest at the vertex that fills the widest columns first.
    """
    widest = np.sort(box.reach**2)[::-1]
    room = box.norm**2 if box.shortens else math.inf
    before = np.concatenate([[0.0], np.cumsum(widest)[:-1]])
    w = np.minimum(widest, np.maximum(room - before, 0.0))
    return math.sqrt((float(w.sum()) ** 2 + float((w * w).sum())) / 2)


def _l2_replaced(box: Box, low: FloatArray) -> float:
    """min of √Σ R_ij², ΣM² and √2 C²: each bounds ‖lower(zzᵀ - z'z'ᵀ)‖; the last two are proved in docs/pca.md."""
    bound = min(float(np.linalg.norm(low)), float((box.reach**2).sum()))
    return min(bound, math.sqrt(2.0) * box.norm**2) if box.shortens else bound
