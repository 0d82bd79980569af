"""What the adapters of scikit-learn's models read off a fitted model."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.problem import Problem, Target
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.losses.label_weights import LabelWeights

CHOSEN_PENALTY = "l2 was chosen from the data by cross-validation: the choice is not covered"
BALANCED = "class_weight='balanced' takes its weights from the label counts, held fixed: not covered"


def output_count(model: Any) -> int:
    """How many targets a linear model predicts."""
    coef = np.asarray(model.coef_)
    return len(coef) if coef.ndim > 1 else 1


def single_output(model: Any) -> FloatArray:
    """(p,) the coefficients of a model with one target, then its intercept if it has one."""
    coef = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    if len(coef) != 1:
        raise CannotMeasure(
            f"{type(model).__name__} predicts {len(coef)} targets at once: fit and measure one model for each"
        )
    return np.append(coef[0], np.ravel(model.intercept_)) if model.fit_intercept else coef[0]


def refuse_positive(model: Any) -> None:
    """Refuse weights that are held at zero."""
    if getattr(model, "positive", False):
        raise CannotMeasure(
            f"{type(model).__name__} with positive=True has a corner at zero and no derivative there: use "
            "positive=False"
        )


def liblinear_penalty(model: Any, C: float) -> Any:
    """nλ = 1/C; (p,) one for each weight where liblinear penalises the intercept by another.

    Its intercept is s w₀, s the intercept_scaling, with the penalty nλ w₀²/2: nλ/s² for the intercept itself.
    """
    penalty, scale = 1.0 / float(C), float(model.intercept_scaling)
    if not model.fit_intercept or scale == 1.0:
        return penalty
    weights = np.full(np.size(single_output(model)), penalty)
    weights[-1] /= scale**2
    return weights


def stopping_note(model: Any) -> str:
    """What a solver says that used up its iterations; "" if it ended before."""
    iterations, limit = getattr(model, "n_iter_", None), getattr(model, "max_iter", None)
    if iterations is None or limit is None or int(np.max(iterations)) < int(limit):
        return ""
    return f"its solver stopped after max_iter={int(limit)} iterations without converging"


def gradient_tolerance(model: Any) -> float | None:
    """The largest entry of the mean gradient with which these solvers of scikit-learn end; None for the others."""
    return float(model.tol) if model.solver in ("lbfgs", "newton-cg", "newton-cholesky") else None


def penalised_mean_problem(loss: Any, model: Any, target: Target) -> Problem:
    """A regressor of scikit-learn that penalises the mean over the rows: nλ = alpha · Σω."""
    y = target.numbers()
    loss.check(y)
    penalty = float(model.alpha) * float(target.ones.sum())
    return Problem(
        loss, penalty, bool(model.fit_intercept), single_output(model), y, target.weight, iterative=True,
        unconverged=stopping_note(model), tolerance=gradient_tolerance(model),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """What the rows of a classifier weigh."""

    weight: FloatArray | None
    """(n,) sample weights times class weights; None if all are 1."""
    by_label: FloatArray | None
    """(n, K) the same for each class that a row could have; None without class weights."""
    notes: tuple[str, ...] = ()
    """What of them is not covered."""

    def of_labels(self, labels: Any) -> LabelWeights | None:
        """For an output that takes the K classes as these numbers."""
        return None if self.by_label is None else LabelWeights(self.by_label, np.asarray(labels, dtype=np.float64))


def class_weights(model: Any, target: Target, positions: NDArray[np.intp]) -> ClassWeights:
    """Sample weights and class weights; what was counted from the labels is held fixed, class by class."""
    if model.class_weight is None:
        return ClassWeights(target.weight, None)
    from sklearn.utils.class_weight import compute_class_weight

    # Newer versions count the classes by sample_weight.
    options = (
        {"sample_weight": target.ones} if "sample_weight" in inspect.signature(compute_class_weight).parameters else {}
    )
    balanced = isinstance(model.class_weight, str)
    if not balanced:
        options = {}
    by_class = compute_class_weight(model.class_weight, classes=model.classes_, y=model.classes_[positions], **options)
    by_label = target.ones[:, None] * np.asarray(by_class, dtype=np.float64)
    return ClassWeights(by_label[np.arange(len(by_label)), positions], by_label, (BALANCED,) if balanced else ())
