"""The words of a row about whose counts a release says most, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.models.table_leakage import TableLeakage

ROWS = 10
"""Rows that are read if none are named: those whose texts leak most."""


@dataclass(frozen=True)
class WordFigure:
    """One word of one row, or one column of a sparse table."""

    row: int
    """Position from 0."""
    column: str
    """The source column."""
    word: str
    count: float
    eta: float
    """Of its count; at noise of scale 1 for an exact release."""


def worst_words(leak: TableLeakage, rows: Any = None, k: int = 10, *, absent: bool = False) -> list[WordFigure]:
    """The k words of each row with the highest η, highest first; words that do not occur if `absent`.

    rows: positions; without them the rows whose texts leak most.
    """
    if not leak.texts:
        raise CannotMeasure("the table has no texts and no sparse columns, so no words: read `cells`")
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise Refusal(f"k must be a number of words >= 1, not {k!r}")
    figures = []
    for row in _rows(leak, rows).tolist():
        cells = cells_of(leak, row)
        mine: list[WordFigure] = []
        for source in leak.texts:
            words: Any = leak.design.words[source]  # type: ignore[attr-defined]
            eta = cells[list(leak.design.blocks[source])]
            counts = np.asarray(words.counts[[row]].toarray(), dtype=np.float64).ravel()
            chosen = np.flatnonzero(counts == 0 if absent else counts != 0)
            order = chosen[np.argsort(-eta[chosen], kind="stable")][:k]
            mine += [WordFigure(row, source, words.names[j], float(counts[j]), float(eta[j])) for j in order.tolist()]
        figures += sorted(mine, key=lambda figure: -figure.eta)[:k]
    return figures


def cells_of(leak: TableLeakage, row: int) -> FloatArray:
    """(m,) the norm of every unknown of one row: η if the release has noise."""
    jacobian: Any = leak.leak.jacobian
    index = np.array([row], dtype=np.intp)
    if hasattr(jacobian, "cell_bracket"):
        return np.asarray(jacobian.cell_bracket(index)[1][0])
    if hasattr(jacobian, "cells_of"):
        return np.asarray(jacobian.cells_of(index)[0])
    J = jacobian.dense(index)[0, :, : leak.leak.m]
    return np.asarray(np.linalg.norm(J, axis=0))


def _rows(leak: TableLeakage, rows: Any) -> Index:
    if rows is None:
        figures = np.max([leak.leak.jacobian.row_norms(_block(leak, name), False) for name in leak.texts], axis=0)
        return np.argsort(-figures, kind="stable")[:ROWS].astype(np.intp)
    index = np.atleast_1d(np.asarray(rows))
    if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= leak.leak.n:
        raise Refusal(f"rows are positions from 0 to {leak.leak.n - 1}, not {rows!r}")
    return index.astype(np.intp)


def _block(leak: TableLeakage, name: str) -> Index:
    return np.array(leak.design.blocks[name], dtype=np.intp)
