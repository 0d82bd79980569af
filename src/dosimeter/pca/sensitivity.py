"""Sensitivity: the most that one row changes Σ zzᵀ, entry by entry and as a whole, in a declared neighbour relation.

All of it refers to the lower triangle with its diagonal, α = d(d + 1)/2 entries, because noise is drawn there and
mirrored. Proofs: docs/explanation/pca.md, "The mechanisms".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

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

    It is the same for a person whose rows weigh 1 in total: a mean of zzᵀ over their rows is no further from another
    such mean than some zzᵀ is from some z'z'ᵀ.
    """

    entries: FloatArray
    """(d, d) change of each entry."""
    l1: float
    """Change of the α entries together, in the 1-norm."""
    l2: float
    """The same in the 2-norm."""
    mean_l1: float
    """Change of the d entries of Σ z together, in the 1-norm."""
    mean_l2: float
    """The same in the 2-norm."""
    neighbours: str


@lru_cache(maxsize=2)  # a release asks for that of one box (compared by identity) for each of its scales and its cost
def sensitivity(box: Box, neighbours: str, rows: int = 0) -> Sensitivity:
    """Sensitivity of Σ zzᵀ and Σ z for rows z within the box, in the declared relation.

    `rows` > 0 adds what float64 can lose in two sums of that many rows, or people, taken as in `bounded_sums`. Each
    addend is off by at most `ROUNDINGS` ulp, so an entry by that much of Σ |z_i z_j| <= rows · max |z_i z_j|, and a
    norm by that much of rows · the largest norm of one row. So the bound holds for the computed sum, not only for the
    exact one.

    >>> from dosimeter.pca.bounds import Bounds
    >>> unit = Bounds(row_norm=1.0).over(3)
    >>> sensitivity(unit, "add-or-remove-one").l2, round(sensitivity(unit, "replace-one").l2, 6)
    (1.0, 1.414214)
    """
    if neighbours not in NEIGHBOURS:
        raise Refusal(f"neighbours {neighbours!r} is not one of {', '.join(NEIGHBOURS)}")
    box.refuse_extreme()
    largest = _largest_products(box)
    one_row = _l1(box, largest), _l2(box), _mean_l1(box), box.length
    entries, joint = largest, one_row
    if neighbours == REPLACE:
        entries = _product_ranges(box, largest)
        lower_triangle = entries[np.tril_indices(box.d)]
        mean = min(float(box.spread.sum()), 2 * one_row[2]), min(float(np.linalg.norm(box.spread)), 2 * one_row[3])
        joint = min(float(lower_triangle.sum()), 2 * one_row[0]), _l2_replace_one(box, lower_triangle), *mean
    rounding = 2.0 * rows * ROUNDINGS * ROUNDING
    l1, l2, mean_l1, mean_l2 = (change + rounding * size for change, size in zip(joint, one_row, strict=True))
    entries = entries + rounding * largest
    entries.setflags(write=False)
    return Sensitivity(entries, l1, l2, mean_l1, mean_l2, neighbours)


def _largest_products(box: Box) -> FloatArray:
    """(d, d) max |z_i z_j|: M_i M_j, and within a norm C at most C²/2 off the diagonal, C² on it."""
    M = box.reach
    if not box.shortens:
        return np.asarray(np.outer(M, M))
    C2 = box.norm**2
    largest = np.minimum(np.outer(M, M), C2 / 2)
    np.fill_diagonal(largest, np.minimum(M * M, C2))
    return largest


def _product_ranges(box: Box, largest: FloatArray) -> FloatArray:
    """(d, d) max z_i z_j - min z_i z_j: a bilinear form is extreme at corners, a square at an end or at 0."""
    a, b = box.low, box.high
    corners = np.stack([np.outer(p, q) for p in (a, b) for q in (a, b)])
    width = corners.max(axis=0) - corners.min(axis=0)
    least = np.where((a <= 0) & (b >= 0), 0.0, np.minimum(a * a, b * b))
    np.fill_diagonal(width, box.reach**2 - least)
    # |z_i z_j| <= most on both sides; on the diagonal one side is 0.
    return np.asarray(np.minimum(width, largest * (2 - np.eye(box.d))))


def _l1(box: Box, largest: FloatArray) -> float:
    """max Σ_{i>=j} |z_i z_j| = (‖z‖₁² + ‖z‖²)/2; within a norm C at most C²(d + 1)/2."""
    entries = float(largest[np.tril_indices(box.d)].sum())
    return min(entries, box.norm**2 * (box.d + 1) / 2) if box.shortens else entries


def _mean_l1(box: Box) -> float:
    """max ‖z‖₁; within a norm C at most √d C."""
    largest = float(box.reach.sum())
    return min(largest, math.sqrt(box.d) * box.norm) if box.shortens else largest


def _l2(box: Box) -> float:
    """max √(Σ_{i>=j} z_i² z_j²) = √((‖z‖⁴ + Σ z_i⁴)/2), exactly.

    In w = z² it is convex on 0 <= w <= M², Σ w <= C²: largest at the vertex that fills the widest columns first.
    """
    widest = np.sort(box.reach**2)[::-1]
    room = box.norm**2 if box.shortens else math.inf
    before = np.concatenate([[0.0], np.cumsum(widest)[:-1]])
    w = np.minimum(widest, np.maximum(room - before, 0.0))
    return math.sqrt((float(w.sum()) ** 2 + float((w * w).sum())) / 2)


def _l2_replace_one(box: Box, lower_triangle: FloatArray) -> float:
    """min of √Σ R_ij², ΣM² and √2 C²: each bounds ‖lower(zzᵀ - z'z'ᵀ)‖; docs/explanation/pca.md proves the last two."""
    bound = min(float(np.linalg.norm(lower_triangle)), float((box.reach**2).sum()))
    return min(bound, math.sqrt(2.0) * box.norm**2) if box.shortens else bound
