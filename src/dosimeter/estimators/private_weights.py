"""Private linear models with scikit-learn's interface: what all of them share.

`fit` finds the exact minimiser, chooses the noise for the stated dose (or takes the stated scale), draws it safely and
keeps only what is released: `coef_`, `intercept_` and `release_`. The exact weights are discarded. `released_` is a
plain scikit-learn model with the same weights, which works without this package.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import step_of
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import NOISES
from dosimeter.glm.fitting.route import PRIMAL
from dosimeter.glm.jacobians.category_steps import units_of_columns
from dosimeter.glm.releases.release_planning import plan

WRITTEN_OUT = 1 << 24
"""Numbers of a sparse table that is written out for a release: 134 MB."""


class PrivateWeights(BaseEstimator):  # type: ignore[misc]
    """What all models share: the plan, the draw and the released weights."""

    equalise: bool = False
    reweighting_rounds: int = 3
    noise_shape: str | None = None
    """The same noise on all weights, unless a model has these as parameters."""

    def __sklearn_tags__(self) -> Any:
        """Sparse tables are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _fit(
        self, X: FloatArray, y: FloatArray, loss: Any, penalty: float, description: str, sample_weight: Any
    ) -> None:
        """penalty: nλ of eq. 13; description: the same in public terms, because λ itself reveals the number of rows."""
        if self.noise not in NOISES:
            raise Refusal(f"noise {self.noise!r} is not one of {', '.join(NOISES)}")
        release_plan = plan(
            X,
            y,
            loss,
            penalty / X.shape[0],
            max_dose=self.max_dose,
            scale=self.scale,
            law=NOISES[self.noise],
            reweighting_rounds=self._rounds(),
            noise_shape=self.noise_shape,
            sample_weight=sample_weight,
            intercept=self.fit_intercept,
            input_map=units_of_sparse_columns(X) if sparse.issparse(X) else np.diag(units_of_columns(X)),
            target_unit=loss.target.unit(y, 1.0),
        )
        self.release_ = replace(release_plan, penalty=description).draw(generator(self.random_state))
        self.highest_dose_ = release_plan.highest
        """η of the most exposed row: computed from the data without protection, so internal. It is not saved."""
        coef = self.release_.values["coef"]
        self._set_weights(coef, self.release_.values.get("intercept", np.zeros(len(np.atleast_2d(coef)))))

    def _released_table(self, X: Any) -> Any:
        """The table as `_fit` takes it: an array, or a large sparse table as it is."""
        return table_of_release(X, sparse_route=self._rounds() == 0 and self.noise_shape is None)

    def _rounds(self) -> int:
        """Rounds of reweighting; 0 without."""
        if not isinstance(self.equalise, bool | np.bool_):
            raise Refusal(f"equalise={self.equalise!r}: use True or False, and reweighting_rounds for their number")
        if self.equalise and not self.reweighting_rounds >= 1:
            raise Refusal(f"reweighting_rounds={self.reweighting_rounds!r}: use a whole number from 1")
        return int(self.reweighting_rounds) if self.equalise else 0

    def __getstate__(self) -> Any:
        """Without the dose: only the release is saved, copied or sent to another process."""
        return {name: value for name, value in super().__getstate__().items() if name != "highest_dose_"}

    def _set_weights(self, coef: FloatArray, intercept: FloatArray) -> None:
        """coef (d,) and intercept (1,), or (K, d) and (K,) for several classes."""
        self.coef_: Any = coef.copy()
        self.intercept_: Any = float(intercept[0])

    def _margin(self, X: Any) -> FloatArray:
        """(n,), or (n, K) for several classes."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        margins = X @ np.atleast_2d(self.coef_).T + np.ravel(self.intercept_)
        return np.asarray(margins[:, 0] if margins.shape[1] == 1 else margins)

    def _with_released_weights(self, plain: Any) -> Any:
        """A scikit-learn model with the released weights and nothing else of this package."""
        check_is_fitted(self)
        plain.coef_, plain.intercept_ = np.array(self.coef_), np.array(self.intercept_)
        plain.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            plain.feature_names_in_ = self.feature_names_in_
        return plain


def table_of_release(X: Any, *, sparse_route: bool) -> Any:
    """(n, d) as an array; a large sparse table stays sparse if its release has a route that needs no more.

    >>> table_of_release(sparse.csr_array([[0.0, 2.0]]), sparse_route=True)
    array([[0., 2.]])
    """
    if not sparse.issparse(X):
        return np.asarray(X)
    n, d = X.shape
    if d <= PRIMAL and n * d <= WRITTEN_OUT:
        return np.asarray(X.toarray())
    if not sparse_route:
        raise Refusal(
            f"equalise and noise_shape need a matrix with a row and a column for every weight: on a sparse table of "
            f"{n} x {d} use equal noise on all weights, or at most {PRIMAL} columns and {WRITTEN_OUT} numbers"
        )
    return sparse.csr_array(X)


def units_of_sparse_columns(X: Any) -> FloatArray:
    """(d,) as `units_of_columns`: the step of each column that has two values, 1 for the others.

    >>> units_of_sparse_columns(sparse.csr_array([[0.0, 2.0, 1.0], [3.0, 2.0, 4.0], [0.0, 2.0, 2.0]])).tolist()
    [3.0, 1.0, 1.0]
    """
    columns = sparse.csc_array(X)
    columns.sum_duplicates()
    columns.eliminate_zeros()
    n, stored = columns.shape[0], np.diff(columns.indptr)
    units = np.ones(columns.shape[1])
    filled = np.flatnonzero(stored)
    if len(filled):  # one segment for each column that stores anything: together they are all of the data
        starts = columns.indptr[filled]
        low, high = np.minimum.reduceat(columns.data, starts), np.maximum.reduceat(columns.data, starts)
        units[filled] = np.where((low == high) & (stored[filled] < n), np.abs(low), 1.0)
    for j in np.flatnonzero(stored == n).tolist():  # no zero: both values are stored
        units[j] = step_of(columns.data[columns.indptr[j] : columns.indptr[j + 1]]) or 1.0
    return units


def generator(random_state: Any) -> np.random.Generator | None:
    """None for a draw from the operating system; a numpy Generator for a simulation."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return random_state
    legacy = check_random_state(random_state)
    return np.random.Generator(np.random.PCG64(legacy.randint(2**31 - 1)))


class PrivateRegressor(RegressorMixin, PrivateWeights):  # type: ignore[misc]
    """A model of numbers."""

    def _table(self, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2, accept_sparse="csr")
        return self._released_table(X), np.asarray(y, dtype=np.float64)
