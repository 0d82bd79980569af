"""Parts of maps that differ from row to row: slopes of numbers, and categories by their levels; see `row_maps.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.category import at_levels, coordinates
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.validation import HUGE
from dosimeter.glm.row_maps.row_chain import RowChain

RowValues = Callable[[Index], FloatArray]
"""Positions of rows (k,) -> (k, ...)."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Entries of the maps that differ from row to row: dx/dz of pairs of a column and an unknown.

    Parameters
    ----------
    columns : array of int, shape (e,)
        The column of X of each entry.
    unknowns : array of int, shape (e,)
        The unknown of each entry, in ascending order.
    values : callable
        Positions of rows (k,) -> their entries (k, e).

    Examples
    --------
    x = z² for one column:

    >>> z = np.array([1.0, 3.0])
    >>> Slopes(np.array([0]), np.array([0]), lambda rows: 2 * z[rows, None]).values(np.array([1]))
    array([[6.]])
    """

    columns: Index
    unknowns: Index
    values: RowValues

    @cached_property
    def by_unknown(self) -> list[tuple[int, slice]]:
        """Each unknown and the places of its entries."""
        ends = np.flatnonzero(np.diff(self.unknowns, append=-1)) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return [(int(self.unknowns[a]), slice(int(a), int(b))) for a, b in zip(starts, ends, strict=True)]

    @cached_property
    def by_column(self) -> tuple[Index, Index, Index]:
        """The entries in the order of their columns, where each column starts, and the columns."""
        order = np.argsort(self.columns, kind="stable").astype(np.intp)
        columns = self.columns[order]
        starts = np.flatnonzero(np.diff(columns, prepend=-1)).astype(np.intp)
        return order, starts, columns[starts]

    def narrow(self, position_of: dict[int, int]) -> Slopes:
        """Only the entries of some unknowns, at their new positions."""
        kept = np.array([e for e, u in enumerate(self.unknowns.tolist()) if u in position_of], dtype=np.intp)
        places = np.array([position_of[u] for u in self.unknowns[kept].tolist()], dtype=np.intp)
        kept = kept[np.argsort(places, kind="stable")]
        return Slopes(self.columns[kept], np.sort(places), lambda rows: self.values(rows)[:, kept])


@dataclass(frozen=True, eq=False)
class Levels:
    """Columns of X at every level of one category, row by row: the step between two levels is their difference.

    Parameters
    ----------
    columns : array of int, shape (c,)
        The columns of X that depend on the category.
    unknowns : array of int, shape (j,)
        Its unknowns: the coordinates of its K levels on a simplex (`core/category.py`).
    values : callable
        Positions of rows (k,) -> these columns at every level (k, c, K).
    kept : array of int, shape (j,)
        Which of the K - 1 coordinates these unknowns are.
    roots : callable, optional
        Positions of rows (k,) -> `level_roots` of the values (k, c, c), if they are kept; computed if None.
    complete : bool, default True
        Whether all of its coordinates are here.

    Examples
    --------
    One column is 0, 5 or 2 at three levels, on every row:

    >>> three = Levels(np.array([0]), np.array([0, 1]), lambda rows: np.tile([[[0.0, 5.0, 2.0]]], (len(rows), 1, 1)),
    ...                np.array([0, 1]))
    >>> three.root(np.array([0])).round(3)                       # √(2 Σ (x - mean)²)
    array([[[5.033]]])
    """

    columns: Index
    unknowns: Index
    values: RowValues
    kept: Index
    roots: RowValues | None = None
    complete: bool = True

    def root(self, rows: Index) -> FloatArray:
        """(k, c, c) R with R Rᵀ = P Pᵀ of the map from all its coordinates."""
        return level_roots(self.values(rows)) if self.roots is None else self.roots(rows)

    def narrow(self, position_of: dict[int, int]) -> Levels:
        """Only some of the unknowns, at their new positions."""
        chosen = np.array([e for e, u in enumerate(self.unknowns.tolist()) if u in position_of], dtype=np.intp)
        places = np.array([position_of[u] for u in self.unknowns[chosen].tolist()], dtype=np.intp)
        complete = self.complete and len(chosen) == len(self.unknowns)
        return replace(self, unknowns=places, kept=self.kept[chosen], complete=complete)


def level_roots(points: FloatArray) -> FloatArray:
    """(k, c, c) R with R Rᵀ = P Pᵀ, P (c, K - 1) the map that takes K levels to points (k, c, K).

    P = 2 X V, so P Pᵀ = 2 Σ (x_a - x̄)(x_a - x̄)ᵀ over the levels: norms need c columns, however many levels there are.
    """
    away = points - points.mean(axis=2, keepdims=True)
    values, vectors = np.linalg.eigh(2.0 * (away @ away.transpose(0, 2, 1)))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])


@dataclass(frozen=True, eq=False)
class BlockMap:
    """The maps of k rows: products with P and with its transpose."""

    constant: FloatArray
    slopes: tuple[tuple[Slopes, FloatArray], ...]
    levels: tuple[tuple[Levels, FloatArray], ...]
    chains: tuple[RowChain, ...] = ()
    has_constant: bool = True

    def times(self, x: FloatArray) -> FloatArray:
        """(k, d) P x, x (k, m)."""
        out = x @ self.constant.T if self.has_constant else np.zeros((len(x), len(self.constant)))
        for part, values in self.slopes:
            order, starts, columns = part.by_column
            out[:, columns] += np.add.reduceat((values * x[:, part.unknowns])[:, order], starts, axis=1)
        for levels, values in self.levels:
            whole = np.zeros((len(x), values.shape[2] - 1))
            whole[:, levels.kept] = x[:, levels.unknowns]
            out[:, levels.columns] += (values @ (2.0 * at_levels(whole))[:, :, None])[:, :, 0]
        for chain in self.chains:
            out[:, chain.columns] += chain.times(x[:, chain.unknowns])
        return np.asarray(out)

    def transposed(self, z: FloatArray) -> FloatArray:
        """(k, m) Pᵀ z, z (k, d)."""
        out = z @ self.constant if self.has_constant else np.zeros((len(z), self.constant.shape[1]))
        for part, values in self.slopes:
            starts = [entries.start for _, entries in part.by_unknown]
            unknowns = [unknown for unknown, _ in part.by_unknown]
            out[:, unknowns] += np.add.reduceat(values * z[:, part.columns], starts, axis=1)
        for levels, values in self.levels:
            points = (z[:, None, levels.columns] @ values)[:, 0]
            out[:, levels.unknowns] += coordinates(points)[:, levels.kept]
        for chain in self.chains:
            out[:, chain.unknowns] += chain.transposed(z[:, chain.columns])
        return np.asarray(out)

    def narrow(self, keep: Mask) -> BlockMap:
        """The maps of some of the rows."""
        return BlockMap(
            self.constant,
            tuple((part, values[keep]) for part, values in self.slopes),
            tuple((part, values[keep]) for part, values in self.levels),
            tuple(part.take(np.flatnonzero(keep).astype(np.intp)) for part in self.chains),
            self.has_constant,
        )


def checked(values: FloatArray, rows: Index) -> FloatArray:
    """Values of a block of maps, refused with the row if one is not a usable number."""
    flat = values.reshape(len(values), -1)
    bad = ~(np.abs(flat).max(axis=1, initial=0.0) <= HUGE)
    if bad.any():
        raise Refusal(
            f"a step before the model has no finite derivative in row {int(rows[int(np.argmax(bad))])} (from 0): leave "
            "the row out, or use a step that is smooth there"
        )
    return values
