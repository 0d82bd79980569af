"""Whether given values solve their estimating equations on a table, and how far they are from the exact root."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.adapters.named_errors import name_columns
from dosimeter.adapters.problem import EquationsProblem
from dosimeter.adapters.solved_equations import SolvedEquations
from dosimeter.core.errors import CannotMeasure, Refusal

EXPLICIT = 1e-6
"""Largest relative difference of released values that are computed and not iterated."""
ESTIMATED = 0.2
"""Largest relative change of a figure that a tolerance of an iterative solver explains."""


def solve_equations(
    problem: EquationsProblem, design: Design, options: dict[str, Any]
) -> tuple[SolvedEquations, float, tuple[str, ...], tuple[str, ...]]:
    """The exact root, the largest relative change of a row's η on the way to it, remarks, and what is not covered.

    options: noise, include_target, input_map and target_unit of the reading (`glm.measure_solution`).
    """
    # The target alone goes through them, and the figures of the given and of the exact values alike.
    options = {name: value for name, value in options.items() if name != "target_slopes"}
    try:
        equations = problem.equations(design.X)
        solution = equations.solve(problem.start)
    except Refusal as refusal:
        raise type(refusal)(name_columns(str(refusal), design.names)) from None
    solved = SolvedEquations(solution, problem.loss, problem.y)
    moved = _moved(problem, equations, solution, options)
    remarks = tuple(name_columns(_kink_remark(kink), design.names) for kink in solution.kinks)
    return solved, moved, remarks, solution.not_covered


def _moved(
    problem: EquationsProblem, equations: glm.EstimatingEquations, solution: glm.Solution, options: dict[str, Any]
) -> float:
    if problem.values.shape != solution.released.shape:
        raise Refusal(
            f"the model has {len(problem.values)} numbers where its equations on this table have "
            f"{len(solution.released)}: pass the training table"
        )
    if problem.start is None:
        size = float(np.abs(solution.released).max())
        difference = float(np.abs(problem.values - solution.released).max()) / size
        if difference > EXPLICIT:
            raise _not_the_solution(f"they differ by {100 * difference:.2g} % of the largest")
        return 0.0
    exact = glm.measure_solution(solution, **options).unscaled_examples
    try:
        before = glm.measure_solution(equations.at(problem.start), **options).unscaled_examples
    except Refusal as refusal:
        raise _not_the_solution(str(refusal)) from None
    top = float(exact.max())
    moved = float(np.max(np.abs(before - exact) / np.maximum(exact, 1e-2 * top))) if top > 0 else 0.0
    allowed = ESTIMATED if problem.iterative else 0.01
    if not moved <= allowed:
        raise _not_the_solution(f"at the solution some η differs by {100 * moved:.3g} %")
    return moved


def _not_the_solution(cause: str) -> CannotMeasure:
    return CannotMeasure(
        f"the model's values do not solve its equations on this table: {cause}; the table, sample weights or settings "
        "are probably not those of its fit, or its solver stopped early (use a smaller tol or more iterations)"
    )


def _kink_remark(kink: glm.Kink) -> str:
    return (
        f"figures hold on one side of a kink; the nearest: {kink.what}, at a relative distance of {kink.distance:.2g}"
    )
