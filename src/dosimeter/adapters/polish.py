"""Is this the minimum? The formulas hold at the exact minimiser on the training table and nowhere else.

Given coefficients are polished by Newton to the exact minimum and accepted if no η moves by more than 1 %. A
model that stopped early moves little; another table, other weights or another penalty move everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.adapters.named_errors import with_names
from dosimeter.adapters.problem import Problem
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.validation import check_table

ACCEPTED = 0.01
"""The largest relative move of a row's figure, as it is asked for."""

HIDDEN = 0.05
"""The same without labels, for figures of a tenth of the highest or more. A label's share of a figure hardly
depends on the coefficients: where it dominates, the first bound alone would let another table pass."""

VISIBLE = 1e-4
NOISED = (
    "weights that carry noise already, such as those of a file that `fix` wrote, are no minimum: `fix` said their dose"
)


def polished(problem: Problem, design: Design, how: dict[str, Any]) -> tuple[glm.Fit, float]:
    """The exact minimiser, and the largest relative move of any row's η on the way to it.

    how: noise, label, through and label_unit of the reading (`glm.measure`).
    """
    settings: dict[str, Any] = {"sample_weight": problem.weight, "intercept": problem.intercept}
    X, l2 = design.X, problem.penalty / len(design.X)
    exact = _minimiser(problem, design, l2, settings)
    after = _figures(exact, problem, X, how)  # a noise that has no figure is refused here, in its own words
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            before = _figures(glm.at(X, problem.y, problem.loss, problem.w, l2, **settings), problem, X, how)
    except (Refusal, ValueError, np.linalg.LinAlgError):
        raise CannotMeasure(_far("beyond any measure")) from None
    moved, hidden = _move(before[0], after[0], floor=1e-12), _move(before[1], after[1], floor=0.1)
    if not (moved <= ACCEPTED and hidden <= HIDDEN):
        raise CannotMeasure(_far(f"by {100 * max(moved, hidden):.3g} %"))
    return exact, moved


def _figures(state: glm.Fit, problem: Problem, X: FloatArray, how: dict[str, Any]) -> list[FloatArray]:
    """(n,) each row's figure as it is asked for, and without its label."""
    labels = (how["label"], False)
    return [glm.measure(state, X, problem.y, **{**how, "label": label}).sensitivity for label in labels]


def _move(before: FloatArray, after: FloatArray, floor: float) -> float:
    """Largest |before - after| / after; figures below `floor` times the highest count as that much."""
    top = float(after.max())
    if top == 0.0:  # nothing of a row leaks: any move at all is without measure
        return 0.0 if not before.any() else float("inf")
    return float(np.max(np.abs(before - after) / np.maximum(after, floor * top)))


def _far(how_much: str) -> str:
    return (
        "the coefficients are not the minimum of the model's loss on this table: at the minimum some η differs "
        f"{how_much} (1 % is accepted); fit with a smaller tol, more iterations, solver='newton-cholesky' or scaled "
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
        pass  # a start from another table can overflow: what is wrong is said from a neutral start
    try:
        return glm.fit(X, problem.y, problem.loss, l2, **settings)
    except Refusal as why:
        told = with_names(str(why), design.names)
        dependent = told != str(why) and design.nominal
        todo = "; OneHotEncoder(drop='first') helps where indicators sum to one" if dependent else ""
        noised = f"; {NOISED}" if dependent and not l2 else ""  # a file of `fix` has a weight for every level
        raise CannotMeasure(f"the model has no single minimum on this table: {told}{todo}{noised}") from None
