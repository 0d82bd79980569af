"""Input maps that differ from row to row: what a row's unknowns do to the weights, behind steps that bend.

Between the table and the model stand frozen steps x = f(z), row by row. With Pᵢ = dxᵢ/dz, (d, m), a row's Jacobian is
that of its columns times its own map,

    Jᵢ = Jᵢ(columns) Pᵢ,   for one margin  -ωF [ a z (Pᵢᵀw)ᵀ + r AᵀPᵢ , -c z ]                 (p, m + 1)

Pᵢ has a constant part; slopes of numbers behind a smooth step; and, for a category behind such a step, the row's
columns at every level, which are K points and so exactly a linear map of its K - 1 coordinates (`core/category.py`).
Maps are computed for a block of rows at a time: no array of (n, d, m) is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.category import coordinates
from dosimeter.core.errors import Refusal
from dosimeter.glm.row_maps.map_parts import BlockMap, Levels, RowValues, Slopes, checked
from dosimeter.glm.row_maps.row_chain import RowChain

BLOCK = 16 << 20
"""Bytes of Jacobians and maps at a time."""

FEW = 256
"""Up to this many columns a chain is read by a root of P Pᵀ for each row."""


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
    chains : tuple of RowChain
        Operations that are applied and never written out: counts of words behind a norm or a matrix.

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
    chains: tuple[RowChain, ...] = ()

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
    def _parts(self) -> tuple[Slopes | Levels | RowChain, ...]:
        return (*self.slopes, *self.levels, *self.chains)

    @cached_property
    def has_constant(self) -> bool:
        """Whether any entry is the same on every row."""
        return bool(np.any(self.constant))

    @cached_property
    def varying(self) -> Index:
        """The unknowns whose map differs from row to row."""
        parts = [part.unknowns for part in self._parts]
        return np.unique(np.concatenate(parts)).astype(np.intp) if parts else np.empty(0, dtype=np.intp)

    @cached_property
    def row_bytes(self) -> int:
        """The largest part of one row's map, in bytes."""
        sizes = [len(part.columns) for part in self.slopes]
        sizes += [4 * (len(part.columns) + len(part.units)) for part in self.chains]
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
        for chain in self.chains:
            if mask[chain.columns].any():
                touched[chain.unknowns] = True
        return np.asarray(touched)

    def narrow(self, columns: Index) -> RowMap:
        """The maps of some unknowns."""
        position_of = {int(u): k for k, u in enumerate(columns.tolist())}
        slopes = tuple(part.narrow(position_of) for part in self.slopes)
        levels = tuple(part.narrow(position_of) for part in self.levels)
        chains = tuple(part.narrow(position_of) for part in self.chains)
        return RowMap(
            np.ascontiguousarray(self.constant[:, columns]),
            tuple(part for part in slopes if len(part.unknowns)),
            tuple(part for part in levels if len(part.unknowns)),
            tuple(part for part in chains if len(part.unknowns)),
        )

    def compressed(self) -> RowMap:
        """A map with the same norms: P Pᵀ of every row is the same, nothing has more unknowns than columns.

        A chain onto more columns than are practical stays as it is.
        """
        parts: list[Levels | RowChain] = [*self.levels, *(chain for chain in self.chains if len(chain.columns) <= FEW)]
        whole = [part for part in parts if part.complete and len(part.columns) < len(part.unknowns)]
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
        return RowMap(constant, (*out.slopes, *slopes), out.levels, out.chains)

    def in_units(self, units: FloatArray) -> RowMap:
        """The maps of unknowns measured in units (m,); a category has no unit but its step."""
        if any(np.any(units[part.unknowns] != 1.0) for part in self.levels):
            raise Refusal("a category is measured by its step: its unknowns have no other unit")
        slopes = tuple(replace(part, values=_scaled(part.values, units[part.unknowns])) for part in self.slopes)
        chains = tuple(part.in_units(units) for part in self.chains)
        return replace(self, constant=self.constant * units, slopes=slopes, chains=chains)

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
            and _same_values(a, b, blocks)
            for a, b in zip(mine, theirs, strict=True)
        )

    def block(self, rows: Index) -> BlockMap:
        """The maps of some rows, evaluated."""
        return BlockMap(
            self.constant,
            tuple((part, checked(part.values(rows), rows)) for part in self.slopes),
            tuple((part, checked(part.values(rows), rows)) for part in self.levels),
            tuple(part.take(rows) for part in self.chains),
            self.has_constant,
        )

    def pull_back(self, J: FloatArray, rows: Index) -> FloatArray:
        """(k, q, m) J P for some rows (k,): J (k, q, d), or (q, d) if all rows share it."""
        out = np.empty((len(rows), J.shape[-2], self.m))
        out[:] = J @ self.constant if self.has_constant else 0.0
        for part in self.slopes:
            values = checked(part.values(rows), rows)
            for unknown, entries in part.by_unknown:
                columns = J[..., part.columns[entries]]
                mine = values[:, entries]
                out[:, :, unknown] += mine @ columns.T if J.ndim == 2 else (columns @ mine[:, :, None])[:, :, 0]
        for levels in self.levels:
            points = J[..., levels.columns] @ checked(levels.values(rows), rows)
            out[:, :, levels.unknowns] += coordinates(points)[:, :, levels.kept]
        for chain in self.chains:
            for k, row in enumerate(rows.tolist()):
                mine = J[:, chain.columns] if J.ndim == 2 else J[k][:, chain.columns]
                out[k][:, chain.unknowns] += chain.take(np.full(len(mine), row, dtype=np.intp)).transposed(mine)
        return out


def _same_values(a: Any, b: Any, blocks: list[Index]) -> bool:
    if isinstance(a, RowChain):
        return a.equals(b)
    return all(np.array_equal(a.values(rows), b.values(rows)) for rows in blocks)


def _flat_roots(root: RowValues) -> RowValues:
    """rows -> (k, c c) the columns of R one after the other."""
    return lambda rows: root(rows).transpose(0, 2, 1).reshape(len(rows), -1)


def _scaled(values: RowValues, units: FloatArray) -> RowValues:
    return lambda rows: values(rows) * units
