"""Check that a model is at its minimum: the formulas hold only at the exact minimiser on the training table.

Newton's method moves the given coefficients to the exact minimum; the model is accepted if no η changes by more than
1 %. A model that stopped early changes little; with another table, other weights or another penalty everything does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.adapters.named_errors import name_columns
from dosimeter.adapters.problem import Problem
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.validation import check_table

ACCEPTED = 0.01
"""The largest relative change of a row's figure that is accepted."""

HIDDEN = 0.05
"""The same without labels, for figures of at least a tenth of the highest. A label's part of a figure hardly depends on
the coefficients: if it dominates, the first bound alone would accept another table."""

VISIBLE = 1e-4
NOISED = (
    "weights that already carry noise, such as those in a file of `fix`, are not a minimum: `fix` reported their dose"
)


def polish(problem: Problem, design: Design, options: dict[str, Any]) -> tuple[glm.Fit, float]:
    """The exact minimiser, and the largest relative change of any row's η on the way to it.

    options: noise, include_target, input_map and target_unit of the reading (`glm.measure`).
    """
    settings: dict[str, Any] = {"sample_weight": problem.weight, "intercept": problem.intercept}
    X, l2 = design.X, problem.penalty / len(design.X)
    exact = _minimiser(problem, design, l2, settings)
    after = _figures(exact, problem, X, options)  # a noise that has no figure is refused here
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            before = _figures(glm.fit_at(X, problem.y, problem.loss, problem.w, l2, **settings), problem, X, options)
    except (Refusal, ValueError, np.linalg.LinAlgError):
        raise CannotMeasure(_not_the_minimum("beyond any measure")) from None
    moved, hidden = relative_move(before[0], after[0], floor=1e-12), relative_move(before[1], after[1], floor=0.1)
    if not (moved <= ACCEPTED and hidden <= HIDDEN):
        raise CannotMeasure(_not_the_minimum(f"by {100 * max(moved, hidden):.3g} %"))
    return exact, moved


def _figures(state: glm.Fit, problem: Problem, X: FloatArray, options: dict[str, Any]) -> list[FloatArray]:
    """(n,) each row's figure as requested, and without its label."""
    targets = (options["include_target"], False)
    return [
        glm.measure(state, X, problem.y, **{**options, "include_target": target}).unscaled_examples
        for target in targets
    ]


def relative_move(before: FloatArray, after: FloatArray, floor: float) -> float:
    """Largest |before - after| / after; figures below `floor` times the highest are raised to it."""
    top = float(after.max())
    if top == 0.0:  # nothing leaks: any change is infinitely large
        return 0.0 if not before.any() else float("inf")
    return float(np.max(np.abs(before - after) / np.maximum(after, floor * top)))


def _not_the_minimum(difference: str) -> str:
    return (
        "the coefficients are not the minimum of the model's loss on this table: at the minimum some η differs "
        f"{difference} (1 % is accepted); fit with a smaller tol, more iterations, solver='newton-cholesky' or scaled "
        f"columns, or pass the training table with its weights; {NOISED}"
    )


def _minimiser(problem: Problem, design: Design, l2: float, settings: dict[str, Any]) -> glm.Fit:
    X, p = design.X, design.X.shape[1] + problem.intercept
    if len(problem.w) != p:
        raise Refusal(f"the model has {len(problem.w)} coefficients for {p} columns: pass the training table")
    check_table(X, problem.y, problem.weight)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return glm.fit(X, problem.y, problem.loss, l2, start=problem.w, **settings)
    except (ValueError, np.linalg.LinAlgError):
        pass  # a start from another table can overflow; a neutral start gives the proper refusal
    try:
        return glm.fit(X, problem.y, problem.loss, l2, **settings)
    except Refusal as refusal:
        message = name_columns(str(refusal), design.names)
        dependent = message != str(refusal) and design.nominal
        todo = "; OneHotEncoder(drop='first') helps where indicators sum to one" if dependent else ""
        noised = f"; {NOISED}" if dependent and not l2 else ""  # a file of `fix` has a weight for every level
        raise CannotMeasure(f"the model has no single minimum on this table: {message}{todo}{noised}") from None
