"""Columns of a scipy.sparse table: which have two values, and which never change within a person.

Both decide what an unknown is, as for a table that is written out: a column of two values moves by the step between
them, and a value that never changes within a person is one unknown for all their rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.glm.linalg.sparse_table import Table


def steps_of_columns(X: Table) -> FloatArray:
    """(m,) the distance between the two values of each column of X (n, m); 0 for a column with more or fewer values.

    >>> steps_of_columns(sparse.csr_array([[0.0, 5.0, 1.0], [2.0, 0.0, 2.0], [0.0, 0.0, 3.0]])).tolist()
    [2.0, 5.0, 0.0]
    """
    entries, m = _entries(X), X.shape[1]
    zeros, low, high = _ranges(entries)
    between = (entries.data != low[entries.col]) & (entries.data != high[entries.col])
    more = np.bincount(entries.col, weights=between, minlength=m) > 0
    more |= zeros & (low != 0.0) & (high != 0.0)
    return np.where(more, 0.0, high - low)


def constant_columns(X: Table, ids: Sequence[Hashable]) -> Index:
    """Positions of the columns of X (n, m) that vary, but within nobody; none if nobody has several rows.

    >>> X = sparse.csr_array([[1.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 2.0, 0.0]])
    >>> constant_columns(X, ["ann", "ann", "bob"]).tolist()
    [0]
    """
    place = {person: k for k, person in enumerate(dict.fromkeys(ids))}
    person = np.array([place[name] for name in ids], dtype=np.int64)
    rows = np.bincount(person)
    if rows.max() < 2:
        return np.empty(0, dtype=np.intp)
    entries = _entries(X)
    m = X.shape[1]
    key = person[entries.row] * m + entries.col
    order = np.argsort(key, kind="stable")
    cells, first, count = np.unique(key[order], return_index=True, return_counts=True)
    values = entries.data[order]
    other = np.add.reduceat(values != np.repeat(values[first], count), first) if len(cells) else np.empty(0)
    changes = (count < rows[cells // m]) | (other > 0)
    _, low, high = _ranges(entries)
    return np.setdiff1d(np.flatnonzero(low < high), cells[changes] % m).astype(np.intp)


def _ranges(entries: Any) -> tuple[NDArray[np.bool_], FloatArray, FloatArray]:
    """(m,) whether each column has a zero, its lowest and its highest value."""
    n, m = entries.shape
    low, high = np.full(m, np.inf), np.full(m, -np.inf)
    np.minimum.at(low, entries.col, entries.data)
    np.maximum.at(high, entries.col, entries.data)
    zeros = np.bincount(entries.col, minlength=m) < n
    return zeros, np.where(zeros, np.minimum(low, 0.0), low), np.where(zeros, np.maximum(high, 0.0), high)


def _entries(X: Table) -> Any:
    """The entries that are not zero, each place once."""
    table = sparse.csr_array(X)
    table.sum_duplicates()
    table.eliminate_zeros()
    return sparse.coo_array(table)
