"""H⁻¹ = A Aᵀ without squaring the condition number.

H = X̃ᵀ diag(weight) X̃ + diag(penalty). Cholesky of H loses cond(X)². Here the columns are made nearly orthogonal first
and the Gram matrix is taken again (shifted Cholesky QR, Fukaya et al. 2020). A float64 basis T cannot make X̃T
orthonormal better than ε cond(X), so it need not: with G = TᵀHT from exact products, H⁻¹ = T G⁻¹ Tᵀ holds exactly for
any T, and G is close to the identity. Every pass is a sum over blocks of rows, so any engine can run it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, RowBlock
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.exact_product import exact_product

LIMIT = 1e14
"""Condition numbers above this are refused: no digit of the smallest direction is certain in float64 data."""

EASY = 1e4
"""Below this a plain product is good to 1e-12 and one pass suffices."""

PASSES = 12
"""Two are usual; each gains at least six decades, so after twelve there is nothing left to gain."""


def times(X: FloatArray, T: FloatArray, exact: bool = False) -> FloatArray:
    """X̃ T for rows X (n, d): T has d rows, or d + 1 if the last belongs to the intercept."""
    d = X.shape[1]
    if T.shape[0] == d:
        return exact_product(X, T) if exact else X @ T
    if exact:
        return exact_product(np.column_stack([X, np.ones(len(X))]), T)
    return np.asarray(X @ T[:d] + T[d])


def gram(Z: FloatArray, weight: FloatArray) -> FloatArray:
    """Zᵀ diag(weight) Z, (p, p); one symmetric product, two if some weights are negative."""
    if weight.min(initial=0.0) < 0:
        return gram(Z, np.maximum(weight, 0.0)) - gram(Z[weight < 0], -weight[weight < 0])
    scaled = np.sqrt(weight)[:, None] * Z
    return scaled.T @ scaled


def rows_and_last(block: RowBlock) -> tuple[FloatArray, FloatArray]:
    """X and the weights of a block (X, ..., weight)."""
    return block[0], block[-1]


Weigh = Callable[[RowBlock], tuple[FloatArray, FloatArray]]
"""A block -> its rows X and their weights in the Hessian."""


def column_scale(
    blocks: Iterable[Any], penalty: FloatArray, engine: Engine, weigh: Weigh = rows_and_last
) -> FloatArray:
    """(p,) norms of the columns of the augmented matrix; a zero column is refused."""
    squares = engine.sum_over(blocks, partial(column_squares, p=len(penalty), weigh=weigh))[0]
    norms = np.sqrt(squares + penalty)
    if not (norms > 0).all():
        j = int(np.flatnonzero(~(norms > 0))[0])
        raise Refusal(f"column {j} is zero in every row, so its weight is not determined: drop it or use l2 > 0")
    return np.asarray(norms)


def column_squares(block: RowBlock, p: int, weigh: Weigh) -> tuple[FloatArray]:
    """(p,) weighted sums of squares of the columns; the intercept is the last."""
    X, weight = weigh(block)
    weight = np.abs(weight)  # a curvature may be negative; its size is what scales a column
    total = np.full(p, weight.sum())
    total[: X.shape[1]] = weight @ (X * X)
    return (total,)


@dataclass(frozen=True, eq=False)
class Factor:
    """A = basis · mixing with A Aᵀ = H⁻¹. Rows meet the basis first, exactly; see the top of the file."""

    basis: FloatArray
    """T (p, p)."""
    mixing: FloatArray
    """L⁻ᵀ (p, p) of TᵀHT = L Lᵀ."""
    condition: float
    """Condition number of the column-scaled problem."""

    @cached_property
    def matrix(self) -> FloatArray:
        """A (p, p), for products from the left, where rounding is harmless."""
        return self.basis @ self.mixing

    @property
    def easy(self) -> bool:
        """Whether plain products keep their digits."""
        return self.condition <= EASY

    def rows(self, X: FloatArray, M: FloatArray | None = None) -> FloatArray:
        """x̃ A M of rows X (n, d), (n, k); M is the identity if None."""
        if self.easy:
            return times(X, self.matrix if M is None else self.matrix @ M)
        return times(X, self.basis, exact=True) @ (self.mixing if M is None else self.mixing @ M)

    def columns(self, P: FloatArray) -> FloatArray:
        """AᵀP, (p, m)."""
        return self.mixing.T @ (self.basis.T @ P)


def inverse_factor(
    blocks: Iterable[Any],
    penalty: FloatArray,
    engine: Engine,
    start: FloatArray | None = None,
    weigh: Weigh = rows_and_last,
) -> Factor:
    """The factor of H⁻¹; blocks hold (X, ..., weight), penalty (p,) is nλ on each penalised parameter."""
    norms = column_scale(blocks, penalty, engine, weigh)
    T = np.diag(1.0 / norms) if start is None else start
    exact = False
    for _ in range(PASSES):
        G = _gram_in(T, blocks, penalty, engine, exact, weigh)
        eigenvalues: FloatArray = np.asarray(np.linalg.eigvalsh(G), dtype=np.float64)
        spread = eigenvalues[-1] / eigenvalues[0] if eigenvalues[0] > 1e-300 else np.inf
        mixing = _inverse_triangle(G, eigenvalues)
        improved = T @ mixing
        condition = _condition(norms, improved)
        if condition > LIMIT:
            raise Refusal(_dependent_columns_message(norms, improved))
        if spread <= EASY and (exact or condition <= EASY):
            return Factor(T, mixing, condition)
        T, exact = improved, condition > EASY and spread < 1e12
    raise Refusal(_dependent_columns_message(norms, T))


def factor_in(T: FloatArray, G: FloatArray) -> Factor | None:
    """The factor from G = TᵀHT (p, p) that was summed already; None if a plain sum has too few digits."""
    eigenvalues: FloatArray = np.asarray(np.linalg.eigvalsh(G), dtype=np.float64)
    if not eigenvalues[0] > 0 or eigenvalues[-1] > EASY * eigenvalues[0]:
        return None
    back = np.linalg.inv(T)
    norms = np.sqrt(np.einsum("pi,pq,qi->i", back, G, back))
    mixing = _inverse_triangle(G, eigenvalues)
    condition = _condition(norms, T @ mixing)
    return Factor(T, mixing, condition) if condition <= EASY else None


def tame_factor(H: FloatArray) -> Factor:
    """The factor of H⁻¹ from H (p, p) itself: as good as `inverse_factor` if the condition number squared is easy."""
    norms = np.sqrt(np.diag(H))
    G = H / norms / norms[:, None]
    mixing = _inverse_triangle(G, np.asarray(np.linalg.eigvalsh(G), dtype=np.float64))
    T = np.diag(1.0 / norms)
    return Factor(T, mixing, _condition(norms, T @ mixing))


def _gram_in(
    T: FloatArray, blocks: Iterable[Any], penalty: FloatArray, engine: Engine, exact: bool, weigh: Weigh
) -> FloatArray:
    (G,) = engine.sum_over(blocks, partial(block_gram, T=T, exact=exact, weigh=weigh))
    roots = np.sqrt(penalty)[:, None] * T
    return np.asarray(G + roots.T @ roots)


def block_gram(block: RowBlock, T: FloatArray, exact: bool, weigh: Weigh) -> tuple[FloatArray]:
    """(p, p) the Gram matrix of the rows in the basis T."""
    X, weight = weigh(block)
    return (gram(times(X, T, exact), weight),)


def _inverse_triangle(G: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    """L⁻ᵀ of G = L Lᵀ, shifted if rounding made G indefinite (the next pass removes the shift)."""
    floor = 100 * len(G) * np.finfo(float).eps * eigenvalues[-1]
    shift = max(0.0, floor - eigenvalues[0]) if eigenvalues[0] < floor else 0.0
    L = cholesky(G + shift * np.eye(len(G)), lower=True)
    return np.asarray(solve_triangular(L, np.eye(len(G)), lower=True).T)


def _condition(norms: FloatArray, T: FloatArray) -> float:
    s = np.linalg.svd(norms[:, None] * T, compute_uv=False)
    return float(s[0] / s[-1]) if s[-1] > 0 else np.inf


def _dependent_columns_message(norms: FloatArray, T: FloatArray) -> str:
    """The message, naming the columns that the weakest direction mixes."""
    U, _, _ = np.linalg.svd(norms[:, None] * T)
    mix = np.abs(U[:, 0])
    mixed = np.flatnonzero(mix > 0.1 * mix.max())
    listed = ", ".join(map(str, mixed[:6])) + (", ..." if len(mixed) > 6 else "")
    return (
        f"the columns are linearly dependent, or too nearly for float64 (columns {listed}; the intercept counts as "
        "the last), so there is no unique minimiser: drop one of them or use l2 > 0"
    )
