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
"""Bytes of a block as float64: each block is one product, and BLAS threads synchronise at the end of each."""


@dataclass(frozen=True, eq=False)
class Components:
    """Principal directions of a table, strongest first. The largest entry of each is positive.

    Exact components reveal who was in the table: they are internal unless noise was added before they were computed
    (see `release`).

    Examples
    --------
    >>> A = np.array([[2.0, 0.0], [0.0, 8.0]])
    >>> directions = components(A)
    >>> directions.values.tolist(), directions.vectors.tolist(), directions.rank
    ([8.0, 2.0], [[0.0, 1.0], [1.0, 0.0]], 2)
    """

    vectors: FloatArray
    """(d, k) orthonormal columns v₁, v₂, ..."""
    values: FloatArray
    """(k,) λ₁ >= λ₂ >= ... >= 0; negative values, which noise can cause, are set to 0."""
    rank: int
    """Number of columns that are directions of the data; the basis of the rest is arbitrary."""
    mean: FloatArray
    """(d,) what was subtracted from every row; zeros if nothing was."""

    def __post_init__(self) -> None:
        V, values, mean = (np.array(v, dtype=np.float64) for v in (self.vectors, self.values, self.mean))
        if V.ndim != 2 or values.shape != V.shape[1:] or mean.shape != V.shape[:1] or V.shape[1] > V.shape[0]:
            raise Refusal(
                f"vectors must be (d, k <= d), values (k,), mean (d,); not {V.shape}, {values.shape}, {mean.shape}"
            )
        if not all(np.isfinite(v).all() for v in (V, values, mean)) or not 0 <= self.rank <= V.shape[1]:
            raise Refusal(f"components must be finite and their rank at most their number, not {self.rank}")
        for name, value in (("vectors", V), ("values", values), ("mean", mean)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    def select(self, which: int | Sequence[int]) -> Components:
        """The components that an attacker intercepted: the top k, or a list of columns counted from 0.

        Parameters
        ----------
        which : int or sequence of int
            k, or the columns.

        Returns
        -------
        Components
            Only those columns.

        Raises
        ------
        Refusal
            If a column is repeated or is not a direction of the data.

        Examples
        --------
        >>> components(np.diag([4.0, 2.0, 1.0])).select([2, 0]).values.tolist()
        [1.0, 4.0]
        """
        columns = np.arange(which) if isinstance(which, int | np.integer) else np.asarray(which)
        if columns.ndim != 1 or not len(columns) or len(set(columns.tolist())) < len(columns):
            raise Refusal(f"select a number k >= 1 of components, or a list of different columns, not {which}")
        if columns.min() < 0 or columns.max() >= self.rank:
            raise Refusal(f"component {int(columns.max())} does not exist: the data have {self.rank}, counted from 0")
        return Components(self.vectors[:, columns], self.values[columns], len(columns), self.mean)

    def __repr__(self) -> str:
        d, k = self.vectors.shape
        return f"<Components: {k} of {d}, rank {self.rank}>"


def second_moment(
    X: ArrayLike, centre: ArrayLike | None = None, engine: Engine = _LOCAL, n: float | None = None
) -> FloatArray:
    """The second moment of a table about a point, A = Σ (x - c)(x - c)ᵀ / N.

    Parameters
    ----------
    X : array_like of shape (N, d)
        Rows of any real dtype.
    centre : array_like of shape (d,), optional
        c. Without it nothing is subtracted.
    engine : Engine
        Where the sums run; default: in this process.
    n : float, optional
        A public number to divide by, if the number of rows must stay private. Default: the number of rows.

    Returns
    -------
    ndarray of shape (d, d)
        A, exactly symmetric.

    Raises
    ------
    Refusal
        If a number is not finite, or the squares overflow.

    Notes
    -----
    Section 2.1 of [Zari22]. Sums are float64 and run block by block, so memory beyond A is one block.

    Examples
    --------
    >>> second_moment(np.array([[1, 2], [3, 4]], dtype=np.uint8)).tolist()
    [[5.0, 7.0], [7.0, 10.0]]
    """
    table = as_rows(X)
    return second_moment_of_blocks(_blocks(table), centre, engine, n)


def second_moment_of_blocks(
    blocks: Iterable[RowBlock], centre: ArrayLike | None = None, engine: Engine = _LOCAL, n: float | None = None
) -> FloatArray:
    """The second moment of rows that arrive block by block: from a file, or from elsewhere through the engine.

    Parameters
    ----------
    blocks : iterable of tuples
        Each block is (X,), X (n, d).
    centre, engine, n
        As in `second_moment`.

    Returns
    -------
    ndarray of shape (d, d)
        A = Σ (x - c)(x - c)ᵀ / N over all blocks.

    Raises
    ------
    Refusal
        As in `second_moment`.

    Examples
    --------
    >>> second_moment_of_blocks([(np.array([[1.0, 2.0]]),), (np.array([[3.0, 4.0]]),)]).tolist()
    [[5.0, 7.0], [7.0, 10.0]]
    """
    c = None if centre is None else np.asarray(centre, dtype=np.float64)
    total, rows = engine.sum_over(blocks, partial(_block_products, centre=c))
    return np.asarray(total / _divisor(rows, n))


def mean(X: ArrayLike, engine: Engine = _LOCAL) -> FloatArray:
    """Mean of the rows, in float64. Internal: like any exact statistic it leaks information about the rows.

    Parameters
    ----------
    X : array_like of shape (N, d)
        Rows of any real dtype.
    engine : Engine
        Where the sums run; default: in this process.

    Returns
    -------
    ndarray of shape (d,)

    Raises
    ------
    Refusal
        If a number is not finite, or the sum overflows.

    Notes
    -----
    The mean of a constant column is exactly that constant, so rounding cannot create a direction.

    Examples
    --------
    >>> mean([[1, 2], [3, 4]]).tolist()
    [2.0, 3.0]
    """
    table = as_rows(X)
    total, rows = engine.sum_over(_blocks(table), _block_sums)
    centre: FloatArray = total / rows
    first = np.asarray(table[0], dtype=np.float64)
    # Check again only means that rounding may have moved off the column's first number.
    near = np.flatnonzero((centre != first) & (np.abs(centre - first) <= 1e-6 * np.abs(first)))
    if len(near):
        unequal = sum(engine.map_over(_blocks(table[:, near]), partial(_count_unequal, first=table[0, near])))
        centre[near] = np.where(unequal == 0, first[near], centre[near])
    return centre


def components(A: ArrayLike, mean: ArrayLike | None = None) -> Components:
    """Principal components of a second moment, noisy or exact: its eigenvectors.

    Parameters
    ----------
    A : array_like of shape (d, d)
        Symmetric.
    mean : array_like of shape (d,), optional
        What was subtracted from the rows; default zeros. It is stored, not used.

    Returns
    -------
    Components
        In order of falling eigenvalue.

    Raises
    ------
    Refusal
        If A is not square, symmetric and finite.

    Notes
    -----
    Directions with |λ| <= d ε max|λ| come last (their basis is LAPACK's choice) and are not counted in `rank`. Negative
    eigenvalues of a noisy A are set to 0.

    Examples
    --------
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
    V = _fix_signs(vectors[:, order])
    centre = np.zeros(len(S)) if mean is None else np.asarray(mean, dtype=np.float64)
    return Components(V, np.where(null, 0.0, np.maximum(values, 0.0))[order], int(len(S) - null.sum()), centre)


def components_of(X: ArrayLike, *, centred: bool = True, engine: Engine = _LOCAL) -> Components:
    """Principal components of a table. Internal: they are exact.

    Parameters
    ----------
    X : array_like of shape (N, d)
        Rows of any real dtype.
    centred : bool, default True
        Use the covariance about the rows' mean; False: the second moment about 0, as [Zari22] does.
    engine : Engine
        Where the sums run; default: in this process.

    Returns
    -------
    Components

    Raises
    ------
    Refusal
        If a number is not finite, or the squares overflow.

    Examples
    --------
    >>> components_of([[0.0, 1.0], [0.0, 3.0]]).values.tolist()
    [1.0, 0.0]
    """
    table = as_rows(X)
    centre = mean(table, engine) if centred else None
    return components(second_moment(table, centre, engine), centre)


def as_rows(X: ArrayLike, name: str = "X") -> NDArray[Any]:
    """Rows (n, d) of a real dtype, not copied; entries are checked later, block by block."""
    table = np.asarray(X)
    if table.ndim != 2 or not table.size:
        raise Refusal(f"{name} must be rows of numbers (n, d) and not empty, not shape {table.shape}")
    if table.dtype.kind not in "fiub":
        raise Refusal(f"{name} must hold real numbers, not {table.dtype}")
    return table


def refuse_not_finite(values: NDArray[Any], name: str, first_row: int = 0) -> None:
    """Refuse nan and infinity, and name the cell."""
    bad = ~np.isfinite(values)
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise Refusal(f"{name}[{first_row + i}, {j}] is {values[i, j]}: fill or drop it first")


def _blocks(table: NDArray[Any]) -> Iterator[RowBlock]:
    """Views of the rows with their row numbers, so that a refusal can name the cell."""
    rows = rows_per_block(table.shape[1], _BLOCK)
    return split((table, np.arange(len(table))), rows)


def _block_products(block: RowBlock, centre: FloatArray | None) -> tuple[FloatArray, int]:
    """Σ (x - c)(x - c)ᵀ of one block, as a product with itself: BLAS then does half the work and keeps symmetry."""
    if centre is None:
        B = _as_float(block)
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


def _block_sums(block: RowBlock) -> tuple[FloatArray, int]:
    """The sum of each column, (d,)."""
    B = _as_float(block)
    with np.errstate(invalid="ignore", over="ignore"):
        total = B.sum(axis=0)
    if not np.isfinite(total).all():
        refuse_not_finite(B, "X", int(block[1][0]))
        raise Refusal(f"the sum of the rows overflows (largest entry {np.abs(B).max():g}): rescale the columns")
    return total, len(B)


def _count_unequal(block: RowBlock, first: NDArray[Any]) -> NDArray[np.intp]:
    """(d,) how many numbers of each column differ from the first."""
    return np.asarray((block[0] != first).sum(axis=0))


def _as_float(block: RowBlock) -> FloatArray:
    return np.asarray(block[0], dtype=np.float64)


def _divisor(rows: int, n: float | None) -> float:
    if n is None:
        return float(rows)
    if not (np.isfinite(n) and n > 0):
        raise Refusal(f"n, the public number of rows, must be > 0, not {n}")
    return float(n)


def _fix_signs(V: FloatArray) -> FloatArray:
    """Each column with the sign that makes its largest entry positive, the first of equals: a convention only."""
    largest = np.abs(V).argmax(axis=0)
    signs = np.where(np.take_along_axis(V, largest[None, :], axis=0)[0] < 0, -1.0, 1.0)
    return np.asarray(V * signs)
