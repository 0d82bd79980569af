"""The reading: what a noised release of linear weights gives away, at every granularity.

All figures are Fisher information loss η ([Hannun21] eq. 2 and 17) about the chosen unknowns when the attacker knows
every other cell of the table; one over η is the least standard deviation of an unbiased guess (eq. 3).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.category import simplex
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.cramer_rao import unbiased_variance
from dosimeter.core.dose import Dose
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, Noise
from dosimeter.core.notion import FISHER
from dosimeter.glm.category_steps import shared_step_norms, step_norms
from dosimeter.glm.dense_jacobian import Jacobian
from dosimeter.glm.scalar_jacobian import ScalarJacobian

ONE_BY_ONE = 64
"""Groups with more rows than this are few and large: each is a sum over its rows, taken by blocks."""


@dataclass(frozen=True, eq=False)
class Leakage:
    """η of rows, cells, columns, groups and the whole table. Internal: a figure per person is itself private.

    >>> from dosimeter import glm, Gaussian
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> leak.labels.round(4)                     # x / Σx² / σ
    array([0.1429, 0.2857, 0.4286])
    """

    jacobian: Jacobian
    noise: Noise | None
    """None where it is not one noise on the weights: several releases, or a function of the weights."""
    label: bool = True
    """Whether a row's label counts among its unknowns."""
    bounded: bool = True
    """False for an exact release: every figure that is not zero is infinite."""
    of: str = "the weights"
    """What is released."""
    members: Callable[[], FloatArray] | None = None
    """How μ of each row's presence is found, where it can be."""

    @property
    def n(self) -> int:
        """Rows."""
        return self.jacobian.n

    @property
    def m(self) -> int:
        """Unknown quantities in a row, the label not counted."""
        return self.jacobian.m

    @property
    def label_positions(self) -> Index:
        """Where the label stands among the unknowns of a Jacobian: after the columns."""
        return np.arange(self.m, self.m + self.jacobian.label_width, dtype=np.intp)

    @cached_property
    def sensitivity(self) -> FloatArray:
        """(n,) ||Jᵢ|| whitened by the noise, or by a noise of scale 1 for an exact release: the ranking of the rows."""
        return self.jacobian.row_norms(self._every, self.label)

    @cached_property
    def examples(self) -> FloatArray:
        """(n,) η of each row, eq. 17."""
        return self._figure(self.sensitivity)

    @cached_property
    def highest(self) -> float:
        """The largest of `examples`; behind a fitted scaler without the figures of all rows."""
        quick = getattr(self.jacobian, "highest", None)
        if quick is None or "sensitivity" in self.__dict__:
            return float(self.examples.max())
        return self._one(quick(self._every, self.label))

    @cached_property
    def labels(self) -> FloatArray:
        """(n,) η of each row's label."""
        return self._figure(self.jacobian.label_norms())

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
        return self._one(self.jacobian.together(slice(None), self._every, self.label, _none()))

    @cached_property
    def dfil(self) -> FloatArray:
        """(n,) √(tr I / number of unknowns) of each row [Guo22]; never above η."""
        squares = np.sum(self.jacobian.cell_norms(self._every) ** 2, axis=1)
        width = self.jacobian.label_width
        if self.label and width > 1:
            raise CannotMeasure("dFIL of a softmax label is not defined here: use without_label()")
        if self.label:
            squares = squares + self.jacobian.label_norms() ** 2
        return self._figure(np.sqrt(squares / (self.m + (width if self.label else 0))))

    @cached_property
    def membership(self) -> FloatArray:
        """(n,) μ of each row's presence against one who knows everybody else; the best ROC is that of μ-GDP."""
        if self.members is None:
            raise CannotMeasure(
                "the membership figure is for one release of weights with Gaussian noise of public shape"
            )
        return self.members()

    def without_label(self) -> Leakage:
        """The same release with every label regarded as known."""
        return replace(self, label=False)

    def attribute(self, columns: int | Sequence[int]) -> FloatArray:
        """(n,) η of a block of columns, per row, the label not counted; of one category's steps see `category`."""
        return self._figure(self.jacobian.row_norms(self._columns(columns), label=False))

    def category(
        self, columns: int | Sequence[int], vertices: Any = None, shared: Sequence[Index] | None = None
    ) -> FloatArray:
        """(n,) η of a category in each row: of the largest step between two of its levels, `glm/category_steps.py`.

        columns: its unknowns, or the positions of the label. vertices: (k, m') its levels in their coordinates,
        `core/category.py` if None. shared: groups of rows on which it is one unknown; then (groups,).
        """
        index = np.atleast_1d(np.asarray(columns)).astype(np.intp)
        if not np.array_equal(index, self.label_positions):
            index = self._columns(columns)
        V = simplex(len(index) + 1) if vertices is None else np.asarray(vertices, dtype=np.float64)
        if V.ndim != 2 or V.shape[1] != len(index) or len(V) < 2:
            raise Refusal(f"the levels of a category are a (k, {len(index)}) array, not of shape {V.shape}")
        if shared is None:
            return self._figure(step_norms(self.jacobian, index, V))
        return self._figure(shared_step_norms(self.jacobian, shared, index, V))

    def attribute_over(self, columns: int | Sequence[int]) -> float:
        """η of a block of columns over all rows together."""
        return self._one(self.jacobian.together(slice(None), self._columns(columns), False, _none()))

    def subset(self, rows: Any, columns: Any = None, *, label: bool = False) -> float:
        """η of the cells in `rows` and `columns` (all columns if None) together, with their labels if asked."""
        index = self._rows(rows)
        picked = self._every if columns is None else self._columns(columns, empty=label)
        return self._one(self.jacobian.together(index, picked, label, _none()))

    def mask(self, mask: Any) -> float:
        """η of any set of cells together: (n, m) booleans, or (n, m + 1) with the label last."""
        chosen = np.asarray(mask, dtype=bool)
        if chosen.shape == (self.n, self.m):
            chosen = np.column_stack([chosen, np.zeros(self.n, dtype=bool)])
        if chosen.shape != (self.n, self.m + 1):
            raise Refusal(f"a mask has shape ({self.n}, {self.m}) or ({self.n}, {self.m + 1}), not {chosen.shape}")
        return self._one(self.jacobian.together_mask(chosen))

    def group(
        self,
        groups: Sequence[Hashable],
        *,
        tied: Sequence[int] = (),
        tied_label: bool = False,
        columns: Any = None,
    ) -> dict[Hashable, float]:
        """η of each group of rows together, groups in the order in which they first appear.

        `tied` columns hold one value per group (a person's sex on each of their rows): one unknown whose Jacobians add.
        `tied_label`: so does the label. Left out, such values count as separate unknowns and are under-reported: by up
        to √rows of the stacked norm.
        """
        order, index = _first_appearance(groups, self.n)
        chosen = self._every if columns is None else self._columns(columns)
        bound = np.intersect1d(self._columns(tied, empty=True), chosen)
        free = np.setdiff1d(chosen, bound)
        label = self.label and columns is None
        if label and tied_label:
            label, bound = False, np.concatenate([bound, self.label_positions])
        sizes = np.bincount(index, minlength=len(order))
        out = np.zeros(len(order))
        alone = sizes[index] == 1
        if alone.any():
            single = self.sensitivity if columns is None else self.jacobian.row_norms(chosen, False)
            out[index[alone]] = single[alone]
        by_group = np.split(np.argsort(index, kind="stable").astype(np.intp), np.cumsum(sizes)[:-1])
        for size in np.unique(sizes[sizes > 1]):  # groups of one size are taken together
            which = np.flatnonzero(sizes == size)
            together = np.stack([by_group[k] for k in which])
            if size <= ONE_BY_ONE:
                out[which] = self.jacobian.norms_together(together, free, label, bound)
            else:
                out[which] = [self.jacobian.together(rows, free, label, bound) for rows in together]
        return dict(zip(order, self._figure(out).tolist(), strict=True))

    def matrix(self, row: int) -> FloatArray:
        """(k, k) Fisher information matrix about one row's unknowns, the label last, eq. 16. Its rank is at most p."""
        if not self.bounded:
            raise CannotMeasure("an exact release has no finite information matrix: `sensitivity` ranks the rows")
        J = self._dense(row)
        return np.asarray(J.T @ J)

    def deviation(self, row: int, column: int, *, knows_rest_of_row: bool = True) -> float:
        """Least standard deviation of an unbiased guess of one cell by somebody who knows every other row.

        With `knows_rest_of_row` False the rest of the row is unknown too; the figure can only grow (eq. 12), and is
        infinite where no unbiased guess exists.
        """
        index = self._columns(column)
        if len(index) != 1:
            raise Refusal(f"one column at a time, not {column!r}")
        J, column = self._dense(row), int(index[0])
        if not self.bounded:
            return 0.0 if np.any(J[:, column]) else float("inf")
        if knows_rest_of_row:
            J, column = J[:, [column]], 0
        return float(np.sqrt(unbiased_variance(J, np.eye(J.shape[1])[column])))

    def scale_for(self, target: float, reading: Any = None) -> float:
        """The noise scale at which the highest of `reading` (examples if None) would be `target`: η falls as 1/scale.

        The scale is a function of the data; released as it stands it is not covered by the figure. Behind a fitted
        scaler η does not fall as 1/scale: `glm.calibrate` finds the scale there.
        """
        if hasattr(getattr(self.jacobian, "inner", self.jacobian), "floor"):
            raise Refusal("a part of this figure is left at any scale: use glm.calibrate, which knows it")
        if not (np.isfinite(target) and target > 0):
            raise Refusal(f"a target η is a finite number > 0, not {target}")
        if self.bounded and not isinstance(self.noise, Density):
            raise Refusal("a scale is asked of one release whose noise has a scale")
        figures = list(reading.values()) if isinstance(reading, Mapping) else reading
        top = float(np.max(self.sensitivity if figures is None else figures))
        if not np.isfinite(top):
            raise Refusal(
                "the reading of an exact release is infinite: take it with Gaussian(1.0) and ask that for a scale"
            )
        return top * (self.noise.scale if isinstance(self.noise, Density) else 1.0) / target

    def dose(
        self,
        person: Sequence[Hashable] | None = None,
        *,
        tied: Sequence[int] = (),
        tied_label: bool = False,
        **how: Any,
    ) -> Dose:
        """One row per person (several rows may be one person), or per row where no person is given."""
        if person is None:
            return Dose.of_reading(FISHER, "example", range(self.n), self.examples, **how)
        eta = self.group(person, tied=tied, tied_label=tied_label)
        return Dose.of_reading(FISHER, "person", list(eta), list(eta.values()), **how)

    def after(self, A: Any) -> Leakage:
        """The leakage of A w' instead of the noised weights w' (Gaussian noise): JᵀAᵀ(AΣAᵀ)⁺AJ, never more."""
        jacobian = self.jacobian
        if not isinstance(jacobian, ScalarJacobian) or not self.bounded:
            raise CannotMeasure("post-processing is measured for one noised release with a single margin")
        A = np.atleast_2d(np.asarray(A, dtype=np.float64))
        p = len(jacobian.P)
        if A.shape[1] != p or not np.isfinite(A).all():
            raise Refusal(f"A needs {p} finite columns, one for each released weight, not shape {A.shape}")
        if type(self.noise) is Gaussian:
            root = self.noise.sigma * np.eye(p)
        elif type(self.noise) is CorrelatedGaussian:
            root = self.noise.cholesky
        else:
            raise CannotMeasure(f"a linear image of {self.noise} has no closed form; the leakage of w' bounds it")
        size = np.linalg.norm(A @ root, axis=1)
        if not size.any():
            raise Refusal("A is zero: nothing would be released")
        # Each function in units of its own noise: a scale of a function changes nothing of what it tells.
        A = A[size > 0] / size[size > 0, None]
        U, s, _ = np.linalg.svd(A @ root, full_matrices=False)
        keep = s > 1e-13 * s[0]
        if (s[keep] < 1e-8 * s[0]).any():
            raise Refusal(
                "the functions in A are nearly dependent, and float64 cannot tell how many there are: drop one"
            )
        F = (U[:, keep] / s[keep]).T @ A @ jacobian.factor.matrix
        return replace(
            self,
            jacobian=replace(jacobian, F=F),
            noise=None,
            of=f"{len(A)} linear functions of the weights",
            members=None,
        )

    def __repr__(self) -> str:
        what = "unbounded (exact release)" if not self.bounded else f"highest η = {self.examples.max():.4g}"
        noise = "" if self.noise is None else f" with {self.noise}"
        return f"<Leakage of {self.n} rows x {self.m} columns through {self.of}{noise}: {what}>"

    def _dense(self, row: int) -> FloatArray:
        (index,) = self._rows([row])
        J: FloatArray = self.jacobian.dense(np.array([index]))[0]
        return J if self.label else J[:, : self.m]

    @property
    def _every(self) -> Index:
        return np.arange(self.m, dtype=np.intp)

    def _figure(self, norms: FloatArray) -> FloatArray:
        return norms if self.bounded else np.asarray(np.where(norms > 0, np.inf, 0.0))

    def _one(self, norm: float) -> float:
        return float(self._figure(np.array(norm)))

    def _columns(self, columns: Any, empty: bool = False) -> Index:
        index = np.atleast_1d(np.asarray(columns)) if np.size(columns) else _none()
        if index.dtype == bool and index.shape == (self.m,):
            index = np.flatnonzero(index)
        if not len(index) and not empty:
            raise Refusal("no column was named")
        whole = index.ndim == 1 and index.dtype.kind in "iu" and len(np.unique(index)) == len(index)
        if not whole or (len(index) and not 0 <= index.min() <= index.max() < self.m):
            raise Refusal(f"columns are distinct positions from 0 to {self.m - 1}, or a mask, not {columns!r}")
        return index.astype(np.intp)

    def _rows(self, rows: Any) -> Index:
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool and index.shape == (self.n,) else np.atleast_1d(index)
        if index.dtype.kind not in "iu" or not len(index) or index.min() < 0 or index.max() >= self.n:
            raise Refusal(f"rows are positions from 0 to {self.n - 1} or a mask of {self.n} booleans")
        return np.unique(index).astype(np.intp)


def _first_appearance(groups: Any, n: int) -> tuple[list[Hashable], Any]:
    names = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(names) != n:
        raise Refusal(f"one group for each of the {n} rows is needed, not {len(names)}")
    unnamed = next((i for i, g in enumerate(names) if isinstance(g, float) and g != g), None)
    if unnamed is not None:
        raise Refusal(f"row {unnamed} has no group (nan): name it or leave it out")
    try:
        order = {g: k for k, g in enumerate(dict.fromkeys(names))}
    except TypeError:
        raise Refusal("groups are names, numbers or other values that can be told apart, one for each row") from None
    return list(order), np.array([order[g] for g in names])


def _none() -> Index:
    return np.empty(0, dtype=np.intp)
