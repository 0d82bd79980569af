"""Fitted models as problems of [Hannun21] eq. 13, argmin Σ ωᵢ l(w·xᵢ, yᵢ) + (nλ/2)||w||².

| model                        | loss             | nλ          |
| LinearRegression, OLS, GLM   | squared, its own | 0           |
| Ridge, RidgeCV               | squared          | alpha       |
| LogisticRegression(CV)       | logistic, softmax| 1/C         |
| PoissonRegressor             | poisson          | alpha · Σω  |

The released values are the model's coefficients and intercept. The K rows of weights of a multinomial model sum to
zero; they are read in K-1 orthonormal contrasts, in which equal noise on all rows stays equal noise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.adapters.coefficients import Coefficients
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.statsmodels_results import problem_of_results
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text

CHOSEN = "l2 was chosen from the data by cross-validation: the choice is not covered"
BALANCED = "class_weight='balanced' takes its weights from the label counts, held fixed: not covered"


Translator = Callable[[Any, Target], Problem]


def problem_of(model: Any, target: Target) -> Problem:
    """The problem that a fitted final estimator claims to have solved."""
    if isinstance(model, Coefficients):
        return _bare(model, target)
    if type(model).__module__.split(".")[0] == "statsmodels":
        return problem_of_results(model, target)
    for cls in type(model).__mro__:
        if cls in _translators():
            _require_fitted(model)
            return _translators()[cls](model, target)
    raise CannotMeasure(why_not(model))


def refuse_unmeasurable(model: Any) -> None:
    """Refuse a kind of model that no formula here covers, or one not fitted, before the table is read."""
    if isinstance(model, Coefficients) or type(model).__module__.split(".")[0] == "statsmodels":
        return
    if not any(cls in _translators() for cls in type(model).__mro__):
        raise CannotMeasure(why_not(model))
    _require_fitted(model)


def why_not(model: Any) -> str:
    """One sentence for a model that no formula here covers."""
    name = type(model).__name__
    reasons = {
        ("Lasso", "ElasticNet", "Lars", "OrthogonalMatchingPursuit"): _SPARSE,
        ("SGD", "Perceptron", "PassiveAggressive"): "stops before its optimum and is random",
        ("SVC", "SVR", "NuSVC", "NuSVR", "Huber", "Quantile"): "has a loss without a second derivative",
        ("KNeighbors", "RadiusNeighbors"): "stores the rows themselves",
        ("Bayesian", "ARD"): "chooses its penalties from the data within the fit",
    }
    why = next(
        (r for starts, r in reasons.items() if any(s in name for s in starts)),
        "is not one of the smooth linear models whose dependence on a row is known here",
    )
    return f"{safe_text(name)} cannot be measured: it {why}; {_INSTEAD}"


_SPARSE = "has a penalty with a kink at zero, so its weights do not follow the data smoothly"
_INSTEAD = "fit Ridge, LogisticRegression (l2) or PoissonRegressor instead"


@cache
def _translators() -> dict[type, Translator]:
    from sklearn import linear_model as lm

    return {
        lm.LinearRegression: _linear,
        lm.Ridge: lambda model, target: _ridge(model, target, model.alpha),
        lm.RidgeCV: lambda model, target: _ridge(model, target, model.alpha_, CHOSEN),
        lm.LogisticRegression: lambda model, target: _logistic(model, target, model.C),
        lm.LogisticRegressionCV: _logistic_cv,
        lm.PoissonRegressor: _poisson,
    }


def _require_fitted(model: Any) -> None:
    if not hasattr(model, "coef_"):
        raise CannotMeasure(f"{type(model).__name__} is not fitted, so it has released nothing yet: call fit first")


def _bare(model: Coefficients, target: Target) -> Problem:
    loss, y = glm.LOSSES[model.loss](), target.numbers()
    loss.check(y)
    w = np.array([*model.coef.values(), *([] if model.intercept is None else [model.intercept])], dtype=np.float64)
    return Problem(loss, len(y) * model.l2, model.intercept is not None, w, y, target.weight)


def _one_row(model: Any) -> FloatArray:
    """(p,) the coefficients of a model with one target, then its intercept if it has one."""
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if len(coef) != 1:
        raise CannotMeasure(
            f"{type(model).__name__} predicts {len(coef)} targets at once: fit and measure one model for each"
        )
    return np.append(coef[0], np.ravel(model.intercept_)) if model.fit_intercept else coef[0]


def _refuse_positive(model: Any) -> None:
    if getattr(model, "positive", False):
        raise CannotMeasure(
            f"{type(model).__name__} with positive=True has a corner at zero and no derivative there: use "
            "positive=False"
        )


def _linear(model: Any, target: Target) -> Problem:
    _refuse_positive(model)
    return Problem(glm.Squared(), 0.0, model.fit_intercept, _one_row(model), target.numbers(), target.weight)


def _ridge(model: Any, target: Target, alpha: Any, *uncovered: str) -> Problem:
    _refuse_positive(model)
    if np.size(alpha) != 1:
        raise CannotMeasure(
            f"{type(model).__name__} has a penalty for each of several targets: fit and measure one model for each"
        )
    penalty, w = float(np.ravel(alpha)[0]), _one_row(model)
    return Problem(glm.Squared(), penalty, model.fit_intercept, w, target.numbers(), target.weight, uncovered=uncovered)


def _poisson(model: Any, target: Target) -> Problem:
    penalty = float(model.alpha) * float(target.ones.sum())
    return Problem(glm.Poisson(), penalty, model.fit_intercept, _one_row(model), target.numbers(), target.weight)


def _logistic_cv(model: Any, target: Target) -> Problem:
    if not model.refit:
        raise CannotMeasure(
            "LogisticRegressionCV with refit=False averages over folds and is not a minimum: use refit=True"
        )
    chosen = np.unique(np.ravel(model.C_))
    if len(chosen) != 1:
        raise CannotMeasure("LogisticRegressionCV chose a C for each class (one-versus-rest): use a multinomial solver")
    return _logistic(model, target, float(chosen[0]), CHOSEN)


def _logistic(model: Any, target: Target, C: float, *uncovered: str) -> Problem:
    _refuse_kinks(model)
    classes = model.classes_.tolist()
    positions = target.positions(classes)
    weight, notes = _class_weights(model, target, positions)
    penalty = 0.0 if _penalty(model) is None or np.isinf(C) else 1.0 / float(C)
    K = len(classes)
    if K == 2:
        _refuse_scheme(model, "multinomial")
        penalised = model.solver == "liblinear" and model.fit_intercept
        if penalised and model.intercept_scaling != 1:
            raise CannotMeasure(
                "liblinear with intercept_scaling other than 1 releases a rescaled intercept: use another solver"
            )
        loss: glm.Logistic | glm.Softmax = glm.Logistic()
        w = _one_row(model)
    else:
        _refuse_scheme(model, "ovr")
        penalised = False
        loss = glm.Softmax(K, "mean")
        W = np.column_stack([model.coef_, model.intercept_]) if model.fit_intercept else np.asarray(model.coef_)
        w = W.T.astype(np.float64) @ loss.contrast
    intercept = bool(model.fit_intercept) and not penalised
    return Problem(loss, penalty, intercept, w, positions.astype(np.float64), weight, penalised, (*uncovered, *notes))


def _penalty(model: Any) -> Any:
    """None, 'l2', 'l1', 'elasticnet'; 'deprecated' if only C and l1_ratio decide (scikit-learn >= 1.8)."""
    return getattr(model, "penalty", "deprecated")


def _refuse_kinks(model: Any) -> None:
    """Refuse an L1 penalty: `penalty` up to scikit-learn 1.7, `l1_ratio` alone after it."""
    fitted = getattr(model, "l1_ratio_", None)
    ratio = getattr(model, "l1_ratio", None) if fitted is None else fitted
    ratios = [float(r) for r in np.ravel(np.asarray(ratio, dtype=object)) if r is not None]
    mixed = _penalty(model) in ("elasticnet", "deprecated") and any(r != 0 for r in ratios)
    if _penalty(model) == "l1" or mixed:
        raise CannotMeasure(f"{type(model).__name__} with an L1 penalty cannot be measured: it {_SPARSE}; use l2")


def _refuse_scheme(model: Any, scheme: str) -> None:
    """`multi_class` was a choice up to scikit-learn 1.7; liblinear has always been one-versus-rest."""
    multi_class = getattr(model, "multi_class", "auto")
    if multi_class == scheme or (scheme == "ovr" and (model.solver == "liblinear" or multi_class == "warn")):
        raise CannotMeasure(
            f"LogisticRegression as {scheme} for {len(model.classes_)} classes is not one smooth loss of all weights: "
            "fit it with solver='lbfgs' and without multi_class"
        )


def _class_weights(
    model: Any, target: Target, positions: NDArray[np.intp]
) -> tuple[FloatArray | None, tuple[str, ...]]:
    if model.class_weight is None:
        return target.weight, ()
    from sklearn.utils.class_weight import compute_class_weight

    # Newer versions count the classes by sample_weight.
    options = (
        {"sample_weight": target.ones} if "sample_weight" in inspect.signature(compute_class_weight).parameters else {}
    )
    balanced = isinstance(model.class_weight, str)
    if not balanced:
        options = {}
    by_class = compute_class_weight(model.class_weight, classes=model.classes_, y=model.classes_[positions], **options)
    return target.ones * np.asarray(by_class)[positions], (BALANCED,) if balanced else ()
