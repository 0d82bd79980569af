"""Jacobians written out block by block: the readings of any Jacobian, and several releases of one table together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.progress import track

Rows = Index | slice


class Jacobian(Protocol):
    """What a reading needs of the sensitivity of a release; all figures are whitened norms.

    Unknowns go by position: the columns 0 .. m - 1, then the target m .. m + target_width - 1. `columns` are columns;
    with `include_target` the target counts too: one unknown per row. `tied` may hold either: one unknown for all the
    rows.
    """

    @property
    def n(self) -> int: ...
    @property
    def m(self) -> int: ...
    @property
    def target_width(self) -> int: ...
    def row_norms(self, columns: Index, include_target: bool) -> FloatArray: ...
    def cell_norms(self, columns: Index) -> FloatArray: ...
    def target_norms(self) -> FloatArray: ...
    def column_norms(self) -> FloatArray: ...
    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray: ...
    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray: ...
    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float: ...
    def together_mask(self, mask: Mask) -> float: ...
    def outer_mask(self, mask: Mask) -> FloatArray: ...
    def dense(self, rows: Rows) -> FloatArray: ...


class DenseJacobian:
    """Every reading from `dense(rows)` alone, a block at a time."""

    n: int
    m: int
    target_width: int
    width: int
    """q: rows of one Jacobian."""

    def dense(self, rows: Rows) -> FloatArray:
        """(k, q, m + target_width)."""
        raise TypeError("a DenseJacobian must define dense(rows)")

    def _slices(self) -> Iterator[slice]:
        step = max(1, (32 << 20) // (8 * self.width * (self.m + self.target_width)))
        return track([slice(i, min(i + step, self.n)) for i in range(0, self.n, step)])

    def _picked(self, columns: Index, include_target: bool) -> Index:
        extra = np.arange(self.m, self.m + self.target_width if include_target else self.m, dtype=np.intp)
        return np.concatenate([columns, extra])

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) largest singular value over the chosen unknowns."""
        pick = self._picked(columns, include_target)
        return np.concatenate([largest_singular_values(self.dense(s)[:, :, pick]) for s in self._slices()])

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, k)."""
        return np.concatenate([np.linalg.norm(self.dense(s)[:, :, columns], axis=1) for s in self._slices()])

    def target_norms(self) -> FloatArray:
        """(n,)."""
        return self.row_norms(np.empty(0, dtype=np.intp), include_target=True)

    def column_norms(self) -> FloatArray:
        """(m,) each unknown over all rows."""
        # As many unknowns at a time as keep their (q, q) matrices within a block's memory.
        columns_at_once = max(1, (32 << 20) // (8 * self.width**2))
        return np.concatenate(
            [self._columns_together(i, min(i + columns_at_once, self.m)) for i in range(0, self.m, columns_at_once)]
        )

    def _columns_together(self, first: int, last: int) -> FloatArray:
        total = np.zeros((last - first, self.width, self.width))
        for s in self._slices():
            J = self.dense(s)[:, :, first:last].transpose(2, 1, 0)
            total += J @ J.transpose(0, 2, 1)
        return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(total)[:, -1], 0.0)))

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(q, q) J Jᵀ of some rows' unknowns together; the Jacobians of `tied` unknowns add over the rows."""
        index = np.arange(self.n, dtype=np.intp)[rows]
        pick = self._picked(columns, include_target)
        M, shared = np.zeros((self.width, self.width)), np.zeros((self.width, len(tied)))
        step = len(range(self.n)[next(self._slices())])
        for i in range(0, len(index), step):
            J = self.dense(index[i : i + step])
            flat = J[:, :, pick].transpose(1, 0, 2).reshape(self.width, -1)
            M += flat @ flat.T
            shared += J[:, :, tied].sum(axis=0)
        return np.asarray(M + shared @ shared.T)

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k)."""
        pick, k = self._picked(columns, include_target), rows.shape[1]
        step = max(1, (32 << 20) // (8 * self.width * (self.m + self.target_width) * k))
        out = np.empty(len(rows))
        for i in range(0, len(rows), step):
            part = rows[i : i + step]
            J = self.dense(part.ravel())
            J = J.reshape(len(part), k, *J.shape[1:])
            untied = J[..., pick].transpose(0, 2, 1, 3).reshape(len(part), J.shape[2], -1)
            out[i : i + step] = largest_singular_values(np.concatenate([untied, J[..., tied].sum(axis=1)], axis=2))
        return out

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together."""
        return _root(self.outer(rows, columns, include_target, tied))

    def together_mask(self, mask: Mask) -> float:
        """||J|| of any set of cells."""
        return _root(self.outer_mask(mask))

    def outer_mask(self, mask: Mask) -> FloatArray:
        """(q, q) J Jᵀ of any set of cells; mask (n, m + 1), the last column for the target."""
        M = np.zeros((self.width, self.width))
        for s in self._slices():
            spread = np.concatenate([mask[s, :-1], np.repeat(mask[s, -1:], self.target_width, axis=1)], axis=1)
            flat = (self.dense(s) * spread[:, None, :]).transpose(1, 0, 2).reshape(self.width, -1)
            M += flat @ flat.T
        return M


def _root(outer: FloatArray) -> float:
    return float(np.sqrt(max(0.0, float(np.linalg.eigvalsh(outer)[-1]))))


def stacked_norm(jacobian: Jacobian, rows: Index, columns: Index, include_target: bool, tied: Index) -> float:
    """||J|| of some rows together from the Jacobians themselves, block after block by QR: nothing is squared."""
    m, R = jacobian.m, None
    pick = np.concatenate([columns, np.arange(m, m + jacobian.target_width if include_target else m, dtype=np.intp)])
    shared: FloatArray | float = 0.0
    for i in range(0, len(rows), 256):
        J = jacobian.dense(rows[i : i + 256])
        R = _stack(R, J[:, :, pick].transpose(0, 2, 1).reshape(-1, J.shape[1]))
        shared = shared + J[:, :, tied].sum(axis=0).T
    return float(np.linalg.norm(_stack(R, np.atleast_2d(shared)) if len(tied) else R, 2)) if R is not None else 0.0


def stacked_mask_norm(jacobian: Jacobian, mask: Mask) -> float:
    """The same for any set of cells; mask (n, m + 1), target last."""
    R = None
    for i in range(0, jacobian.n, 256):
        part = mask[i : i + 256]
        J = jacobian.dense(slice(i, i + 256))
        spread = np.concatenate([part[:, :-1], np.repeat(part[:, -1:], jacobian.target_width, axis=1)], axis=1)
        R = _stack(R, (J * spread[:, None, :]).transpose(0, 2, 1).reshape(-1, J.shape[1]))
    return float(np.linalg.norm(R, 2)) if R is not None else 0.0


def _stack(R: FloatArray | None, rows: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(rows if R is None else np.vstack([R, rows]), mode="r"))


def largest_singular_values(J: FloatArray) -> FloatArray:
    """(k,) from (k, q, m), through the smaller Gram matrix: its largest eigenvalue is relatively exact."""
    if J.shape[2] == 0:
        return np.zeros(len(J))
    G = J @ J.transpose(0, 2, 1) if J.shape[1] <= J.shape[2] else J.transpose(0, 2, 1) @ J
    return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(G)[:, -1], 0.0)))


@dataclass(frozen=True, eq=False)
class StackedJacobian(DenseJacobian):
    """Several releases of one table with independent noise: their information matrices add exactly."""

    parts: tuple[Jacobian, ...]

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.parts[0].n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.parts[0].m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.parts[0].target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return sum(part.dense(slice(0, 1)).shape[1] for part in self.parts)

    def dense(self, rows: Rows) -> FloatArray:
        return np.concatenate([part.dense(rows) for part in self.parts], axis=1)
