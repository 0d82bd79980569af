"""The reading: what a noised release of linear weights leaks, at every granularity.

All figures are Fisher information loss η ([Hannun21] eq. 2 and 17) about the chosen unknowns when the attacker knows
every other cell of the table; 1/η is the smallest standard deviation of an unbiased guess (eq. 3).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.category import simplex
from dosimeter.core.cramer_rao import unbiased_variance
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Noise
from dosimeter.core.notion import FISHER
from dosimeter.glm.jacobians.category_steps import shared_step_norms, step_norms
from dosimeter.glm.jacobians.dense_jacobian import Jacobian
from dosimeter.glm.jacobians.screening import Near, Screened, highest_of, highest_of_groups
from dosimeter.glm.jacobians.weight_functions import map_jacobian
from dosimeter.glm.linalg.row_groups import first_appearance, groups_by_size

LARGE_GROUP = 64
"""Groups with more rows than this are few and large: each is a sum over its rows, taken by blocks."""


@dataclass(frozen=True, eq=False)
class Leakage:
    """η of rows, cells, columns, groups and the whole table. Internal: a figure per person is itself private.

    Notes
    -----
    η = √‖I‖₂ of the Fisher information I about the chosen unknowns, all other cells known: [Hannun21] eq. 2 and 17. 1/η
    is the smallest standard deviation of an unbiased guess (eq. 3).

    Examples
    --------
    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> leak.labels.round(4)                     # x / Σx² / σ
    array([0.1429, 0.2857, 0.4286])
    """

    jacobian: Jacobian
    """Whitened sensitivity of the release."""
    noise: Noise | None
    """None if it is not one noise on the weights: several releases, or a function of the weights."""
    include_target: bool = True
    """Whether a row's target counts among its unknowns."""
    has_noise: bool = True
    """False for an exact release: every figure that is not zero is infinite."""
    of: str = "the weights"
    """What is released."""
    members: Callable[[], FloatArray] | None = None
    """Computes μ of each row's presence, if available."""
    kinks: Callable[[], FloatArray] | None = None
    """Computes `kink_distances`; None for a smooth loss."""

    @property
    def n(self) -> int:
        """Rows."""
        return self.jacobian.n

    @property
    def m(self) -> int:
        """Unknown quantities in a row, without the target."""
        return self.jacobian.m

    @property
    def target_positions(self) -> Index:
        """The positions of the target among the unknowns of a Jacobian: after the columns."""
        return np.arange(self.m, self.m + self.jacobian.target_width, dtype=np.intp)

    @cached_property
    def unscaled_examples(self) -> FloatArray:
        """(n,) ||Jᵢ|| whitened by the noise, or by noise of scale 1 for an exact release: it ranks the rows."""
        return self.jacobian.row_norms(self._every, self.include_target)

    @cached_property
    def examples(self) -> FloatArray:
        """(n,) η of each row, eq. 17."""
        return self._figure(self.unscaled_examples)

    @cached_property
    def highest(self) -> float:
        """The largest of `examples`; with a fitted scaler or a shape, without computing all rows."""
        if not isinstance(self.jacobian, Screened) or "unscaled_examples" in self.__dict__:
            return float(self.examples.max())
        rows = np.arange(self.n, dtype=np.intp)
        return self._one_figure(self._highest_row(self.jacobian, self.jacobian.near(self._every), rows))

    @cached_property
    def labels(self) -> FloatArray:
        """(n,) η of each row's target."""
        return self._figure(self.jacobian.target_norms())

    @cached_property
    def cells(self) -> FloatArray:
        """(n, m) η of each cell."""
        return self._figure(self.jacobian.cell_norms(self._every))

    @cached_property
    def attributes(self) -> FloatArray:
        """(m,) η of each column over all rows together."""
        return self._figure(self.jacobian.column_norms())

    @cached_property
    def dataset(self) -> float:
        """η of the whole table."""
        return self._one_figure(self.jacobian.together(slice(None), self._every, self.include_target, _no_columns()))

    @cached_property
    def kink_distances(self) -> FloatArray:
        """(n,) how far each row's margin is from a kink of its loss. A row at 0 has one derivative on each side, and
        figures that use it are not exact; all are infinite for a smooth loss.
        """
        return np.full(self.n, np.inf) if self.kinks is None else self.kinks()

    @cached_property
    def dfil(self) -> FloatArray:
        """(n,) √(tr I / number of unknowns) of each row [Guo22]; never above η."""
        squares = np.sum(self.jacobian.cell_norms(self._every) ** 2, axis=1)
        width = self.jacobian.target_width
        if self.include_target and width > 1:
            raise CannotMeasure("dFIL of a softmax target is not defined here: use without_target()")
        if self.include_target:
            squares = squares + self.jacobian.target_norms() ** 2
        return self._figure(np.sqrt(squares / (self.m + (width if self.include_target else 0))))

    @cached_property
    def membership(self) -> FloatArray:
        """(n,) μ of each row's presence for an adversary who knows all other rows; the best ROC is that of μ-GDP."""
        if self.members is None:
            raise CannotMeasure(
                "membership is available for one release of weights with Gaussian noise of public shape only"
            )
        return self.members()

    def without_target(self) -> Leakage:
        """The same release with every target regarded as known."""
        return replace(self, include_target=False)

    def attribute(self, columns: int | Sequence[int]) -> FloatArray:
        """(n,) η of a block of columns, per row, without the target; for the steps of one category see `category`."""
        return self._figure(self.jacobian.row_norms(self._columns(columns), include_target=False))

    def category(
        self, columns: int | Sequence[int], vertices: Any = None, shared: Sequence[Index] | None = None
    ) -> FloatArray:
        """(n,) η of a category in each row: the largest step between two of its levels, `jacobians/category_steps.py`.

        Parameters
        ----------
        columns : int or sequence of int
            Its unknowns, or the positions of the target.
        vertices : array_like of shape (k, m'), optional
            Its levels in their coordinates; default `core/category.py`.
        shared : sequence of index arrays, optional
            Groups of rows on which it is one unknown; the result is then (groups,).
        """
        index = np.atleast_1d(np.asarray(columns)).astype(np.intp)
        if not np.array_equal(index, self.target_positions):
            index = self._columns(columns)
        V = simplex(len(index) + 1) if vertices is None else np.asarray(vertices, dtype=np.float64)
        if V.ndim != 2 or V.shape[1] != len(index) or len(V) < 2:
            raise Refusal(f"the levels of a category must be a (k, {len(index)}) array, not of shape {V.shape}")
        if shared is None:
            return self._figure(step_norms(self.jacobian, index, V))
        return self._figure(shared_step_norms(self.jacobian, shared, index, V))

    def attribute_over(self, columns: int | Sequence[int]) -> float:
        """η of a block of columns over all rows together."""
        return self._one_figure(self.jacobian.together(slice(None), self._columns(columns), False, _no_columns()))

    def subset(self, rows: Any, columns: Any = None, *, include_target: bool = False) -> float:
        """η of the cells in `rows` and `columns` (all columns if None) together, optionally with their targets."""
        index = self._rows(rows)
        picked = self._every if columns is None else self._columns(columns, empty=include_target)
        return self._one_figure(self.jacobian.together(index, picked, include_target, _no_columns()))

    def mask(self, mask: Any) -> float:
        """η of any set of cells together: (n, m) booleans, or (n, m + 1) with the target last."""
        chosen = np.asarray(mask, dtype=bool)
        if chosen.shape == (self.n, self.m):
            chosen = np.column_stack([chosen, np.zeros(self.n, dtype=bool)])
        if chosen.shape != (self.n, self.m + 1):
            raise Refusal(
                f"a mask must have shape ({self.n}, {self.m}) or ({self.n}, {self.m + 1}), not {chosen.shape}"
            )
        return self._one_figure(self.jacobian.together_mask(chosen))

    def group(
        self,
        groups: Sequence[Hashable],
        *,
        tied: Sequence[int] = (),
        tied_target: bool = False,
        columns: Any = None,
    ) -> dict[Hashable, float]:
        """η of each group of rows together, groups in order of first appearance.

        Parameters
        ----------
        groups : sequence of hashable of length n
            The group of each row, e.g. the person.
        tied : sequence of int
            Columns that hold one value per group (a person's sex on each of their rows): one unknown whose Jacobians
            add. Without it such values count as separate unknowns and are under-reported by up to √rows of the stacked
            norm.
        tied_target : bool, default False
            Whether the target is one value per group too.
        columns : int or sequence of int, optional
            Only these columns; default: all, and the target.

        Returns
        -------
        dict of hashable to float
        """
        order, index = first_appearance(groups, self.n)
        chosen = self._every if columns is None else self._columns(columns)
        free, include_target, tied_unknowns = self._shared(chosen, tied, tied_target, columns is None)
        sizes = np.bincount(index, minlength=len(order))
        out = np.zeros(len(order))
        single_row = sizes[index] == 1
        if single_row.any():
            single = self.unscaled_examples if columns is None else self.jacobian.row_norms(chosen, False)
            out[index[single_row]] = single[single_row]
        for same_size, row_sets in groups_by_size(index, sizes):
            if row_sets.shape[1] <= LARGE_GROUP:
                out[same_size] = self.jacobian.norms_together(row_sets, free, include_target, tied_unknowns)
            else:
                out[same_size] = [
                    self.jacobian.together(rows, free, include_target, tied_unknowns) for rows in row_sets
                ]
        return dict(zip(order, self._figure(out).tolist(), strict=True))

    def highest_group(
        self, groups: Sequence[Hashable], *, tied: Sequence[int] = (), tied_target: bool = False
    ) -> float:
        """The largest of `group`; with a fitted scaler or a shape, without computing all groups."""
        if not isinstance(self.jacobian, Screened):
            return max(self.group(groups, tied=tied, tied_target=tied_target).values())
        order, index = first_appearance(groups, self.n)
        sizes, near = np.bincount(index, minlength=len(order)), self.jacobian.near(self._every)
        singles = np.flatnonzero(sizes[index] == 1).astype(np.intp)
        best = self._highest_row(self.jacobian, near, singles) if len(singles) else 0.0
        shared = self._shared(self._every, tied, tied_target, True)
        for _, row_sets in groups_by_size(index, sizes):
            best = max(best, highest_of_groups(self.jacobian, near, row_sets, *shared, large=LARGE_GROUP))
        return self._one_figure(best)

    def _highest_row(self, jacobian: Screened, near: Near, rows: Index) -> float:
        bounds = near.rows(rows, self._every, self.include_target)
        return highest_of(bounds, lambda some: jacobian.norms_of(rows[some], self._every, self.include_target))

    def _shared(
        self, chosen: Index, tied: Sequence[int], tied_target: bool, with_target: bool
    ) -> tuple[Index, bool, Index]:
        """Unknowns of each row, whether the target is one of them, and unknowns that all rows of a group share."""
        tied_unknowns = np.intersect1d(self._columns(tied, empty=True), chosen)
        free = np.setdiff1d(chosen, tied_unknowns)
        include_target = self.include_target and with_target
        if include_target and tied_target:
            include_target, tied_unknowns = False, np.concatenate([tied_unknowns, self.target_positions])
        return free, include_target, tied_unknowns

    def matrix(self, row: int) -> FloatArray:
        """(k, k) Fisher information matrix about one row's unknowns, the target last, eq. 16. Its rank is at most p."""
        if not self.has_noise:
            raise CannotMeasure(
                "an exact release has no finite information matrix: use unscaled_examples to rank the rows"
            )
        J = self._dense(row)
        return np.asarray(J.T @ J)

    def deviation(self, row: int, column: int, *, knows_rest_of_row: bool = True) -> float:
        """Smallest standard deviation of an unbiased guess of one cell by an attacker who knows every other row.

        With `knows_rest_of_row` False the rest of the row is unknown too; the figure can only grow (eq. 12), and is
        infinite if no unbiased guess exists.
        """
        index = self._columns(column)
        if len(index) != 1:
            raise Refusal(f"pass one column at a time, not {column!r}")
        J, column = self._dense(row), int(index[0])
        if not self.has_noise:
            return 0.0 if np.any(J[:, column]) else float("inf")
        if knows_rest_of_row:
            J, column = J[:, [column]], 0
        return float(np.sqrt(unbiased_variance(J, np.eye(J.shape[1])[column])))

    def scale_for(self, target: float, reading: Any = None) -> float:
        """The noise scale at which the highest of `reading` (examples if None) would be `target`: η falls as 1/scale.

        The scale is a function of the data, so releasing it is not covered by the figure. With a fitted scaler η does
        not fall as 1/scale: use `glm.calibrate`.
        """
        if hasattr(getattr(self.jacobian, "inner", self.jacobian), "floor"):
            raise Refusal("a part of this figure remains at any scale: use glm.calibrate, which accounts for it")
        if not (np.isfinite(target) and target > 0):
            raise Refusal(f"a target η must be a finite number > 0, not {target}")
        if self.has_noise and not isinstance(self.noise, Density):
            raise Refusal("scale_for needs one release whose noise has a scale")
        figures = list(reading.values()) if isinstance(reading, Mapping) else reading
        top = float(np.max(self.unscaled_examples if figures is None else figures))
        if not np.isfinite(top):
            raise Refusal(
                "the reading of an exact release is infinite: measure with Gaussian(1.0) and call scale_for on that"
            )
        return top * (self.noise.scale if isinstance(self.noise, Density) else 1.0) / target

    def dose(
        self,
        person: Sequence[Hashable] | None = None,
        *,
        tied: Sequence[int] = (),
        tied_target: bool = False,
        **options: Any,
    ) -> Dose:
        """The dose, one entry per person (who may have several rows), or per row without `person`."""
        if person is None:
            return Dose.of_figures(FISHER, "example", range(self.n), self.examples, **options)
        eta = self.group(person, tied=tied, tied_target=tied_target)
        return Dose.of_figures(FISHER, "person", list(eta), list(eta.values()), **options)

    def of_linear_map(self, A: Any) -> Leakage:
        """The leakage of A w' instead of the noised weights w' (Gaussian noise): JᵀAᵀ(AΣAᵀ)⁺AJ, never more."""
        jacobian, count = map_jacobian(self.jacobian, self.noise if self.has_noise else None, A)
        of = f"{count} linear functions of the weights"
        return replace(self, jacobian=jacobian, noise=None, of=of, members=None)

    def __repr__(self) -> str:
        summary = "unbounded (exact release)" if not self.has_noise else f"highest η = {self.examples.max():.4g}"
        noise = "" if self.noise is None else f" with {self.noise}"
        return f"<Leakage of {self.n} rows x {self.m} columns through {self.of}{noise}: {summary}>"

    def _dense(self, row: int) -> FloatArray:
        (index,) = self._rows([row])
        J: FloatArray = self.jacobian.dense(np.array([index]))[0]
        return J if self.include_target else J[:, : self.m]

    @property
    def _every(self) -> Index:
        return np.arange(self.m, dtype=np.intp)

    def _figure(self, norms: FloatArray) -> FloatArray:
        return norms if self.has_noise else np.asarray(np.where(norms > 0, np.inf, 0.0))

    def _one_figure(self, norm: float) -> float:
        return float(self._figure(np.array(norm)))

    def _columns(self, columns: Any, empty: bool = False) -> Index:
        index = np.atleast_1d(np.asarray(columns)) if np.size(columns) else _no_columns()
        if index.dtype == bool and index.shape == (self.m,):
            index = np.flatnonzero(index)
        if not len(index) and not empty:
            raise Refusal("no column was named: pass at least one")
        valid = index.ndim == 1 and index.dtype.kind in "iu" and len(np.unique(index)) == len(index)
        if not valid or (len(index) and not 0 <= index.min() <= index.max() < self.m):
            raise Refusal(f"columns must be distinct positions from 0 to {self.m - 1}, or a mask, not {columns!r}")
        return index.astype(np.intp)

    def _rows(self, rows: Any) -> Index:
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool and index.shape == (self.n,) else np.atleast_1d(index)
        if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= self.n:
            raise Refusal(f"rows must be positions from 0 to {self.n - 1} or a mask of {self.n} booleans")
        return np.unique(index).astype(np.intp)


def _no_columns() -> Index:
    return np.empty(0, dtype=np.intp)
