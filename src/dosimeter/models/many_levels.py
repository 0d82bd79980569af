"""A category of thousands of levels in a fit of our own: a sparse table of indicators, with the figures of the simplex.

A fit has the coordinates V (k, k - 1) of a category's levels (`core/category.py`), which fill a whole table. √2 V has
orthonormal columns, so weights v of the coordinates and w = √2 V v of the indicators e/√2 have the same margins and the
same length: the penalty is the same, an unpenalised intercept makes the minimal w sum to zero, and noise on w tells
what noise on v does. Every figure is that of the coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import coordinates, simplex
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.fitting.wide_softmax_fit import MOST
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.learned_encoding import MAX_LEVELS
from dosimeter.tables.table import Table

FEW_LEVELS = 8
"""Levels up to which coordinates are as good as indicators."""
SIZE = float(np.sqrt(0.5))
"""The value of an indicator."""
HELD = (
    "{columns}: indicators of {levels} levels, which are not written out; a mean and deviation of the table are held "
    "fixed here, and what they leave at any noise is stated beside the figures"
)

MayBeSparse = Callable[[Loss, int], bool]
"""Loss, rows -> whether a sparse table can be fitted."""


def has_sparse_fit(l2: float | None) -> MayBeSparse:
    """For a stated penalty, or the default one: a convex loss of one margin with a penalty above 0."""

    def of(loss: Loss, n: int) -> bool:
        return isinstance(loss, glm.ScalarLoss) and loss.convex and glm.penalty(loss, n, l2).l2 > 0

    return of


def has_many_levels(columns: TableEncoding) -> bool:
    """Whether the table is to be sparse; refused if it has more weights than a matrix of them can be decomposed for."""
    large = [label for label in columns.labels if len(label.levels) > MAX_LEVELS]
    if large and len(columns.names) >= MOST:
        raise Refusal(
            f"the columns have {len(columns.names)} weights and at most {MOST - 1} are taken: pool rare levels of "
            f"{safe_list([label.name for label in large])}, or pass {option('exclude')}"
        )
    return bool(large)


def many_levels_remark(columns: TableEncoding) -> str:
    """What was done with them."""
    large = [label for label in columns.labels if len(label.levels) > MAX_LEVELS]
    names = safe_list([label.name for label in large])
    return HELD.format(columns=names, levels=", ".join(f"{len(label.levels):,}" for label in large))


def indicator_table(columns: TableEncoding, table: Table) -> sparse.csr_array:
    """(n, d') the design with indicators of the larger categories."""
    parts = [
        _indicators(source, table) if _is_wide(source) else source.design(table)  # type: ignore[call-arg]
        for source in columns.sources
    ]
    return sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts]))


def _is_wide(source: ColumnEncoding) -> TypeGuard[CategoryColumn]:
    return isinstance(source, CategoryColumn) and len(source.levels) > FEW_LEVELS


def _indicators(label: CategoryColumn, table: Table) -> sparse.csr_array:
    codes = label.codes(table)
    ends = np.arange(len(codes) + 1)
    return sparse.csr_array((np.full(len(codes), SIZE), codes, ends), shape=(len(codes), len(label.levels)))


def indicator_names(columns: TableEncoding) -> tuple[str, ...]:
    """(d',) the columns of `indicator_table`."""
    return tuple(
        name
        for s in columns.sources
        for name in ([f"{s.name}={level}" for level in s.levels] if _is_wide(s) else s.names)
    )


def indicator_map(columns: TableEncoding, scales: FloatArray) -> FloatArray:
    """(d', m) how the columns of `indicator_table` move with the unknowns; scales (m,) of those that are not levels."""
    spans = _spans(columns)
    out = np.zeros((spans[-1][1].stop, spans[-1][2].stop))
    for source, rows, unknowns in spans:
        if _is_wide(source):
            out[rows, unknowns] = np.sqrt(2.0) * simplex(rows.stop - rows.start)
        else:
            np.fill_diagonal(out[rows, unknowns], scales[unknowns])
    return out


def spread_over(columns: TableEncoding, values: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(d',) a mark of each number, from (m,) marks; none of a level."""
    spans = _spans(columns)
    out = np.zeros(spans[-1][1].stop, dtype=bool)
    for source, rows, unknowns in spans:
        if not _is_wide(source):
            out[rows] = values[unknowns]
    return out


def coordinate_weights(columns: TableEncoding, w: FloatArray) -> FloatArray:
    """(m + 1,) the weights of the coordinates, the intercept last, from those of `indicator_table` (d' + 1,)."""
    parts = [coordinates(w[rows]) / np.sqrt(2.0) if _is_wide(s) else w[rows] for s, rows, _ in _spans(columns)]
    return np.concatenate([*parts, w[-1:]])


def _spans(columns: TableEncoding) -> list[tuple[ColumnEncoding, slice, slice]]:
    """Of each source: its columns in `indicator_table`, and its unknowns."""
    spans, column, unknown = [], 0, 0
    for source in columns.sources:
        size, width = len(source.names), len(source.names) + _is_wide(source)
        spans.append((source, slice(column, column + width), slice(unknown, unknown + size)))
        column, unknown = column + width, unknown + size
    return spans
