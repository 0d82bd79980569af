"""Tables that differ from the fitted one in one row each, for a single margin: docs/explanation/attacks.md, 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.losses.loss import ScalarLoss

CELLS = 1 << 20
"""Numbers in one temporary array: 8 MB."""
CACHE = 1 << 18
"""Numbers in a temporary array that is read several times: 2 MB stays in a cache, and is enough for a product."""


@dataclass(frozen=True, eq=False)
class RowChanges:
    """N tables that differ from the fitted one in one row each: (ω, x, y) has become (ω', x', y).

    In coordinates c, new weights = w + A c with A Aᵀ = H⁻¹, the fitted table's Hessian is the identity and the row adds
    V C Vᵀ with V = [z, e], z = Aᵀx̃, e = Aᵀ(x̃' - x̃). With e instead of x̃', nothing cancels as x' nears x, and an
    unchanged row moves nothing to the last bit.
    """

    loss: ScalarLoss
    z: FloatArray
    """(N, p)."""
    e: FloatArray
    """(N, p)."""
    y: FloatArray
    """(N,)."""
    margin: FloatArray
    """(N,) w·x̃."""
    margin_change: FloatArray
    """(N,) w·(x̃' - x̃)."""
    residual: FloatArray
    """(N,) of the row before the change."""
    old_weight: FloatArray
    """(N,) ω."""
    new_weight: FloatArray
    """(N,) ω'; 0 removes the row."""

    def part(self, some: slice | Index) -> RowChanges:
        """Some of the N."""
        arrays = {f.name: getattr(self, f.name)[some] for f in fields(self) if f.name != "loss"}
        return replace(self, **arrays)

    def _coupling(self) -> tuple[FloatArray, FloatArray]:
        """(N,) ω'a' - ωa and (N,) ω'a'."""
        after = weighted(self.new_weight, self.loss.curvature(self.margin + self.margin_change, self.y))
        return after - weighted(self.old_weight, self.loss.curvature(self.margin, self.y)), after

    @property
    def definiteness(self) -> FloatArray:
        """(N,) det(H')/det(H): 0 if the change leaves the weights undetermined."""
        return self._matrix()[-1]

    def _matrix(self) -> tuple[FloatArray, ...]:
        """The entries of 1 + C G (2, 2) for each of N, G the Gram matrix of V, and its determinant."""
        h, f, g = (np.einsum("np,np->n", u, v) for u, v in ((self.z, self.z), (self.z, self.e), (self.e, self.e)))
        change, after = self._coupling()
        a, b = 1 + change * h + after * f, change * f + after * g
        c, d = after * (h + f), 1 + after * (f + g)
        return a, b, c, d, a * d - b * c

    def _solve(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """(N, p) V (1 + C G)⁻¹ [first, second]."""
        a, b, c, d, determinant = self._matrix()
        along_z, along_e = (d * first - b * second) / determinant, (a * second - c * first) / determinant
        return along_z[:, None] * self.z + along_e[:, None] * self.e

    def step(self) -> FloatArray:
        """(N, p) c of one Newton step on the changed table: the minimiser itself for the squared loss."""
        residual_change = self.margin_change if self.loss.quadratic else self._residual_change(np.zeros_like(self.z))
        after = self.residual + residual_change
        return -self._solve(
            (self.new_weight - self.old_weight) * self.residual + weighted(self.new_weight, residual_change),
            weighted(self.new_weight, after),
        )

    def _residual_change(self, c: FloatArray) -> FloatArray:
        margin = self.margin + np.einsum("np,np->n", self.z, c)
        change = self.margin_change + np.einsum("np,np->n", self.e, c)
        return self.loss.residual(margin + change, self.y) - self.loss.residual(margin, self.y)

    def gradient(self, c: FloatArray, fit: Fit, Z: FloatArray) -> FloatArray:
        """(N, p) of the changed tables' eq. 13 at w + A c; Z (n, p) = X̃ A.

        The fitted table's own gradient is c + Zᵀω(r(m + t) - r(m) - a t), t = Zc, since it vanishes at c = 0 and its
        Hessian there is the identity; the penalty does not appear.
        """
        total = c.copy()
        for part in parts(len(Z), len(c), CACHE):
            t = Z[part] @ c.T
            bend = self.loss.residual_change(fit.margin[part, None], t, fit.y[part, None])
            t *= fit.curvature[part, None]
            bend -= t
            bend *= fit.sample_weight[part, None]
            total += bend.T @ Z[part]
        residual_before = self.loss.residual(self.margin + np.einsum("np,np->n", self.z, c), self.y)
        residual_after = residual_before + self._residual_change(c)
        after = weighted(self.new_weight, residual_after)
        total += (after - weighted(self.old_weight, residual_before))[:, None] * self.z
        return np.asarray(total + after[:, None] * self.e)

    def chord(self, g: FloatArray) -> FloatArray:
        """(N, p) (1 + V C Vᵀ)⁻¹ g: the Newton direction with the corrected Hessian at the fitted weights."""
        change, after = self._coupling()
        along_z, along_e = np.einsum("np,np->n", self.z, g), np.einsum("np,np->n", self.e, g)
        both = after * (along_z + along_e)
        return g - self._solve(both + (change - after) * along_z, both)


def weighted(weight: FloatArray, values: FloatArray) -> FloatArray:
    """weight (N,) times values (N, ...), 0 for a row without weight even if its margin has no value there."""
    each = weight.reshape(-1, *[1] * (values.ndim - 1))
    return np.asarray(each * np.where(each > 0, values, 0.0))


def row_index(rows: Any, n: int) -> Index:
    """(k,) positions of the chosen rows, in the order given; all if None."""
    if rows is None:
        return np.arange(n, dtype=np.intp)
    index = np.atleast_1d(np.asarray(rows))
    if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= n:
        raise Refusal(f"rows must be positions from 0 to {n - 1}")
    return index.astype(np.intp)


def parts(n: int, width: int, cells: int = CELLS) -> Iterator[slice]:
    """Consecutive slices of n items that hold `width` numbers each."""
    size = max(1, cells // max(1, width))
    return (slice(start, min(n, start + size)) for start in range(0, n, size))
