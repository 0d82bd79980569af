"""Input maps that differ from row to row: what a row's unknowns do to the weights, behind steps that bend.

Between the table and the model stand frozen steps x = f(z), row by row. With Pᵢ = dxᵢ/dz, (d, m), a row's Jacobian is
that of its columns times its own map,

    Jᵢ = Jᵢ(columns) Pᵢ,   for one margin  -ωF [ a z (Pᵢᵀw)ᵀ + r AᵀPᵢ , -c z ]                 (p, m + 1)

Pᵢ has a constant part; slopes of numbers behind a smooth step; and, for a category behind such a step, the row's
columns at every level, which are K points and so exactly a linear map of its K - 1 coordinates (`core/category.py`).
Maps are computed for a block of rows at a time: no array of (n, d, m) is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.category import at_levels, coordinates
from dosimeter.core.errors import Refusal
from dosimeter.glm.validation import HUGE

BLOCK = 16 << 20
"""Bytes of Jacobians and maps at a time."""

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
class RowMap:
    """dx/dz of every row: a constant part, and what differs from row to row.

    Parameters
    ----------
    constant : array of shape (d, m)
        The part that all rows share; zero where a row has its own.
    slopes : tuple of Slopes
        Entries of single columns and unknowns.
    levels : tuple of Levels
        Categories that are read level by level.

    Notes
    -----
    `glm.measure` takes it as `input_map`.

    Examples
    --------
    x = log z for one column, so dx/dz = 1/z:

    >>> from dosimeter import glm, Gaussian
    >>> z, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0])
    >>> X = np.log(z)[:, None]
    >>> fit = glm.fit(X, y, glm.Squared(), intercept=True)
    >>> rows = glm.RowMap.of(1, 1, lambda rows: (1 / z[rows])[:, None, None])
    >>> by_hand = glm.measure(fit, X, y, Gaussian(1.0)).cells[:, 0] / z
    >>> bool(np.allclose(glm.measure(fit, X, y, Gaussian(1.0), input_map=rows).cells[:, 0], by_hand))
    True
    """

    constant: FloatArray
    slopes: tuple[Slopes, ...] = ()
    levels: tuple[Levels, ...] = ()

    @classmethod
    def of(cls, d: int, m: int, maps: RowValues) -> RowMap:
        """From a function of rows (k,) to their maps (k, d, m)."""
        unknowns, columns = np.divmod(np.arange(d * m), d)
        entries = Slopes(
            columns.astype(np.intp),
            unknowns.astype(np.intp),
            lambda rows: np.asarray(maps(rows), dtype=np.float64).transpose(0, 2, 1).reshape(len(rows), -1),
        )
        return cls(np.zeros((d, m)), (entries,))

    @property
    def d(self) -> int:
        """Columns of X."""
        return len(self.constant)

    @property
    def m(self) -> int:
        """Unknowns."""
        return int(self.constant.shape[1])

    @property
    def _parts(self) -> tuple[Slopes | Levels, ...]:
        return (*self.slopes, *self.levels)

    @cached_property
    def varying(self) -> Index:
        """The unknowns whose map differs from row to row."""
        parts = [part.unknowns for part in self._parts]
        return np.unique(np.concatenate(parts)).astype(np.intp) if parts else np.empty(0, dtype=np.intp)

    @cached_property
    def row_bytes(self) -> int:
        """The largest part of one row's map, in bytes."""
        sizes = [len(part.columns) for part in self.slopes]
        return 8 * max([1, *sizes, *(len(part.columns) * (len(part.unknowns) + 1) for part in self.levels)])

    def touched_by(self, chosen: Any) -> Mask:
        """(m,) whether each unknown moves any of the columns `chosen` (d,) of X, on any row."""
        mask = np.asarray(chosen, dtype=bool)
        touched = np.any(self.constant[mask] != 0.0, axis=0)
        for part in self.slopes:
            touched[part.unknowns[mask[part.columns]]] = True
        for levels in self.levels:
            if mask[levels.columns].any():
                touched[levels.unknowns] = True
        return np.asarray(touched)

    def narrow(self, columns: Index) -> RowMap:
        """The maps of some unknowns."""
        position_of = {int(u): k for k, u in enumerate(columns.tolist())}
        slopes = tuple(part.narrow(position_of) for part in self.slopes)
        levels = tuple(part.narrow(position_of) for part in self.levels)
        return RowMap(
            np.ascontiguousarray(self.constant[:, columns]),
            tuple(part for part in slopes if len(part.unknowns)),
            tuple(part for part in levels if len(part.unknowns)),
        )

    def compressed(self) -> RowMap:
        """A map with the same norms: P Pᵀ of every row is the same, a category has no more unknowns than columns."""
        whole = [part for part in self.levels if part.complete and len(part.columns) < len(part.unknowns)]
        if not whole:
            return self
        gone = np.concatenate([part.unknowns for part in whole])
        rest = np.setdiff1d(np.arange(self.m), gone).astype(np.intp)
        out, slopes = self.narrow(rest), []
        first = out.m
        for part in whole:
            c = len(part.columns)
            slopes.append(
                Slopes(
                    np.tile(part.columns, c),
                    np.repeat(np.arange(first, first + c), c).astype(np.intp),
                    _flat_roots(part.root),
                )
            )
            first += c
        constant = np.hstack([out.constant, np.zeros((self.d, first - out.m))])
        return RowMap(constant, (*out.slopes, *slopes), out.levels)

    def in_units(self, units: FloatArray) -> RowMap:
        """The maps of unknowns measured in units (m,); a category has no unit but its step."""
        if any(np.any(units[part.unknowns] != 1.0) for part in self.levels):
            raise Refusal("a category is measured by its step: its unknowns have no other unit")
        slopes = tuple(replace(part, values=_scaled(part.values, units[part.unknowns])) for part in self.slopes)
        return replace(self, constant=self.constant * units, slopes=slopes)

    def with_constant_column(self) -> RowMap:
        """One more column of X, the last, that no unknown moves."""
        return replace(self, constant=np.vstack([self.constant, np.zeros((1, self.m))]))

    def equals(self, other: RowMap, n: int) -> bool:
        """Whether another map is the same on each of n rows."""
        if self is other:
            return True
        mine, theirs = self._parts, other._parts
        if len(mine) != len(theirs) or not np.array_equal(self.constant, other.constant):
            return False
        step = max(1, BLOCK // self.row_bytes)
        blocks = [np.arange(i, min(i + step, n), dtype=np.intp) for i in range(0, n, step)]
        return all(
            type(a) is type(b)
            and np.array_equal(a.columns, b.columns)
            and np.array_equal(a.unknowns, b.unknowns)
            and all(np.array_equal(a.values(rows), b.values(rows)) for rows in blocks)
            for a, b in zip(mine, theirs, strict=True)
        )

    def block(self, rows: Index) -> BlockMap:
        """The maps of some rows, evaluated."""
        return BlockMap(
            self.constant,
            tuple((part, checked(part.values(rows), rows)) for part in self.slopes),
            tuple((part, checked(part.values(rows), rows)) for part in self.levels),
        )

    def pull_back(self, J: FloatArray, rows: Index) -> FloatArray:
        """(k, q, m) J P for some rows (k,): J (k, q, d), or (q, d) if all rows share it."""
        out = np.empty((len(rows), J.shape[-2], self.m))
        out[:] = J @ self.constant
        for part in self.slopes:
            values = checked(part.values(rows), rows)
            for unknown, entries in part.by_unknown:
                columns = J[..., part.columns[entries]]
                mine = values[:, entries]
                out[:, :, unknown] += mine @ columns.T if J.ndim == 2 else (columns @ mine[:, :, None])[:, :, 0]
        for levels in self.levels:
            points = J[..., levels.columns] @ checked(levels.values(rows), rows)
            out[:, :, levels.unknowns] += coordinates(points)[:, :, levels.kept]
        return out


@dataclass(frozen=True, eq=False)
class BlockMap:
    """The maps of k rows: products with P and with its transpose."""

    constant: FloatArray
    slopes: tuple[tuple[Slopes, FloatArray], ...]
    levels: tuple[tuple[Levels, FloatArray], ...]

    def times(self, x: FloatArray) -> FloatArray:
        """(k, d) P x, x (k, m)."""
        out = x @ self.constant.T
        for part, values in self.slopes:
            order, starts, columns = part.by_column
            out[:, columns] += np.add.reduceat((values * x[:, part.unknowns])[:, order], starts, axis=1)
        for levels, values in self.levels:
            whole = np.zeros((len(x), values.shape[2] - 1))
            whole[:, levels.kept] = x[:, levels.unknowns]
            out[:, levels.columns] += (values @ (2.0 * at_levels(whole))[:, :, None])[:, :, 0]
        return np.asarray(out)

    def transposed(self, z: FloatArray) -> FloatArray:
        """(k, m) Pᵀ z, z (k, d)."""
        out = z @ self.constant
        for part, values in self.slopes:
            starts = [entries.start for _, entries in part.by_unknown]
            unknowns = [unknown for unknown, _ in part.by_unknown]
            out[:, unknowns] += np.add.reduceat(values * z[:, part.columns], starts, axis=1)
        for levels, values in self.levels:
            points = (z[:, None, levels.columns] @ values)[:, 0]
            out[:, levels.unknowns] += coordinates(points)[:, levels.kept]
        return np.asarray(out)

    def narrow(self, keep: Mask) -> BlockMap:
        """The maps of some of the rows."""
        return BlockMap(
            self.constant,
            tuple((part, values[keep]) for part, values in self.slopes),
            tuple((part, values[keep]) for part, values in self.levels),
        )


def _flat_roots(root: RowValues) -> RowValues:
    """rows -> (k, c c) the columns of R one after the other."""
    return lambda rows: root(rows).transpose(0, 2, 1).reshape(len(rows), -1)


def _scaled(values: RowValues, units: FloatArray) -> RowValues:
    return lambda rows: values(rows) * units


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
