"""What the components leave of each row: ‖z - V_k V_kᵀ z‖² for every k at once, as sums of squares and no difference.

With u = z - mean and squared projections p_j = (v_j·u)², the residual at k is p_{k+1} + ... + p_r + outside: a sum
from the far end, each addend >= 0. Subtracting from ‖u‖² instead would lose a member's small residual in rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.pca.components import Components, as_rows, refuse_not_finite

NOTHING = 1e-12
"""A residual of at most this share of ‖u‖² is rounding, and counts as 0: ties then give ½."""
COLUMNS = 128
"""Most components handled together, and at most a sixth of them: a product's worth, and a fraction of the data."""
ROWS = 4096
"""Rows of one product."""
APART = 1e-3
"""How far from orthonormal intercepted vectors may be: rounded to three digits is still a list of components."""


@dataclass(frozen=True, eq=False)
class Tails:
    """Residuals of several groups of rows, side by side.

    >>> V = np.eye(3)
    >>> Tails.of(V, [[[1.0, 2.0, 2.0]], [[0.0, 0.0, 1.0]]]).at(1).tolist()
    [8.0, 1.0]
    """

    V: FloatArray
    """(d, r) orthonormal, the directions of the data that were seen."""
    null: FloatArray
    """(d, d - r) the rest of the basis where it was seen, else (d, 0)."""
    mean: FloatArray
    """(d,)."""
    groups: tuple[NDArray[Any], ...]
    """Each (n_g, d), any real dtype, never copied as a whole."""
    weights: FloatArray
    """(r,) what each squared projection counts: 1, or 1/λ where it is whitened."""
    sealed: bool
    """Whether a row that leaves the span is told at once: an infinite residual instead of the length outside."""

    @classmethod
    def of(cls, seen: Components | ArrayLike, groups: Any, *, whiten: bool = False) -> Tails:
        """Check what was seen and the rows; nothing is computed yet."""
        known = seen if isinstance(seen, Components) else intercepted(seen)
        r = known.rank
        if r == 0:
            raise CannotMeasure("the components have rank 0: every row was the same, nothing can be told apart")
        if whiten and not (known.values[:r] > 0).all():
            raise CannotMeasure("whitening divides by the eigenvalues: these are 0 or were not seen")
        d, k = known.vectors.shape
        null = known.vectors[:, r:] if k == d else np.empty((d, 0))
        tables = tuple(as_rows(g, "rows") for g in groups)
        for table in tables:
            if table.shape[1] != d:
                raise Refusal(f"rows have {table.shape[1]} columns, the components {d}: same columns, same order")
        weights = 1 / known.values[:r] if whiten else np.ones(r)
        return cls(known.vectors[:, :r], null, known.mean, tables, weights, whiten)

    @property
    def rank(self) -> int:
        """r, the largest k."""
        return int(self.V.shape[1])

    @property
    def rows(self) -> int:
        """All rows of all groups."""
        return sum(len(g) for g in self.groups)

    def by_block(self) -> Iterator[tuple[int, FloatArray]]:
        """(k, S) from the last k to the first: S (b, rows) holds the residuals at k, k + 1, ..., k + b - 1.

        S is written over by the next block.
        """
        norms, carry = self._ends()
        nothing = NOTHING * norms
        # Whatever lies outside below rounding is 0 already here: it must not become infinite when it is sealed.
        carry[carry <= nothing] = 0.0
        if self.sealed:
            carry[carry > 0] = np.inf
            nothing = 0.0 * norms
        yield self.rank, carry[None, :]
        together = max(1, min(COLUMNS, self.rank // 6))
        room = np.empty((together, self.rows))
        for stop in range(self.rank, 0, -together):
            start = max(0, stop - together)
            S = self._squares(start, stop, room)
            for row in S[::-1]:
                row += carry
                carry = row
            carry = carry.copy()
            if start == 0 and not self.sealed:
                S[0] = norms  # no component, no rounding: rows of equal length are ties
            np.copyto(S, 0.0, where=np.less_equal(S, nothing))
            yield start, S

    def at(self, k: int) -> FloatArray:
        """(rows,) residuals at one k."""
        if not 0 <= k <= self.rank:
            raise Refusal(f"k must lie between 0 and the {self.rank} components that were seen, not {k}")
        return next(S[k - first].copy() for first, S in self.by_block() if first <= k)

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """‖u‖² and the squared length outside the span of V, each (rows,)."""
        norms, outside = np.empty(self.rows), np.zeros(self.rows)
        for part, U in self._chunks(check=True):
            with np.errstate(over="ignore"):
                norms[part] = np.einsum("nd,nd->n", U, U)
            if not np.isfinite(norms[part]).all():
                raise Refusal(
                    f"the squares of the rows overflow (largest entry {np.abs(U).max():g}): rescale the columns"
                )
            if self.null.shape[1]:
                left = U @ self.null
            elif self.rank < len(self.V):
                left = U - (U @ self.V) @ self.V.T
                left -= (left @ self.V) @ self.V.T  # again: what the first pass left in the span is rounding of ‖u‖
            else:
                continue
            outside[part] = np.einsum("nd,nd->n", left, left)
        return norms, outside

    def _squares(self, start: int, stop: int, room: FloatArray) -> FloatArray:
        """(stop - start, rows) weighted squared projections; a component's numbers lie side by side, ready to sort."""
        V = np.ascontiguousarray(self.V[:, start:stop].T)
        S = room[: stop - start]
        for part, U in self._chunks():
            P = V @ U.T
            np.multiply(P, P, out=S[:, part])
        if self.sealed:
            S *= self.weights[start:stop, None]
        return S

    def _chunks(self, check: bool = False) -> Iterator[tuple[slice, FloatArray]]:
        """Centred float64 rows, a chunk at a time, with their place among all rows."""
        place, centred = 0, bool(self.mean.any())
        for table in self.groups:
            for start in range(0, len(table), ROWS):
                U = np.asarray(table[start : start + ROWS], dtype=np.float64)
                if check:
                    refuse_not_finite(U, "rows", start)
                yield slice(place, place + len(U)), (U - self.mean if centred else U)
                place += len(U)


def intercepted(V: ArrayLike, mean: ArrayLike | None = None) -> Components:
    """Vectors (d, k) that somebody caught, without eigenvalues (written as 0).

    Rounding in transit leaves them a little off orthonormal; the subspaces of the first 1, 2, ..., k columns are what
    is used, so they are made orthonormal in that order.

    >>> intercepted([[0.6, 0.8], [0.8, -0.6]]).vectors.round(3).tolist()
    [[0.6, 0.8], [0.8, -0.6]]
    """
    table = np.asarray(V, dtype=np.float64)
    if table.ndim != 2 or not 1 <= table.shape[1] <= table.shape[0]:
        raise Refusal(f"intercepted components are columns, (d, k) with 1 <= k <= d, not {table.shape}")
    refuse_not_finite(table, "components")
    d, k = table.shape
    off = float(np.abs(table.T @ table - np.eye(k)).max())
    if off > APART:
        raise Refusal(f"the columns are off orthonormal by {off:.2g}: pass unit vectors as columns (d, k)")
    Q, R = np.linalg.qr(table)
    centre = np.zeros(d) if mean is None else np.asarray(mean, dtype=np.float64)
    return Components(Q * np.where(np.diagonal(R) < 0, -1.0, 1.0), np.zeros(k), k, centre)
