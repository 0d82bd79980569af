"""Whether given coefficients are the minimum of a Cox model on a table, and how far they are from it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.cox_problem import CoxProblem
from dosimeter.adapters.named_errors import name_columns
from dosimeter.adapters.relative_move import ACCEPTED, HIDDEN, NOISED, relative_move
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal


def polish_cox(
    problem: CoxProblem, *, noise: Any, include_target: bool = True, input_map: Any = None
) -> tuple[glm.CoxFit, float]:
    """The exact minimiser, and the largest relative change of any row's η on the way to it; refused above 1 %.

    The outcome counts with the step of its event here: it needs no pass over all pairs of rows.
    """
    data = problem.X, problem.time, problem.event
    try:
        exact = _minimiser(data, problem)
    except Refusal as refusal:
        message = name_columns(str(refusal), problem.names)
        raise CannotMeasure(f"the Cox model has no single minimum on this table: {message}") from None
    after = _figures(exact, noise, include_target, input_map)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            at_given = glm.fit_cox_at(*data, problem.w, **problem.settings)
        before = _figures(at_given, noise, include_target, input_map)
    except (Refusal, np.linalg.LinAlgError):
        raise CannotMeasure(_not_the_minimum("beyond any measure")) from None
    moved, hidden = (relative_move(before[k], after[k], floor) for k, floor in ((0, 1e-12), (1, 0.1)))
    if not (moved <= ACCEPTED and hidden <= HIDDEN):
        raise CannotMeasure(_not_the_minimum(f"by {100 * max(moved, hidden):.3g} %"))
    return exact, moved


def _minimiser(data: tuple[FloatArray, ...], problem: CoxProblem) -> glm.CoxFit:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return glm.fit_cox(*data, start=problem.w, **problem.settings)
    except (Refusal, np.linalg.LinAlgError):
        return glm.fit_cox(*data, **problem.settings)  # the given weights may be of another table


def _figures(state: glm.CoxFit, noise: Any, include_target: bool, input_map: Any) -> list[FloatArray]:
    """(n,) each row's figure as requested, and without its outcome."""
    leak = glm.measure_cox(state, noise, include_target=include_target, target="event", input_map=input_map)
    return [leak.unscaled_examples, leak.without_target().unscaled_examples]


def _not_the_minimum(difference: str) -> str:
    return (
        "the coefficients are not the minimum of the Cox model on this table: at the minimum some η differs "
        f"{difference} (1 % is accepted); fit with a smaller tolerance (lifelines: fit_options={{'precision': 1e-10, "
        f"'r_precision': 1e-14}}), or pass the training table; {NOISED}"
    )
