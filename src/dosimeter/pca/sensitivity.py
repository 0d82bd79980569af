"""Sensitivity: the most that one row changes Σ zzᵀ, entry by entry and as a whole, under a declared neighbour relation.

Everything is about the lower triangle with its diagonal, α = d(d + 1)/2 entries, because noise is drawn there and
mirrored. Proofs: docs/pca.md, "The mechanisms".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal
from dosimeter.pca.clipping import ROUNDING, Box

REPLACE, ADD_OR_REMOVE = "replace-one", "add-or-remove-one"
NEIGHBOURS = (REPLACE, ADD_OR_REMOVE)


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The most that Σ zzᵀ moves between neighbours; for A = Σ zzᵀ / N divide by N."""

    entries: FloatArray
    """(d, d) of each entry."""
    l1: float
    """Of the α entries together, in the 1-norm."""
    l2: float
    """And in the 2-norm."""
    neighbours: str


def sensitivity(box: Box, neighbours: str, rows: int = 0) -> Sensitivity:
    """Sensitivity of Σ zzᵀ for rows z within the box, in the declared relation.

    `rows` > 0 adds what float64 can lose in two sums of that many products, (rows + 8) ulp of rows · |z_i z_j|, so that
    the bound holds for the sum that is computed and not only for the one that is meant.

    >>> from dosimeter.pca.clipping import Bounds
    >>> unit = Bounds(row_norm=1.0).over(3)
    >>> sensitivity(unit, "add-or-remove-one").l2, round(sensitivity(unit, "replace-one").l2, 6)
    (1.0, 1.414214)
    """
    if neighbours not in NEIGHBOURS:
        raise Refusal(f"neighbours {neighbours!r} is not one of {', '.join(NEIGHBOURS)}")
    box.refuse_extreme()
    most = _largest(box)
    entries = most if neighbours == ADD_OR_REMOVE else _ranges(box, most)
    together = _l1(box, most), _l2(box)
    if neighbours == REPLACE:
        low = entries[np.tril_indices(box.d)]
        together = min(float(low.sum()), 2 * together[0]), _l2_replaced(box, low)
    lost = 2.0 * rows * (rows + 8) * ROUNDING
    extra = lost * most
    lower = extra[np.tril_indices(box.d)]
    l1, l2 = together[0] + float(lower.sum()), together[1] + float(np.linalg.norm(lower))
    return Sensitivity(entries + extra, l1, l2, neighbours)


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
