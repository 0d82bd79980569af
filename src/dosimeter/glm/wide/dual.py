"""The Jacobian of a wide table with a penalty, through (n, n) matrices: exact figures without a (p, p) array.

V (d, k) spans the rows, N is its complement. With x = V y the model is that of the table Y = X V (n, k), and H is nλ on
N. The whitened Jacobian of a row is that of the reduced table, and r s/nλ times the identity on N, which no vector of
the row touches:

    ||J|| = max( ||J of the reduced table||, |r| s/nλ ),        s the whitening of isotropic noise.

A single column lies partly in both: bⱼ = [ s H⁻¹Vᵀeⱼ ; (s/nλ)(eⱼ − V Vᵀeⱼ) ]. Derivation: docs/explanation/wide.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.progress import track
from dosimeter.glm.fitting.wide_fit import WideFit
from dosimeter.glm.jacobians.dense_jacobian import Rows
from dosimeter.glm.jacobians.scalar_jacobian import CANCELLED, ScalarJacobian
from dosimeter.glm.linalg.inverse_hessian import Factor
from dosimeter.glm.linalg.row_space import RowSpace
from dosimeter.glm.linalg.secular import largest_eigenvalues
from dosimeter.glm.linalg.sparse_table import Table
from dosimeter.glm.wide.dual_frame import Frame, GroupRows

MANY = 1_024
"""Most columns that a figure names, or leaves out: the Gram matrix of their parts outside V is decomposed."""

COLUMNS = 2_048
"""Columns whose rows of V are held at a time."""


class ReducedFactor(Factor):
    """The factor of the reduced problem; its table is itself a rounded product, so sliced products gain nothing."""

    @property
    def easy(self) -> bool:
        """Always: see the class."""
        return True


@dataclass(frozen=True, eq=False)
class DualJacobian:
    """Whitened Jacobians of a wide table: the protocol `Jacobian`, and cells of some rows."""

    space: RowSpace
    inner: ScalarJacobian
    """The Jacobian of the reduced table; its unknowns are the coordinates in V."""
    g: FloatArray
    """(m,) how the margin moves with each unknown."""
    unit: FloatArray
    """(m,) how much of a column one unit of its unknown is; `inner` is in units of the first."""
    level: float
    """s/nλ."""

    @property
    def n(self) -> int:
        return self.inner.n

    @property
    def m(self) -> int:
        return len(self.g)

    @property
    def target_width(self) -> int:
        return 1

    @property
    def extra(self) -> int:
        """Dimension of N."""
        return self.m - self.space.width

    @cached_property
    def alike(self) -> bool:
        """Whether all columns have one unit; whole rows then have exact figures."""
        return bool((self.unit == self.unit[0]).all())

    @cached_property
    def U(self) -> FloatArray:
        """(n, q) s H⁻¹x̃ of each row, in the coordinates of the reduced problem."""
        return self.inner.moves(self.inner.X)

    @cached_property
    def solution(self) -> FloatArray:
        """(q, k) s H⁻¹ of the reduced problem, for its penalised coordinates."""
        return np.asarray(self.inner.F @ self.inner.factor.basis.T[:, : self.space.width])

    def moves(self, columns: Index | slice) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Of some columns: rows of V (j, k), b inside V (q, j), and ||b||² outside (j,)."""
        V, unit = self.space.columns(columns), self.unit[columns]
        outside = np.maximum(1.0 - np.einsum("jk,jk->j", V, V), 0.0) if self.extra else np.zeros(len(V))
        return V, (self.solution @ V.T) * unit, (self.level * unit) ** 2 * outside

    def _blocks(self) -> Iterator[slice]:
        return track([slice(i, min(i + COLUMNS, self.m)) for i in range(0, self.m, COLUMNS)])

    @cached_property
    def squared_moves(self) -> FloatArray:
        """(m,) ||b||² of every column."""
        out = np.empty(self.m)
        for s in self._blocks():
            _, b, outside = self.moves(s)
            out[s] = np.einsum("qj,qj->j", b, b) + outside
        return out

    # --- one row at a time ------------------------------------------------------------------------------------

    def row_norms(self, columns: Index, include_target: bool) -> FloatArray:
        """(n,) ||J|| of each row over some columns and, if included, the target."""
        if len(columns) == 1 and not include_target:
            return self.cell_norms(columns)[:, 0]
        if not len(columns):
            return self.target_norms()
        frame, a, r = self.frame(columns), self.inner.a, self.inner.r
        c_squared = self.inner.c**2 if include_target else np.zeros(self.n)
        D, Q, v = frame.axes
        # All columns: B has no kernel, so v carries all of a² share and the rest is known without a subtraction.
        rest = c_squared if len(columns) == self.m else None
        Z = self.U @ Q[: self.U.shape[1]]
        squares = largest_eigenvalues(D, Z, v, a, r, a * a * frame.share + c_squared, rest)
        return np.sqrt(np.maximum(squares, r * r * frame.floor))

    def cell_norms(self, columns: Index) -> FloatArray:
        """(n, j) ||a gⱼ u + r bⱼ|| of some columns on every row."""
        out = np.empty((self.n, len(columns)))
        for i in range(0, len(columns), COLUMNS):
            part = columns[i : i + COLUMNS]
            _, b, outside = self.moves(part)
            out[:, i : i + COLUMNS] = self._cells(slice(None), part, self.U @ b, b, outside)
        return out

    def cells_of(self, rows: Index) -> FloatArray:
        """(k, m) every cell of some rows."""
        cross = self.space.lift(self.solution.T @ self.U[rows].T).T * self.unit
        squares = self._squares(rows, slice(None), cross, self.squared_moves)
        cancelled = np.flatnonzero((squares < 0).any(axis=0))
        out = np.sqrt(np.maximum(squares, 0.0))
        for i in range(0, len(cancelled), COLUMNS):
            part = cancelled[i : i + COLUMNS]
            _, b, outside = self.moves(part)
            out[:, part] = self._cells(rows, part, cross[:, part], b, outside)
        return out

    def _squares(self, rows: Rows, columns: Index | slice, cross: FloatArray, squared: FloatArray) -> FloatArray:
        """(k, j) the expanded squares, −1 where they cancel; cross (k, j) is u·b."""
        a, r, U, g = self.inner.a[rows], self.inner.r[rows], self.U[rows], self.g[columns]
        positive = np.outer(a * a * np.einsum("nq,nq->n", U, U), g * g) + np.outer(r * r, squared)
        squares = positive + (2 * a * r)[:, None] * (cross * g)
        squares[(squares <= CANCELLED * positive) & (positive > 0)] = -1.0
        return squares

    def _cells(self, rows: Rows, columns: Index, cross: FloatArray, b: FloatArray, outside: FloatArray) -> FloatArray:
        """(k, j) cells of some rows and columns; where the squares cancel, from the vectors themselves."""
        squares = self._squares(rows, columns, cross, np.einsum("qj,qj->j", b, b) + outside)
        i, j = np.nonzero(squares < 0)
        a, r, U, g = self.inner.a[rows], self.inner.r[rows], self.U[rows], self.g[columns]
        for k in range(0, len(i), 4096):
            s, t = i[k : k + 4096], j[k : k + 4096]
            inside = (a[s] * g[t])[:, None] * U[s] + r[s, None] * b.T[t]
            squares[s, t] = np.einsum("kq,kq->k", inside, inside) + r[s] ** 2 * outside[t]
        return np.sqrt(squares)

    def target_norms(self) -> FloatArray:
        """(n,) c ||u||."""
        return np.asarray(self.inner.c * np.linalg.norm(self.U, axis=1))

    def frobenius(self, include_target: bool) -> FloatArray:
        """(n,) the root of the sum of the squares of a row's cells and, if included, its target."""
        a, r, c = self.inner.a, self.inner.r, self.inner.c if include_target else np.zeros(self.n)
        along = np.zeros(self.U.shape[1])
        for s in self._blocks():
            along += self.moves(s)[1] @ self.g[s]
        lengths = np.einsum("nq,nq->n", self.U, self.U)
        squares = (a * a * (self.g @ self.g) + c * c) * lengths + 2 * a * r * (self.U @ along)
        return np.asarray(np.sqrt(np.maximum(squares + r * r * self.squared_moves.sum(), 0.0)))

    # --- many rows together -----------------------------------------------------------------------------------

    def column_norms(self) -> FloatArray:
        """(m,) each column over all rows: the secular form of docs/explanation/fisher.md, 4, one coordinate more."""
        G, q, rho = self.inner._moments(slice(None), self.inner.a**2)
        D, Q = np.linalg.eigh(G)
        D, Q = np.append(np.maximum(D[::-1], 0.0), 0.0), Q[:, ::-1]
        v, out = np.where(4e-16 * D[0] < D, np.append(Q.T @ q, 0.0), 0.0), np.empty(self.m)
        for s in self._blocks():
            _, b, outside = self.moves(s)
            Z, ones = np.column_stack([b.T @ Q, np.sqrt(outside)]), np.ones(len(outside))
            out[s] = largest_eigenvalues(D, Z, v, ones, self.g[s], rho * ones)
        return np.sqrt(out)

    def together(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> float:
        """||J|| of some rows' unknowns together; unknowns as in `Jacobian`."""
        frame, with_target = self.frame(columns, tied[tied < self.m]), bool((tied >= self.m).any())
        group, q = self._rows(rows), len(self.inner.F)
        weight = group.a**2 * frame.share + (group.c**2 if include_target else 0.0)
        G, first, rho = self.inner._moments(rows, weight)
        M = rho * frame.spread
        M[:q, :q] += G
        M[:q] += np.outer(first, frame.side)
        M[:, :q] += np.outer(frame.side, first)
        shared = frame.shared(group, with_target)
        square = float(np.linalg.eigvalsh(M + shared @ shared.T)[-1])
        if frame.named is not None and square <= CANCELLED * rho * float(np.sum(frame.named**2)):
            return frame.stacked_norm(group, include_target, with_target)
        return float(np.sqrt(max(square, rho * frame.floor, 0.0)))

    def norms_together(self, rows: Index, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        """(g,) ||J|| of g groups of k rows each, rows (g, k); unknowns as in `Jacobian`."""
        frame, with_target = self.frame(columns, tied[tied < self.m]), bool((tied >= self.m).any())
        return np.array([frame.norm(self._rows(group), include_target, with_target) for group in track(rows)])

    def _rows(self, rows: Rows) -> GroupRows:
        return GroupRows(self.U[rows], self.inner.a[rows], self.inner.r[rows], self.inner.c[rows])

    @cached_property
    def _frames(self) -> dict[str, Frame]:
        return {}

    def frame(self, columns: Index, tied: Index | None = None) -> Frame:
        """The coordinates of a figure of some columns, separate unknowns on each row, and of tied ones."""
        tied = np.empty(0, dtype=np.intp) if tied is None else tied
        whole = len(columns) == self.m and not len(tied)
        if whole and "whole" in self._frames:  # the figure that is asked for most often, and the most expensive one
            return self._frames["whole"]
        left_out = np.setdiff1d(np.arange(self.m, dtype=np.intp), columns)
        broad = self.alike and len(left_out) < max(1, len(columns))
        frame = self._frame(left_out if broad else columns, tied, broad)
        if whole:
            self._frames["whole"] = frame
        return frame

    def _frame(self, named: Index, tied: Index, broad: bool) -> Frame:
        """Of the columns `named`, or of all the others if `broad`."""
        if len(named) > MANY or len(tied) > MANY:
            raise CannotMeasure(
                f"on the dual route a figure names at most {MANY} columns, or all but {MANY}; whole rows need one unit "
                "for all columns"
            )
        explicit = np.union1d(named, tied).astype(np.intp)
        V, inside, _ = self.moves(explicit)
        b = np.vstack([inside, self.level * self._outside(V).T * self.unit[explicit]])
        q, size = len(self.inner.F), len(b)
        named_b, tied_b = (b[:, np.searchsorted(explicit, part)] for part in (named, tied))
        g, tied_g = self.g[named], self.g[tied]
        spread, side, share = named_b @ named_b.T, named_b @ g, float(g @ g)
        if not broad:
            return Frame(spread, side, share, named_b, g, tied_b, tied_g, 0.0)
        every, every_side, height = np.zeros((size, size)), np.zeros(size), (self.level * float(self.unit[0])) ** 2
        every[:q, :q] = self.inner.b @ self.inner.b.T
        every[np.arange(q, size), np.arange(q, size)] = height
        every_side[:q] = self.inner.b @ self.inner.g
        share = max(0.0, float(self.inner.g @ self.inner.g) - share)
        floor = height if self.extra > size - q else 0.0
        return Frame(every - spread, every_side - side, share, None, g[:0], tied_b, tied_g, floor)

    def _outside(self, V: FloatArray) -> FloatArray:
        """(j, t) a root of 1 − V Vᵀ, the Gram matrix of the parts of some columns outside the row space."""
        if not self.extra or not len(V):
            return np.zeros((len(V), 0))
        values, vectors = np.linalg.eigh(np.eye(len(V)) - V @ V.T)
        keep = np.flatnonzero(values > 1e-13)[-self.extra :]
        return np.asarray(vectors[:, keep] * np.sqrt(values[keep]))

    # --- what is not written out --------------------------------------------------------------------------------

    def dense(self, rows: Rows) -> FloatArray:
        refuse_matrix("the Jacobian of a row, written out,")

    def outer(self, rows: Rows, columns: Index, include_target: bool, tied: Index) -> FloatArray:
        refuse_matrix("the matrix J Jᵀ")

    def outer_mask(self, mask: Mask) -> FloatArray:
        refuse_matrix("the matrix J Jᵀ")

    def together_mask(self, mask: Mask) -> float:
        refuse_matrix("an arbitrary set of cells")


def refuse_matrix(what: str) -> NoReturn:
    """Refuse a reading that needs a row or a column for every parameter."""
    raise CannotMeasure(f"{what} is not available for a wide table: it has a row or a column for every parameter")


def dual_jacobian(
    fit: WideFit, X: Table, unit: FloatArray, whitening: float, c: FloatArray, target_unit: float
) -> DualJacobian:
    """The Jacobian of a fit by the dual route; unit (d,), whitening s, c (n,)."""
    omega = fit.sample_weight
    if fit.gram is None:
        raise TypeError("this Jacobian is for the dual route")
    space = RowSpace.of(X, fit.gram, fit.coef)
    k, D, ridge = space.width, omega * fit.curvature, fit.n * fit.l2
    H = np.zeros((k + fit.intercept, k + fit.intercept))
    scaled = np.sqrt(D)[:, None] * space.rows
    H[:k, :k] = scaled.T @ scaled
    H[np.arange(k), np.arange(k)] += ridge
    if fit.intercept:
        H[:k, k] = H[k, :k] = D @ space.rows
        H[k, k] = D.sum()
    values, vectors = np.linalg.eigh(H)
    basis = vectors / np.sqrt(values)
    inner = ScalarJacobian(
        X=space.rows,
        factor=ReducedFactor(basis, np.eye(len(H)), float(np.sqrt(values[-1] / values[0]))),
        F=whitening * basis,
        P=float(unit[0]) * np.eye(len(H))[:, :k],
        g=float(unit[0]) * space.project(fit.coef),
        a=D,
        r=omega * fit.residual,
        c=c,
        y=fit.y,
        target_unit=target_unit,
    )
    return DualJacobian(space, inner, unit * fit.coef, unit, whitening / ridge)
