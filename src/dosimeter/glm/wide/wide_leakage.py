"""The reading of a wide or sparse table: `Leakage` with the standing of its figures, and cells on demand.

All m cells of a row are unknown, also those that are zero: that a word does not occur is a value of the table like any
other. An array of all cells of all rows is given only where it is small; `cells_of` and `top_cells` take rows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.notion import Standing
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.sparse_jacobian import SparseJacobian
from dosimeter.glm.linalg.certified_eigenvalue import DIRECT
from dosimeter.glm.linalg.sparse_table import Table, is_sparse

LARGEST = 1 << 24
"""Numbers in an array of all cells: 134 MB."""


@dataclass(frozen=True, eq=False)
class RowCells:
    """The worst cells of one row.

    Examples
    --------
    >>> RowCells(0, np.array([2]), np.array([0.5]), np.array([0.5]), 1, 0.25).eta.tolist()
    [0.5]
    """

    row: int
    columns: Index
    """(k,) columns in which the row is not zero, largest η first."""
    eta: FloatArray
    """(k,) η of these cells, or its upper bound."""
    lower: FloatArray
    """(k,) a lower bound of the same; equal to `eta` where the figures are exact."""
    zero_column: int
    """The column with the largest η among those in which the row is zero; −1 if there is none."""
    zero_eta: float
    """η of that cell, or its upper bound; 0 if there is none."""


@dataclass(frozen=True, eq=False, repr=False)
class WideLeakage(Leakage):
    """η of rows, targets, groups, columns and chosen cells of a wide or sparse table. Internal.

    Notes
    -----
    Figures are those of `Leakage`, of the same unknowns: all m cells of a row, and its target. `standing` says whether
    they are exact or upper bounds; `bracket` holds both bounds of every row.

    Examples
    --------
    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([1.0, 2.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared(), l2=0.5, route="dual"), X, y, Gaussian(0.5))
    >>> leak.standing.value, leak.width
    ('exact', 0.0)
    """

    table: Table = None
    """The training table."""

    @property
    def standing(self) -> Standing:
        """Whether the figures of rows, groups and the table are exact or upper bounds."""
        return Standing.EXACT if self._bounds is None else Standing.UPPER_BOUND

    @property
    def _bounds(self) -> Any:
        return getattr(self.jacobian, "row_bracket", None)

    @property
    def bracket(self) -> tuple[FloatArray, FloatArray]:
        """(n,), (n,) a lower and an upper bound of `examples`; equal where the figures are exact."""
        if self._bounds is None:
            return self.examples, self.examples
        lower, upper = self._bounds(self._every, self.include_target)
        return self._figure(lower), self._figure(upper)

    @property
    def width(self) -> float:
        """The largest relative distance of the bounds of a row, upper/lower − 1; 0 where the figures are exact."""
        if self._bounds is None:
            return 0.0
        lower, upper = self._bounds(self._every, self.include_target)
        leaks = upper > 0
        with np.errstate(divide="ignore"):
            return float((upper[leaks] / lower[leaks] - 1.0).max(initial=0.0))

    @property
    def guarantee(self) -> str:
        """The standing in words, with the width of the bracket."""
        if self.standing is Standing.EXACT:
            return "exact"
        return f"upper bound; every row's lower bound is within {self.width:.1%} below it"

    def refine(self, tolerance: float) -> WideLeakage:
        """The same reading with narrower brackets: every row's steps go on until its bounds are within `tolerance`.

        Parameters
        ----------
        tolerance : float
            upper/lower − 1 at which the steps of a row end; the default of the iterative route is 0.1. A row whose
            bounds do not meet that closely keeps the best that were reached.

        Returns
        -------
        WideLeakage
            The reading itself where the figures are exact.

        Raises
        ------
        Refusal
            If the tolerance is not a number > 0.

        Examples
        --------
        >>> from dosimeter import glm, Gaussian
        >>> X, y = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([1.0, 2.0])
        >>> leak = glm.measure(glm.fit(X, y, glm.Squared(), l2=0.5, route="iterative"), X, y, Gaussian(0.5))
        >>> leak.refine(0.01).width <= leak.width
        True
        """
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.number) or not tolerance > 0:
            raise Refusal(f"tolerance must be a number > 0, not {tolerance!r}")
        refine = getattr(self.jacobian, "refine", None)
        return self if refine is None else replace(self, jacobian=refine(float(tolerance)))

    def cells_of(self, rows: Any) -> FloatArray:
        """(k, m) η of every cell of some rows, or its upper bound, in the order in which the rows are passed."""
        index = self._positions(rows)
        if len(index) * self.m > 4 * LARGEST:
            raise Refusal(
                f"{len(index)} rows of {self.m} cells are too many at once: pass fewer rows, or use top_cells"
            )
        return self._figure(self._cells_of(index)[1])

    def top_cells(self, rows: Any = None, k: int = 10) -> list[RowCells]:
        """The k worst cells of some rows among those that are not zero, and the worst of those that are.

        Parameters
        ----------
        rows : array_like of int, optional
            Positions; default: all rows.
        k : int, default 10
            Most cells per row.

        Returns
        -------
        list of RowCells
            In the order of the rows.

        Raises
        ------
        Refusal
            If k is not a positive number, or a row does not exist.

        Examples
        --------
        >>> from dosimeter import glm, Gaussian
        >>> X, y = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([1.0, 2.0])
        >>> leak = glm.measure(glm.fit(X, y, glm.Squared(), l2=0.5, route="dual"), X, y, Gaussian(0.5))
        >>> [int(cells.zero_column) for cells in leak.top_cells()]
        [1, 0]
        """
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise Refusal(f"k must be a number of cells >= 1, not {k!r}")
        index = np.arange(self.n, dtype=np.intp) if rows is None else self._positions(rows)
        step, out = max(1, LARGEST // (8 * self.m)), []
        for i in range(0, len(index), step):
            part = index[i : i + step]
            lower, upper = self._cells_of(part)
            out += [self._top(int(row), lo, up, k) for row, lo, up in zip(part, lower, upper, strict=True)]
        return out

    def _top(self, row: int, lower: FloatArray, upper: FloatArray, k: int) -> RowCells:
        stored = self._stored(row)
        order = stored[np.argsort(-upper[stored], kind="stable")][:k]
        zeros = np.ones(self.m, dtype=bool)
        zeros[stored] = False
        column = int(np.argmax(np.where(zeros, upper, -1.0))) if zeros.any() else -1
        worst = self._one_figure(float(upper[column])) if column >= 0 else 0.0
        return RowCells(row, order, self._figure(upper[order]), self._figure(lower[order]), column, worst)

    def _stored(self, row: int) -> Index:
        """The columns in which a row is not zero."""
        if is_sparse(self.table):
            return np.asarray(self.table.indices[self.table.indptr[row] : self.table.indptr[row + 1]], dtype=np.intp)
        return np.flatnonzero(self.table[row]).astype(np.intp)

    def _cells_of(self, rows: Index) -> tuple[FloatArray, FloatArray]:
        """(k, m), (k, m) bounds of the whitened norms of cells."""
        bounds = getattr(self.jacobian, "cell_bracket", None)
        if bounds is not None:
            lower, upper = bounds(rows)
            return np.asarray(lower), np.asarray(upper)
        norms = self.jacobian.cells_of(rows)  # type: ignore[attr-defined]
        return norms, norms

    def _positions(self, rows: Any) -> Index:
        index = np.atleast_1d(np.asarray(rows))
        index = np.flatnonzero(index) if index.dtype == bool and index.shape == (self.n,) else index
        if index.ndim != 1 or index.dtype.kind not in "iu" or not len(index) or index.min() < 0:
            raise Refusal(f"rows must be positions from 0 to {self.n - 1} or a mask of {self.n} booleans")
        if index.max() >= self.n:
            raise Refusal(f"rows must be positions from 0 to {self.n - 1}, not {index.max()}")
        return index.astype(np.intp)

    @property
    def cells(self) -> FloatArray:
        """(n, m) η of each cell, where that array is small."""
        if self.n * self.m > LARGEST:
            raise CannotMeasure(
                f"an array of {self.n} x {self.m} cells is not formed: use cells_of(rows) or top_cells(rows, k)"
            )
        return self._figure(self._cells_of(np.arange(self.n, dtype=np.intp))[1])

    @property
    def dfil(self) -> FloatArray:
        """(n,) √(tr I / number of unknowns) of each row [Guo22]; exact routes only."""
        frobenius = getattr(self.jacobian, "frobenius", None)
        if frobenius is None:
            raise CannotMeasure("dFIL needs the squares of all cells, which are bounded here and not computed")
        return self._figure(frobenius(self.include_target) / np.sqrt(self.m + self.include_target))

    @property
    def membership(self) -> FloatArray:
        """Refused: it needs the factor of the Hessian."""
        raise CannotMeasure("membership is not available for a sparse or wide table")

    def attribute_alone(self, column: int) -> float:
        """η of one unknown over all rows: one of `attributes`, without the others where that is quicker."""
        if isinstance(self.jacobian, SparseJacobian) and len(self.jacobian.F) > DIRECT:
            return self._one_figure(self.jacobian.column_norm(column))
        return float(self.attributes[column])

    def category(
        self, columns: int | Sequence[int], vertices: Any = None, shared: Sequence[Index] | None = None
    ) -> FloatArray:
        """(n,) as in `Leakage` for a category of one column, or for the classes of the target; others are refused."""
        several = np.size(columns) != 1 or shared is not None
        steps = getattr(self.jacobian, "target_steps", None)
        if steps is not None and np.array_equal(np.atleast_1d(columns), self.target_positions):
            return self._figure(steps(np.asarray(vertices, dtype=np.float64), None if shared is None else list(shared)))
        if shared is not None and np.array_equal(np.atleast_1d(columns), self.target_positions):
            none, target = np.empty(0, dtype=np.intp), self.target_positions
            return self._figure(np.array([self.jacobian.together(rows, none, False, target) for rows in shared]))
        if several and not isinstance(self.jacobian, ScalarJacobian):
            raise CannotMeasure("a category of several columns is not available for a sparse or wide table")
        return super().category(columns, vertices, shared)

    def reads_tied(self, tied: Sequence[int]) -> bool:
        """Whether these columns can be read as one unknown of several rows; `group` bounds them if not."""
        if not len(tied) or self.n < 2:
            return True
        free, include_target, unknowns = self._shared(self._every, tied, False, True)
        try:
            self.jacobian.norms_together(np.array([[0, 1]]), free, include_target, unknowns)
        except CannotMeasure:
            return False
        return True

    def group(
        self,
        groups: Sequence[Hashable],
        *,
        tied: Sequence[int] = (),
        tied_target: bool = False,
        columns: Any = None,
    ) -> dict[Hashable, float]:
        """As in `Leakage`; tied columns that the route does not read raise a group of k rows by √k, an upper bound.

        Tied unknowns are a sum of k Jacobians, which is at most √k times as long as the same Jacobians stacked.
        """
        if self.reads_tied(tied):
            return super().group(groups, tied=tied, tied_target=tied_target, columns=columns)
        rows = Counter(groups)
        stacked = super().group(groups, tied_target=tied_target, columns=columns)
        return {name: figure * math.sqrt(rows[name]) for name, figure in stacked.items()}

    def dose(
        self,
        person: Sequence[Hashable] | None = None,
        *,
        tied: Sequence[int] = (),
        tied_target: bool = False,
        **options: Any,
    ) -> Dose:
        """The dose, with the standing of the figures unless another is passed."""
        options.setdefault("standing", self.standing)
        return super().dose(person, tied=tied, tied_target=tied_target, **options)

    def __repr__(self) -> str:
        noise = "" if self.noise is None else f" with {self.noise}"
        computed = "unscaled_examples" in self.__dict__  # a display never starts a long computation
        highest = f", highest η = {self.examples.max():.4g}" if computed and self.has_noise else ""
        release = "" if self.has_noise else ", unbounded (exact release)"
        return (
            f"<WideLeakage of {self.n} rows x {self.m} columns through {self.of}{noise}: {self.standing.value}"
            f"{highest}{release}>"
        )
