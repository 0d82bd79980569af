"""A score for model selection: the less the most exposed row leaks, the better."""

from __future__ import annotations

from typing import Any

from dosimeter.core.errors import Refusal


def highest_dose_scorer(estimator: Any, X: Any, y: Any = None) -> float:
    """Minus the highest dose that the estimator gave to a row of its own training table (X and y are not looked at).

    For GridSearchCV(scoring=...). The last step of a Pipeline is asked where the estimator is one.
    """
    final = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    if not hasattr(final, "highest_dose_"):
        raise Refusal(f"{type(final).__name__} has no dose: use it with a fitted Private... estimator")
    return -float(final.highest_dose_)
