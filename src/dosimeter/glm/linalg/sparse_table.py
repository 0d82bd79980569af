"""A table of numbers as a dense array or as rows of scipy.sparse: its checks, and the products that wide tables need.

A sparse table is never written out: the largest dense array made here is (n, n), (d, d) or a block of vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.validation import HUGE, TINY, as_floats, check_table

Table = Any
"""(n, d): a float64 array, or a `scipy.sparse.csr_array` in canonical form without stored zeros."""

BLOCK = 512
"""Rows whose products with all others are formed at a time."""


def is_sparse(X: Any) -> bool:
    """Whether this is a scipy.sparse table, of any format."""
    return bool(sparse.issparse(X))


def as_table(X: Any, name: str = "X") -> Table:
    """A float64 array, or canonical float64 rows; the argument is never changed, and shared if it is in that form.

    >>> as_table(sparse.coo_array([[0.0, 2.0], [1.0, 0.0]])).toarray()
    array([[0., 2.],
           [1., 0.]])
    """
    if not is_sparse(X):
        return as_floats(X, name)
    if X.dtype.kind not in "fiub":
        raise Refusal(f"{name} must hold real numbers, not {X.dtype}")
    if len(X.shape) != 2:
        raise Refusal(f"{name} must be a table with rows and columns, not of shape {X.shape}")
    rows = sparse.csr_array(X, dtype=np.float64)
    if not rows.has_canonical_format or (rows.data == 0).any():
        rows = rows.copy()
        rows.sum_duplicates()
        rows.eliminate_zeros()
    return rows


def check_wide(X: Any, y: Any, sample_weight: Any = None) -> tuple[Table, FloatArray, FloatArray]:
    """X (n, d), y (n,), ω (n,): checks as in `linalg/validation.py`, for a sparse table on its stored numbers."""
    if not is_sparse(X):
        return check_table(X, y, sample_weight)
    X = as_table(X)
    if 0 in X.shape:
        raise Refusal(f"X must be a table with rows and columns, not of shape {X.shape}")
    if not np.isfinite(X.data).all():
        position = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row = int(np.searchsorted(X.indptr, position, side="right")) - 1
        raise Refusal(
            f"X has a value that is not finite at row {row}, column {X.indices[position]}: remove or impute it"
        )
    largest = column_sizes(X)
    odd = (largest > HUGE) | ((largest > 0) & (largest < TINY))
    if odd.any():
        j = int(np.flatnonzero(odd)[0])
        raise Refusal(f"column {j} reaches {largest[j]:.3g}: rescale it (sizes from {TINY:g} to {HUGE:g} are accepted)")
    _, y, weight = check_table(np.ones((X.shape[0], 1)), y, sample_weight)
    return X, y, weight


def column_sizes(X: Table) -> FloatArray:
    """(d,) the largest |x| of each column."""
    if is_sparse(X):
        return np.asarray(abs(X).max(axis=0).toarray(), dtype=np.float64).ravel()
    return np.asarray(np.maximum(X.max(axis=0), -X.min(axis=0)))


def row_squares(X: Table) -> FloatArray:
    """(n,) ||x||² of each row."""
    if is_sparse(X):
        return np.asarray((X * X).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("nd,nd->n", X, X))


def column_squares(X: Table, weight: FloatArray) -> FloatArray:
    """(d,) Σ weight x² of each column."""
    if is_sparse(X):
        return np.asarray((X * X).T @ weight, dtype=np.float64)
    return np.asarray(np.einsum("n,nd,nd->d", weight, X, X))


def reach(X: Table, w: FloatArray) -> FloatArray:
    """(n,) Σ|xⱼ wⱼ| of each row, w (d,): the size against which rounding of a margin is judged."""
    if is_sparse(X):
        return np.asarray(abs(X) @ np.abs(w))
    return np.concatenate([np.abs(X[i : i + BLOCK]) @ np.abs(w) for i in range(0, len(X), BLOCK)])


def gram_of_rows(X: Table) -> FloatArray:
    """X Xᵀ, (n, n)."""
    if not is_sparse(X):
        return np.asarray(X @ X.T)
    n = X.shape[0]
    out = np.empty((n, n))
    for i in range(0, n, BLOCK):
        out[:, i : i + BLOCK] = (X @ X[i : i + BLOCK].T).toarray()
    return out


def weighted_gram(X: Table, weight: FloatArray) -> FloatArray:
    """Xᵀ diag(weight) X, (d, d)."""
    if not is_sparse(X):
        scaled = np.sqrt(weight)[:, None] * X
        return np.asarray(scaled.T @ scaled)
    return np.asarray((X.T @ (sparse.diags_array(weight) @ X)).toarray())


def dense_rows(X: Table, rows: Any) -> FloatArray:
    """(k, d) some rows, written out."""
    return np.asarray(X[rows].toarray() if is_sparse(X) else X[rows])


def dense_columns(X: Table, columns: Any) -> FloatArray:
    """(n, k) some columns, written out."""
    return np.asarray(X[:, columns].toarray() if is_sparse(X) else X[:, columns])


def fingerprint_direction(X: Table) -> FloatArray:
    """(d,) fixed cosines divided by the columns' sizes, as in `fitting/fit.py`."""
    largest = column_sizes(X)
    return np.asarray(np.cos(1.0 + np.arange(len(largest))) / np.where(largest > 0, largest, 1.0))
