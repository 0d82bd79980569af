"""A model of a sparse table that is fitted here: scikit-learn's, on the columns as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.models.table_target import prepare_target
from dosimeter.tables.row_arguments import target_of
from dosimeter.tables.table import Table

TARGET = "y"
"""Name of values that are passed beside the table."""

STEPS = 5_000
"""Most iterations of a solver; what is missing is polished before anything is measured."""


def fit_sparse(X: Any, y: Any, loss: str, l2: float | None) -> Any:
    """The fitted model; y has one value per row. Columns are not standardised: that would fill the table.

    >>> from scipy import sparse
    >>> type(fit_sparse(sparse.eye_array(4, format="csr"), [0, 1, 1, 0], "auto", None)).__name__
    'LogisticRegression'
    """
    if isinstance(y, str):
        raise Refusal(f"a sparse table has no column {y}: pass one value per row with {option('y')}")
    values = target_of(X, y, X.shape[0])
    if values.ndim > 1:
        raise Refusal(f"y has {values.shape[1]} columns and a model that is fitted here predicts one: pass one of them")
    prepared, chosen, _, _, classes = prepare_target(Table.of({TARGET: values}), TARGET, loss)
    if chosen.name not in _MODELS:
        raise CannotMeasure(
            f"the loss {chosen.name} is not fitted here on a sparse table: use {', '.join(_MODELS)}, or pass a model "
            "that was fitted on it"
        )
    n = len(prepared)
    strength = glm.penalty(chosen, n, l2).l2
    if not strength > 0:
        raise Refusal(f"a sparse table is fitted here with a penalty: use {option('l2')} above 0")
    return _MODELS[chosen.name](n, strength).fit(X, prepared if classes is None else values)


def _logistic(n: int, l2: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1.0 / (n * l2), tol=1e-8, max_iter=STEPS)


def _ridge(n: int, l2: float) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=n * l2, solver="sparse_cg", tol=1e-12, max_iter=STEPS)


def _poisson(n: int, l2: float) -> Any:
    from sklearn.linear_model import PoissonRegressor

    return PoissonRegressor(alpha=l2, tol=1e-8, max_iter=STEPS)


_MODELS: dict[str, Callable[[int, float], Any]] = {
    "logistic": _logistic,
    "softmax": _logistic,
    "squared": _ridge,
    "poisson": _poisson,
}
