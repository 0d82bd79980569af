"""Is this the minimum? The formulas hold at the exact minimiser on the training table and nowhere else.

Given coefficients are polished by Newton to the exact minimum and accepted if no η moves by more than 1 %. A
model that stopped early moves little; another table, other weights or another penalty move everything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import CannotMeasure, Refusal
from dosimeter.frames.problem import Problem
from dosimeter.glm.table import check_table

ACCEPTED = 0.01
VISIBLE = 1e-4


def polished(problem: Problem, X: FloatArray, through: FloatArray) -> tuple[glm.Fit, float]:
    """The exact minimiser for X (n, d), and the largest relative move of any row's η on the way to it.

    through: (d, m) frozen map from the unknowns to X.
    """
    settings: dict[str, Any] = {"sample_weight": problem.weight, "intercept": problem.intercept}
    l2 = problem.penalty / len(X)
    exact = _minimiser(problem, X, l2, settings)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            given = glm.at(X, problem.y, problem.loss, problem.w, l2, **settings)
            moved = _largest_move(given, exact, X, problem.y, through)
    except (Refusal, ValueError, np.linalg.LinAlgError):
        raise CannotMeasure(_far("beyond any measure")) from None
    if not moved <= ACCEPTED:
        raise CannotMeasure(_far(f"by {100 * moved:.3g} %"))
    return exact, moved


def _far(how_much: str) -> str:
    return (
        "the coefficients are not the minimum of eq. 13 on this table: at the minimum some η differs "
        f"{how_much} "
        "(1 % is accepted); fit with a smaller tol / more iterations, or pass the training table with its "
        "sample_weight"
    )


def _minimiser(problem: Problem, X: FloatArray, l2: float, settings: dict[str, Any]) -> glm.Fit:
    p = X.shape[1] + problem.intercept
    if len(problem.w) != p:
        raise Refusal(
            f"the model has {len(problem.w)} coefficients for {p} columns of the design: pass the training "
            "table"
        )
    check_table(X, problem.y, problem.weight)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return glm.fit(X, problem.y, problem.loss, l2, start=problem.w, **settings)
    except (ValueError, np.linalg.LinAlgError):
        pass  # a start from another table can overflow: what is wrong is said from a neutral start
    try:
        return glm.fit(X, problem.y, problem.loss, l2, **settings)
    except Refusal as why:
        raise CannotMeasure(f"the model's problem has no single minimum on this table: {why}") from None


def _largest_move(given: glm.Fit, exact: glm.Fit, X: FloatArray, y: FloatArray, through: FloatArray) -> float:
    """Over rows with and without their label, whose share hardly depends on the coefficients and can hide
    them.
    """
    moves = []
    for label in (True, False):
        before, after = (
            glm.measure(state, X, y, Gaussian(1.0), label=label, through=through).sensitivity
            for state in (given, exact)
        )
        top = float(after.max())
        if top == 0.0:  # nothing of a row leaks: any move at all is without measure
            moves.append(0.0 if not before.any() else np.inf)
            continue
        moves.append(float(np.max(np.abs(before - after) / np.maximum(after, 1e-12 * top))))
    return max(moves)
