"""Second moments and principal components, section 2.1 of [Zari22]: A = Σ (x - c)(x - c)ᵀ / N and its eigenvectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Engine, LocalEngine, RowBlock, rows_per_block, split
from dosimeter.core.errors import Refusal

_LOCAL = LocalEngine()
_BLOCK = 16 << 20
"""Bytes of a block as float64: each is one product, and several threads of BLAS meet at the end of each."""


@dataclass(frozen=True, eq=False)
class Components:
    """Directions in which the rows vary, the strongest first, each with the sign that makes its largest entry positive.

    Internal until noise was added to what they were computed from: exact components tell who was there.

    >>> A = np.array([[2.0, 0.0], [0.0, 8.0]])
    >>> found = components(A)
    >>> found.values.tolist(), found.vectors.tolist(), found.rank
    ([8.0, 2.0], [[0.0, 1.0], [1.0, 0.0]], 2)
    """

    vectors: FloatArray
    """(d, k) orthonormal columns v₁, v₂, ..."""
    values: FloatArray
    """(k,) λ₁ >= λ₂ >= ... >= 0; clamped at 0 where noise made them negative."""
    rank: int
    """How many of the columns are directions of the data; the basis of the rest is arbitrary."""
    mean: FloatArray
    """(d,) what was subtracted from every row; zeros where nothing was."""

    def __post_init__(self) -> None:
        V, values, mean = (np.array(v, dtype=np.float64) for v in (self.vectors, self.values, self.mean))
        if V.ndim != 2 or values.shape != V.shape[1:] or mean.shape != V.shape[:1] or V.shape[1] > V.shape[0]:
            raise Refusal(f"vectors (d, k <= d), values (k,), mean (d,); not {V.shape}, {values.shape}, {mean.shape}")
        if not all(np.isfinite(v).all() for v in (V, values, mean)) or not 0 <= self.rank <= V.shape[1]:
            raise Refusal(f"components are finite and their rank is at most their number, not {self.rank}")
        for name, value in (("vectors", V), ("values", values), ("mean", mean)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def seen(self, which: int | Sequence[int]) -> Components:
        """What is known to somebody who intercepted these: the top k, or a list of columns, counted from 0."""
        columns = np.arange(which) if isinstance(which, int | np.integer) else np.asarray(which)
        if columns.ndim != 1 or not len(columns) or len(set(columns.tolist())) < len(columns):
            raise Refusal(f"which components were seen: a number k >= 1 or a list of different columns, not {which}")
        if columns.min() < 0 or columns.max() >= self.rank:
            raise Refusal(
                f"component {int(columns.max())} is none of the {self.rank} that the data have (0 to rank - 1)"
            )
        return Components(self.vectors[:, columns], self.values[columns], len(columns), self.mean)

    def __repr__(self) -> str:
        d, k = self.vectors.shape
        return f"<Components: {k} of {d}, rank {self.rank}>"


def second_moment(
    X: ArrayLike, centre: ArrayLike | None = None, engine: Engine = _LOCAL, n: float | None = None
) -> FloatArray:
    """A = Σ (x - c)(x - c)ᵀ / N, (d, d), exactly symmetric, of rows X (N, d) of any real dtype.

    Sums are float64 and block by block: besides A no more memory is taken than a block needs. `centre` (d,) is c,
    nothing is subtracted without it; `n` is a public N where the number of rows is not to be told.

    >>> second_moment(np.array([[1, 2], [3, 4]], dtype=np.uint8)).tolist()
    [[5.0, 7.0], [7.0, 10.0]]
    """
    table = as_rows(X)
    return second_moment_of_blocks(_blocks(table), centre, engine, n)


def second_moment_of_blocks(
    blocks: Iterable[RowBlock], centre: ArrayLike | None = None, engine: Engine = _LOCAL, n: float | None = None
) -> FloatArray:
    """The same of rows that come block by block, each block (X,): from a file, or from elsewhere through the engine."""
    c = None if centre is None else np.asarray(centre, dtype=np.float64)
    total, rows = engine.sum_over(blocks, partial(_products, centre=c))
    return np.asarray(total / _divisor(rows, n))


def mean(X: ArrayLike, engine: Engine = _LOCAL) -> FloatArray:
    """Mean of the rows, (d,), in float64. It is released information about the rows like any other.

    A column of equal numbers has exactly that number for its mean: no rounding of its sum may pass for a direction.

    >>> mean([[1, 2], [3, 4]]).tolist()
    [2.0, 3.0]
    """
    table = as_rows(X)
    total, rows = engine.sum_over(_blocks(table), _sums)
    centre: FloatArray = total / rows
    first = np.asarray(table[0], dtype=np.float64)
    # Only a mean that rounding may have moved off the first number is looked at again.
    near = np.flatnonzero((centre != first) & (np.abs(centre - first) <= 1e-6 * np.abs(first)))
    if len(near):
        other = sum(engine.map_over(_blocks(table[:, near]), partial(_others, first=table[0, near])))
        centre[near] = np.where(other == 0, first[near], centre[near])
    return centre


def components(A: ArrayLike, mean: ArrayLike | None = None) -> Components:
    """Eigenvectors of a symmetric A (d, d), a second moment, noisy or not; `mean` is what was subtracted before.

    The order is that of the eigenvalues, falling. Directions that A does not have, |λ| <= d ε max|λ|, stand last (their
    basis is LAPACK's choice) and `rank` counts the others. Negative eigenvalues of a noisy A are written as 0.

    >>> components(np.diag([1.0, 0.0, 4.0])).rank
    2
    """
    S = np.asarray(A, dtype=np.float64)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or not S.size:
        raise Refusal(f"a second moment is a square matrix (d, d), not {S.shape}")
    refuse_not_finite(S, "the second moment")
    if not np.array_equal(S, S.T):
        raise Refusal("the second moment is not symmetric: draw the noise on one triangle and mirror it")
    values, vectors = np.linalg.eigh(S)
    null = np.abs(values) <= len(S) * np.finfo(np.float64).eps * np.abs(values).max()
    order = np.lexsort((-values, null))
    V = _signed(vectors[:, order])
    centre = np.zeros(len(S)) if mean is None else np.asarray(mean, dtype=np.float64)
    return Components(V, np.where(null, 0.0, np.maximum(values, 0.0))[order], int(len(S) - null.sum()), centre)


def components_of(X: ArrayLike, *, centred: bool = True, engine: Engine = _LOCAL) -> Components:
    """Components of rows X (N, d): of the covariance about their mean, or of the second moment as it is.

    >>> components_of([[0.0, 1.0], [0.0, 3.0]]).values.tolist()
    [1.0, 0.0]
    """
    table = as_rows(X)
    centre = mean(table, engine) if centred else None
    return components(second_moment(table, centre, engine), centre)


def as_rows(X: ArrayLike, what: str = "X") -> NDArray[Any]:
    """Rows (n, d) of a real dtype, not copied; their entries are looked at later, block by block."""
    table = np.asarray(X)
    if table.ndim != 2 or not table.size:
        raise Refusal(f"{what} must be rows of numbers (n, d) and not empty, not shape {table.shape}")
    if table.dtype.kind not in "fiub":
        raise Refusal(f"{what} must hold real numbers, not {table.dtype}")
    return table


def refuse_not_finite(values: NDArray[Any], what: str, first_row: int = 0) -> None:
    """Refuse nan and infinity, with their place."""
    bad = ~np.isfinite(values)
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise Refusal(f"{what}[{first_row + i}, {j}] is {values[i, j]}: fill or drop it first")


def _blocks(table: NDArray[Any]) -> Iterator[RowBlock]:
    """Views of the rows with their numbers, so that a refusal can name the place."""
    rows = rows_per_block(table.shape[1], _BLOCK)
    return split((table, np.arange(len(table))), rows)


def _products(block: RowBlock, centre: FloatArray | None) -> tuple[FloatArray, int]:
    """Σ (x - c)(x - c)ᵀ of one block; one factor given twice, so that BLAS takes half the work and keeps symmetry."""
    if centre is None:
        B = _float(block)
    elif centre.shape == block[0].shape[1:]:
        B = np.subtract(block[0], centre, dtype=np.float64)
    else:
        columns = block[0].shape[1]
        raise Refusal(f"the centre must have one number for each of {columns} columns, not shape {centre.shape}")
    with np.errstate(invalid="ignore", over="ignore"):
        S = B.T @ B
    if not np.isfinite(np.diagonal(S)).all():
        refuse_not_finite(B, "X", int(block[1][0]) if len(block) > 1 else 0)
        raise Refusal(f"the squares of the rows overflow (largest entry {np.abs(B).max():g}): rescale the columns")
    return S, len(B)


def _sums(block: RowBlock) -> tuple[FloatArray, int]:
    """The sum of each column, (d,)."""
    B = _float(block)
    with np.errstate(invalid="ignore", over="ignore"):
        total = B.sum(axis=0)
    if not np.isfinite(total).all():
        refuse_not_finite(B, "X", int(block[1][0]))
        raise Refusal(f"the sum of the rows overflows (largest entry {np.abs(B).max():g}): rescale the columns")
    return total, len(B)


def _others(block: RowBlock, first: NDArray[Any]) -> NDArray[np.intp]:
    """How many numbers of each column are not the first one's equal, (d,)."""
    return np.asarray((block[0] != first).sum(axis=0))


def _float(block: RowBlock) -> FloatArray:
    return np.asarray(block[0], dtype=np.float64)


def _divisor(rows: int, n: float | None) -> float:
    if n is None:
        return float(rows)
    if not (np.isfinite(n) and n > 0):
        raise Refusal(f"the public number of rows must be > 0, not {n}")
    return float(n)


def _signed(V: FloatArray) -> FloatArray:
    """Each column with the sign that makes its largest entry positive, the first of equals: a convention, no data."""
    largest = np.abs(V).argmax(axis=0)
    signs = np.where(np.take_along_axis(V, largest[None, :], axis=0)[0] < 0, -1.0, 1.0)
    return np.asarray(V * signs)
