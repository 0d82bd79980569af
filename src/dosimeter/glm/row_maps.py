"""Input maps that differ from row to row: what a row's unknowns do to the weights, behind steps that bend.

Between the table and the model stand frozen steps x = f(z), row by row. With Pᵢ = dxᵢ/dz, (d, m), a row's Jacobian is
that of its columns times its own map,

    Jᵢ = Jᵢ(columns) Pᵢ,   for one margin  -ωF [ a z (Pᵢᵀw)ᵀ + r AᵀPᵢ , -c z ]                 (p, m + 1)

Pᵢ has a constant part; slopes of numbers behind a smooth step; and, for a category behind such a step, the row's
columns at every level, which are K points and so exactly a linear map of its K - 1 coordinates (`core/category.py`).
Maps are computed for a block of rows at a time: no array of (n, d, m) is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.category import coordinates
from dosimeter.core.errors import Refusal
from dosimeter.glm.category_steps import few_columns, step_norms
from dosimeter.glm.dense_jacobian import DenseJacobian, Jacobian, Rows, SoftmaxJacobian
from dosimeter.glm.farthest_levels import largest_distances
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.scalar_jacobian import ScalarJacobian
from dosimeter.glm.validation import HUGE

BLOCK = 16 << 20
"""Bytes of Jacobians and maps at a time."""

RowValues = Callable[[Index], FloatArray]
"""Positions of rows (k,) -> (k, ...)."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """Entries of the maps that differ from row to row: dx/dz of pairs of a column and an unknown."""

    columns: Index
    """(e,) the column of X."""
    unknowns: Index
    """(e,) the unknown, in ascending order."""
    values: RowValues
    """rows -> (k, e)."""

    @cached_property
    def by_unknown(self) -> list[tuple[int, slice]]:
        """Each unknown and the places of its entries."""
        ends = np.flatnonzero(np.diff(self.unknowns, append=-1)) + 1
        starts = np.concatenate([[0], ends[:-1]])
        return [(int(self.unknowns[a]), slice(int(a), int(b))) for a, b in zip(starts, ends, strict=True)]

    def narrow(self, position_of: dict[int, int]) -> Slopes:
        """Only the entries of some unknowns, at their new positions."""
        kept = np.array([e for e, u in enumerate(self.unknowns.tolist()) if u in position_of], dtype=np.intp)
        places = np.array([position_of[u] for u in self.unknowns[kept].tolist()], dtype=np.intp)
        kept = kept[np.argsort(places, kind="stable")]
        return Slopes(self.columns[kept], np.sort(places), lambda rows: self.values(rows)[:, kept])


@dataclass(frozen=True, eq=False)
class Levels:
    """Columns of X at every level of one category, row by row: the step between two levels is their difference."""

    columns: Index
    """(c,) the columns of X that depend on it."""
    unknowns: Index
    """(j,) the category's unknowns."""
    values: RowValues
    """rows -> (k, c, K)."""
    kept: Index
    """(j,) which of its K - 1 coordinates these unknowns are."""

    def narrow(self, position_of: dict[int, int]) -> Levels:
        """Only some of the unknowns, at their new positions."""
        chosen = np.array([e for e, u in enumerate(self.unknowns.tolist()) if u in position_of], dtype=np.intp)
        places = np.array([position_of[u] for u in self.unknowns[chosen].tolist()], dtype=np.intp)
        return replace(self, unknowns=places, kept=self.kept[chosen])


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

    def pull_back(self, J: FloatArray, rows: Index) -> FloatArray:
        """(k, q, m) J P for some rows (k,): J (k, q, d), or (q, d) if all rows share it."""
        out = np.empty((len(rows), J.shape[-2], self.m))
        out[:] = J @ self.constant
        for part in self.slopes:
            values = _checked(part.values(rows), rows)
            for unknown, entries in part.by_unknown:
                columns = J[..., part.columns[entries]]
                mine = values[:, entries]
                out[:, :, unknown] += mine @ columns.T if J.ndim == 2 else (columns @ mine[:, :, None])[:, :, 0]
        for levels in self.levels:
            points = J[..., levels.columns] @ _checked(levels.values(rows), rows)
            out[:, :, levels.unknowns] += coordinates(points)[:, :, levels.kept]
        return out


def _scaled(values: RowValues, units: FloatArray) -> RowValues:
    return lambda rows: values(rows) * units


def _checked(values: FloatArray, rows: Index) -> FloatArray:
    """Values of a block of maps, refused with the row if one is not a usable number."""
    flat = values.reshape(len(values), -1)
    bad = ~(np.abs(flat).max(axis=1, initial=0.0) <= HUGE)
    if bad.any():
        raise Refusal(
            f"a step before the model has no finite derivative in row {int(rows[int(np.argmax(bad))])} (from 0): leave "
            "the row out, or use a step that is smooth there"
        )
    return values


@dataclass(frozen=True, eq=False)
class MappedJacobian(DenseJacobian):
    """A Jacobian about the unknowns behind maps that differ from row to row."""

    inner: Jacobian
    """About the columns of X."""
    maps: RowMap

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.maps.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.inner.target_width

    @cached_property
    def width(self) -> int:  # type: ignore[override]
        return int(self.inner.dense(np.array([0], dtype=np.intp)).shape[1])

    @property
    def floor(self) -> MappedJacobian:
        """What a fitted scaler leaves at any noise; only if the inner Jacobian has it."""
        inner: Any = self.inner
        return replace(self, inner=inner.floor)

    def _blocks(self, rows: Index) -> Iterator[slice]:
        """Positions in `rows`, as many as keep the inner Jacobians and the maps within a block's memory."""
        q, own = self.width, self.m + self.target_width
        inner = 0 if isinstance(self.inner, ScalarJacobian) else self.maps.d + self.target_width
        step = max(1, BLOCK // (8 * q * (inner + 2 * own) + 2 * self.maps.row_bytes))
        return (slice(i, min(i + step, len(rows))) for i in range(0, len(rows), step))

    def dense(self, rows: Rows) -> FloatArray:
        index = np.arange(self.n, dtype=np.intp)[rows]
        out = np.empty((len(index), self.width, self.m + self.target_width))
        for s in self._blocks(index):
            out[s] = mapped_block(self.inner, self.maps, index[s])
        return out

    def narrow(self, columns: Index) -> Jacobian:
        """The same about some unknowns and the target; without a map if theirs is the same on every row."""
        maps = self.maps.narrow(columns)
        return replace(self, maps=maps) if len(maps.varying) else with_constant_map(self.inner, maps.constant)

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,)."""
        few = self.narrow(columns)
        every = np.arange(len(columns), dtype=np.intp)
        if not isinstance(few, MappedJacobian):
            return few.row_norms(every, include_target)
        return DenseJacobian.row_norms(few, every, include_target)

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        out, varies = np.empty((self.n, len(columns))), np.isin(columns, self.maps.varying)
        for mask in (varies, ~varies):
            if mask.any():
                few, every = self.narrow(columns[mask]), np.arange(int(mask.sum()), dtype=np.intp)
                dense = isinstance(few, MappedJacobian)
                out[:, mask] = DenseJacobian.cell_norms(few, every) if dense else few.cell_norms(every)  # type: ignore[arg-type]
        return out

    def target_norms(self) -> FloatArray:
        """(n,)."""
        return self.inner.target_norms()

    def column_norms(self) -> FloatArray:
        """(m,)."""
        out, varies = np.empty(self.m), np.isin(np.arange(self.m), self.maps.varying)
        for mask in (varies, ~varies):
            if mask.any():
                few = self.narrow(np.flatnonzero(mask).astype(np.intp))
                dense = isinstance(few, MappedJacobian)
                out[mask] = DenseJacobian.column_norms(few) if dense else few.column_norms()  # type: ignore[arg-type]
        return out

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q, q) J Jᵀ of some rows' unknowns together."""
        chosen = np.union1d(columns, tied[tied < self.m]).astype(np.intp)
        if len(chosen) == self.m:
            return super().outer(rows, columns, include_target, tied)
        few = self.narrow(chosen)
        labels = tied[tied >= self.m] - self.m + len(chosen)
        places = np.searchsorted(chosen, columns).astype(np.intp)
        tied_places = np.concatenate([np.searchsorted(chosen, tied[tied < self.m]), labels]).astype(np.intp)
        if isinstance(few, MappedJacobian):
            return DenseJacobian.outer(few, rows, places, include_target, tied_places)
        return few.outer(rows, places, include_target, tied_places)


@singledispatch
def mapped_block(jacobian: Any, maps: RowMap, rows: Index) -> FloatArray:
    """(k, q, m + target_width) the Jacobians of some rows behind their maps."""
    J = jacobian.dense(rows)
    own = maps.pull_back(np.ascontiguousarray(J[:, :, : maps.d]), rows)
    return np.concatenate([own, J[:, :, maps.d :]], axis=2)


@mapped_block.register
def _(jacobian: ScalarJacobian, maps: RowMap, rows: Index) -> FloatArray:
    """-ωF [ a z (Pᵢᵀw)ᵀ + r AᵀPᵢ , -c z ]: no Jacobian of the columns of X is written out."""
    U = jacobian.factor.rows(jacobian.X[rows], jacobian.F.T)
    a, r, c = jacobian.a[rows], jacobian.r[rows], jacobian.c[rows]
    g = maps.pull_back(jacobian.g[None, :], rows)
    out = np.empty((len(U), U.shape[1], maps.m + 1))
    out[:, :, :-1] = -(a[:, None] * U)[:, :, None] * g - r[:, None, None] * maps.pull_back(jacobian.b, rows)
    out[:, :, -1] = c[:, None] * U
    return out


@singledispatch
def with_constant_map(jacobian: Any, P: FloatArray) -> Jacobian:
    """A Jacobian about the columns of X as one about the unknowns of a map P (d, m) that all rows share."""
    return MappedJacobian(jacobian, RowMap(P))


@with_constant_map.register
def _(jacobian: ScalarJacobian, P: FloatArray) -> Jacobian:
    return replace(jacobian, P=jacobian.P @ P, g=P.T @ jacobian.g)


@with_constant_map.register
def _(jacobian: SoftmaxJacobian, P: FloatArray) -> Jacobian:
    return replace(jacobian, P=jacobian.P @ P)


@few_columns.register
def _(jacobian: MappedJacobian, columns: Index) -> tuple[Jacobian, Index]:
    return jacobian.narrow(columns), np.arange(len(columns), dtype=np.intp)


@step_norms.register
def _(jacobian: MappedJacobian, columns: Index, vertices: FloatArray) -> FloatArray:
    """The levels' own images; a category whose map is the same on every row is read as without maps."""
    if (columns >= jacobian.m).any():
        return step_norms(jacobian.inner, columns - jacobian.m + jacobian.maps.d, vertices)
    few = jacobian.narrow(columns)
    if not isinstance(few, MappedJacobian):
        return step_norms(few, np.arange(len(columns), dtype=np.intp), vertices)
    if len(few.maps.levels) != 1 or len(few.maps.slopes) or np.any(few.maps.constant):
        plain: Any = step_norms.dispatch(object)
        return np.asarray(plain(few, np.arange(len(columns), dtype=np.intp), vertices))
    (levels,), every = few.maps.levels, np.arange(jacobian.n, dtype=np.intp)
    out = np.empty(jacobian.n)
    for s in few._blocks(every):
        J = jacobian.inner.dense(every[s])[:, :, levels.columns]
        points = J @ _checked(levels.values(every[s]), every[s])
        out[s] = largest_distances(points - points.mean(axis=2, keepdims=True))
    return out


def with_row_map(leak: Leakage, maps: RowMap) -> Leakage:
    """A leakage about the columns of X as one about the unknowns behind the maps."""
    return replace(leak, jacobian=MappedJacobian(leak.jacobian, maps))
