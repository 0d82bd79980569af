"""Residuals of each row after k components, ‖z - V_k V_kᵀ z‖² for every k at once, without differences.

With u = z - mean and squared projections p_j = (v_j·u)², the residual at k is p_{k+1} + ... + p_r + outside: a sum
from the far end, each addend >= 0. Subtracting from ‖u‖² instead would lose a member's small residual to rounding.
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

NEGLIGIBLE = 1e-12
"""A residual of at most this share of ‖u‖² is rounding and counts as 0, so that ties give ½."""
COLUMNS = 128
"""Most components handled together, and at most a sixth of all: enough for a product, and a fraction of the data."""
ROWS = 4096
"""Rows in one product."""
MAX_NON_ORTHOGONALITY = 1e-3
"""How far from orthonormal intercepted vectors may be: vectors rounded to three digits are still accepted."""


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of several groups of rows, side by side.

    >>> V = np.eye(3)
    >>> Residuals.of(V, [[[1.0, 2.0, 2.0]], [[0.0, 0.0, 1.0]]]).at(1).tolist()
    [8.0, 1.0]
    """

    V: FloatArray
    """(d, r) orthonormal, the known directions of the data."""
    null: FloatArray
    """(d, d - r) the rest of the basis if it is known, else (d, 0)."""
    mean: FloatArray
    """(d,)."""
    groups: tuple[NDArray[Any], ...]
    """Each (n_g, d), any real dtype, never copied as a whole."""
    weights: FloatArray
    """(r,) weight of each squared projection: 1, or 1/λ if it is whitened."""
    sealed: bool
    """Whether a row outside the span gets an infinite residual instead of its length outside."""

    @classmethod
    def of(cls, source: Components | ArrayLike, groups: Any, *, whiten: bool = False) -> Residuals:
        """Check the components and the rows; nothing is computed yet."""
        known = source if isinstance(source, Components) else as_components(source)
        r = known.rank
        if r == 0:
            raise CannotMeasure("the components have rank 0: every row was the same, so rows cannot be distinguished")
        if whiten and not (known.values[:r] > 0).all():
            raise CannotMeasure("whitening divides by the eigenvalues, which are 0 or unknown: pass whiten=False")
        d, k = known.vectors.shape
        null = known.vectors[:, r:] if k == d else np.empty((d, 0))
        tables = tuple(as_rows(g, "rows") for g in groups)
        for table in tables:
            if table.shape[1] != d:
                raise Refusal(
                    f"rows have {table.shape[1]} columns, the components {d}: pass the same columns in the same order"
                )
        weights = 1 / known.values[:r] if whiten else np.ones(r)
        return cls(known.vectors[:, :r], null, known.mean, tables, weights, whiten)

    @property
    def rank(self) -> int:
        """r, the largest k."""
        return int(self.V.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows in all groups."""
        return sum(len(g) for g in self.groups)

    def by_block(self) -> Iterator[tuple[int, FloatArray]]:
        """(k, S) from the last k to the first: S (b, rows) holds the residuals at k, k + 1, ..., k + b - 1.

        The next block overwrites S.
        """
        norms, carry = self._ends()
        nothing = NEGLIGIBLE * norms
        # A length outside that is below rounding is set to 0 first: sealing must not make it infinite.
        carry[carry <= nothing] = 0.0
        if self.sealed:
            carry[carry > 0] = np.inf
            nothing = 0.0 * norms
        yield self.rank, carry[None, :]
        block_size = max(1, min(COLUMNS, self.rank // 6))
        buffer = np.empty((block_size, self.rows))
        for stop in range(self.rank, 0, -block_size):
            start = max(0, stop - block_size)
            S = self._squares(start, stop, buffer)
            for row in S[::-1]:
                row += carry
                carry = row
            carry = carry.copy()
            if start == 0 and not self.sealed:
                S[0] = norms  # without components there is no rounding: rows of equal length are ties
            np.copyto(S, 0.0, where=np.less_equal(S, nothing))
            yield start, S

    def at(self, k: int) -> FloatArray:
        """(rows,) residuals at one k."""
        if not 0 <= k <= self.rank:
            raise Refusal(f"k must be between 0 and the {self.rank} components that are known, not {k}")
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

    def _squares(self, start: int, stop: int, buffer: FloatArray) -> FloatArray:
        """(stop - start, rows) weighted squared projections; one component's numbers are contiguous, ready to sort."""
        V = np.ascontiguousarray(self.V[:, start:stop].T)
        S = buffer[: stop - start]
        for part, U in self._chunks():
            P = V @ U.T
            np.multiply(P, P, out=S[:, part])
        if self.sealed:
            S *= self.weights[start:stop, None]
        return S

    def _chunks(self, check: bool = False) -> Iterator[tuple[slice, FloatArray]]:
        """Centred float64 rows, a chunk at a time, with their position among all rows."""
        position, centred = 0, bool(self.mean.any())
        for table in self.groups:
            for start in range(0, len(table), ROWS):
                U = np.asarray(table[start : start + ROWS], dtype=np.float64)
                if check:
                    refuse_not_finite(U, "rows", start)
                yield slice(position, position + len(U)), (U - self.mean if centred else U)
                position += len(U)


def as_components(V: ArrayLike, mean: ArrayLike | None = None) -> Components:
    """Components from intercepted vectors, without eigenvalues (set to 0).

    Parameters
    ----------
    V : array_like of shape (d, k)
        Vectors as columns, orthonormal to 1e-3.
    mean : array_like of shape (d,), optional
        What was subtracted from the rows; default zeros.

    Returns
    -------
    Components
        Exactly orthonormal.

    Raises
    ------
    Refusal
        If the columns are not nearly orthonormal.

    Notes
    -----
    Rounding in transit leaves the vectors slightly off orthonormal. Attacks use the subspaces of the first 1, 2, ..., k
    columns, so the columns are orthonormalised in that order.

    Examples
    --------
    >>> as_components([[0.6, 0.8], [0.8, -0.6]]).vectors.round(3).tolist()
    [[0.6, 0.8], [0.8, -0.6]]
    """
    table = np.asarray(V, dtype=np.float64)
    if table.ndim != 2 or not 1 <= table.shape[1] <= table.shape[0]:
        raise Refusal(f"intercepted components must be columns, (d, k) with 1 <= k <= d, not {table.shape}")
    refuse_not_finite(table, "components")
    d, k = table.shape
    off = float(np.abs(table.T @ table - np.eye(k)).max())
    if off > MAX_NON_ORTHOGONALITY:
        raise Refusal(f"the columns are {off:.2g} away from orthonormal: pass unit vectors as columns (d, k)")
    Q, R = np.linalg.qr(table)
    centre = np.zeros(d) if mean is None else np.asarray(mean, dtype=np.float64)
    return Components(Q * np.where(np.diagonal(R) < 0, -1.0, 1.0), np.zeros(k), k, centre)
