"""Whether given coefficients solve their problem on a table, and how far they are from the exact minimum.

Newton's method moves the given coefficients to the exact minimum, and the figures are those of the minimum. A solver
that stops at a tolerance leaves its weights a little away from it:

    gap = f(w) - f(w*)          an independent sample of the same people would have a gap of about p φ

with p parameters and dispersion φ. Weights within a twentieth of that can be the weights of this table; the figure is
an estimate of theirs where some η differs by more than 1 %. Everything else is refused with the likely cause.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.cox_problem import CoxProblem
from dosimeter.adapters.features import Design
from dosimeter.adapters.named_errors import name_columns
from dosimeter.adapters.output_fits import OutputFits
from dosimeter.adapters.polish_cox import polish_cox
from dosimeter.adapters.polish_equations import solve_equations
from dosimeter.adapters.problem import EquationsProblem, Problem
from dosimeter.adapters.relative_move import ACCEPTED, HIDDEN, NOISED, relative_move
from dosimeter.adapters.solved_equations import AnyFit, leakage_of
from dosimeter.adapters.statsmodels_design import SAME
from dosimeter.adapters.words.design import WordDesign
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text
from dosimeter.glm.equations.joint_outputs import SIDES
from dosimeter.glm.fitting.wide_fit import WideFit
from dosimeter.glm.linalg.sparse_table import check_wide

VISIBLE = 1e-4
COMPARED = 1 << 16
"""Numbers of a sparse table up to which every η is compared, at the given weights and at the minimum."""
SAMPLING = 0.05
"""Largest gap of an iterative solver, in units of p φ: a model of other rows has about 1."""
UNCONVERGED = 0.05
"""Largest gap of a solver that gave up, as a share of what the fit gained over zero weights."""


@dataclass(frozen=True, eq=False)
class Polished:
    """The exact minimiser, and how far the given coefficients are from it."""

    fit: AnyFit
    moved: float
    """The largest relative change of any row's η on the way to it."""
    remarks: tuple[str, ...] = ()
    """What else is to be said of the solution."""
    not_covered: tuple[str, ...] = ()
    """Choices made from the data that its derivative does not cover."""

    @property
    def exact(self) -> bool:
        """Whether the figures of the minimum are those of the given coefficients to 1 %."""
        return self.moved <= ACCEPTED

    @property
    def remark(self) -> str:
        """How far the given coefficients are from the minimum; "" if it cannot be seen."""
        if self.moved <= VISIBLE:
            return ""
        percent = f"{100 * self.moved:.2g} %"
        if self.exact:
            return f"the coefficients were polished to the exact minimum, which moved some η by {percent}"
        return (
            "the solver stopped before the exact minimum, or a few rows are not those of its fit: the figures are "
            f"those of the minimum on this table, and some η of the given coefficients differs by {percent}"
        )


def polish(problem: AnyProblem, design: Design, options: dict[str, Any], noised: bool = False) -> Polished:
    """The exact minimiser or root; coefficients that cannot be this table's are refused.

    options: noise, include_target, input_map and target_unit of the reading (`glm.measure`). noised: the coefficients
    carry noise already, and whether they can be this table's is for the caller to judge.
    """
    if noised:
        if not isinstance(problem, Problem):
            raise CannotMeasure(
                "noise inside the coefficients of this kind of model is not recognised: book its release"
            )
        return _without_noise(problem, design, options)
    if isinstance(problem, EquationsProblem) and problem.output_moves is not None and issparse(design.X):
        return _polish_outputs(problem, problem.output_moves, design, options)
    if isinstance(problem, EquationsProblem):
        return Polished(*solve_equations(problem, design, options))
    if isinstance(problem, CoxProblem):
        return _polish_cox(problem, design, options)
    return _polish_minimiser(problem, design, options)


def _polish_cox(problem: CoxProblem, design: Design, options: dict[str, Any]) -> Polished:
    near = 1e-12 * np.abs(problem.X).max(axis=0, initial=0.0)  # a formula is evaluated again
    if design.X.shape != problem.X.shape or not (np.abs(design.X - problem.X) <= near).all():
        raise Refusal("the frame is not the table that the Cox model was fitted on: pass the training table")
    names = ("noise", "include_target", "input_map")
    return Polished(*polish_cox(problem, **{name: options[name] for name in names}))


def _polish_outputs(problem: EquationsProblem, moves: FloatArray, design: Design, options: dict[str, Any]) -> Polished:
    """Each output alone: they share the table and nothing else."""
    units = [float(np.linalg.norm(move * options["target_unit"])) for move in moves]
    parts = [
        _polish_minimiser(part, design, {**options, "target_unit": unit})
        for part, unit in zip(problem.outputs, units, strict=True)
    ]
    fits = tuple(part.fit for part in parts if isinstance(part.fit, glm.Fit))
    return Polished(
        OutputFits(fits, moves, problem.loss, problem.y),
        max(part.moved for part in parts),
        tuple(dict.fromkeys(remark for part in parts for remark in part.remarks)),
        tuple(dict.fromkeys(note for part in parts for note in part.not_covered)),
    )


def _polish_minimiser(problem: Problem, design: Design, options: dict[str, Any]) -> Polished:
    X = design.X
    _refuse_other_cells(problem, design)
    exact = replace(_minimiser(problem, design), label_weights=problem.label_weights)
    after = _figures(exact, problem, X, options)  # a noise that has no figure is refused here
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            # Where figures are compared through proxies, margins are enough, and iterations need no decomposition.
            route = "iterative" if _by_proxies(exact, X) and _several_classes(problem) else _route(problem, design)
            start = glm.fit_at(X, problem.y, problem.loss, problem.w, problem.l2, **problem.settings, route=route)
            start = replace(start, label_weights=problem.label_weights)
            before = _figures(start, problem, X, options)
    except (Refusal, ValueError, np.linalg.LinAlgError):
        raise CannotMeasure(
            _not_the_minimum(problem, "the loss is not finite there, so the table is likely another")
        ) from None
    moved, hidden = relative_move(before[0], after[0], floor=1e-12), relative_move(before[1], after[1], floor=0.1)
    kinks = kink_remarks(exact)
    if moved <= ACCEPTED and hidden <= HIDDEN:
        return Polished(exact, moved, *kinks)
    cause = _why_not(problem, X, start, exact)
    if cause:
        raise CannotMeasure(
            _not_the_minimum(problem, f"at the minimum some η differs by {100 * max(moved, hidden):.3g} %, {cause}")
        )
    return Polished(exact, max(moved, hidden), *kinks)


def _refuse_other_cells(problem: Problem, design: Design) -> None:
    """Results of statsmodels hold the table that they were fitted on."""
    if problem.held is None or issparse(design.X):
        return
    d = design.X.shape[1]
    held = problem.held[:, :d]
    if problem.held.shape != (len(design.X), d + problem.intercept):
        return  # refused by its number of coefficients
    away = np.abs(design.X - held) > SAME * np.maximum(1e-300, np.abs(held).max(axis=0))
    if away.any():
        row, column = (int(k) for k in np.argwhere(away)[0])
        raise CannotMeasure(
            f"column {safe_text(design.names[column])}, row {row} (from 0) is not what the model was fitted on: pass "
            "the training table, its rows in the order of the fit"
        )


def _without_noise(problem: Problem, design: Design, options: dict[str, Any]) -> Polished:
    exact = _minimiser(problem, design)
    _figures(exact, problem, design.X, options)  # a noise that has no figure is refused here
    return Polished(exact, 0.0, *kink_remarks(exact))


AT_A_KINK = 1e-9
"""Distance of a margin from a kink of its loss, relative to the largest margin, below which rounding decides."""


def kink_remarks(exact: glm.Fit) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A remark on the row that is nearest to a kink of its loss, and what is not covered then; none if it is smooth."""
    if isinstance(exact.loss, glm.Softmax):
        return (), ()
    distance = float(exact.kink_distances.min())
    if not np.isfinite(distance):
        return (), ()
    row = int(np.argmin(exact.kink_distances))
    if distance <= AT_A_KINK * (1.0 + float(np.abs(exact.margin).max())):
        raise CannotMeasure(
            f"row {row} (from 0) stands at a kink of the {exact.loss.name} loss, where no derivative exists: change "
            "the penalty a little"
        )
    return (f"the nearest row to a kink of its loss is row {row} (from 0): its margin is {distance:.2g} away",), (
        SIDES,
    )


def _figures(state: glm.Fit, problem: Problem, X: FloatArray, options: dict[str, Any]) -> list[FloatArray]:
    """(n,) each row's figure as requested, and without its label."""
    if _by_proxies(state, X):
        return [_proxies(state)] * 2
    targets = (options["include_target"], False)
    return [
        leakage_of(state, X, problem.y, **{**options, "include_target": target}).unscaled_examples for target in targets
    ]


def _by_proxies(state: glm.Fit, X: FloatArray) -> bool:
    """Whether the table is too large to compute every figure twice."""
    return isinstance(state, WideFit) and X.shape[0] * X.shape[1] > COMPARED


def _proxies(state: glm.Fit) -> FloatArray:
    """(n,) |r| + a ||w|| of each row, which its figure follows: four readings of a large table would take longer than
    the one that is reported, and where figures are bounds, two of them say nothing about a difference."""
    size, n = float(np.linalg.norm(state.coef)), state.n
    residual, curvature = (np.linalg.norm(part.reshape(n, -1), axis=1) for part in (state.residual, state.curvature))
    return np.asarray(residual + curvature * size)


def _several_classes(problem: Problem) -> bool:
    return isinstance(problem.loss, glm.Softmax)


def _route(problem: Problem, design: Design) -> str | None:
    """The route of `glm.fit` on this design; None for the rule by size."""
    if _several_classes(problem) or not issparse(design.X):
        return None
    return design.route if isinstance(design, WordDesign) else "primal"


def _why_not(problem: Problem, X: FloatArray, start: glm.Fit, exact: glm.Fit) -> str:
    """Why the given coefficients cannot be the minimum of this table; "" if they can."""
    if not problem.iterative:
        return (
            "and this model's solver is exact: the table, the order of its columns, the weights or the penalty are "
            "probably not those of its fit"
        )
    penalty = _better_penalty(problem, X, start)
    if penalty is not None:
        return _uneven_columns(problem, X, start) or (
            f"and with a penalty nλ of {penalty:.3g} instead of {problem.penalty:.3g} they would be the minimum: the "
            "penalty is probably another one"
        )
    low, high, zero = (_objective(problem, state) for state in (exact, start, _no_weights(problem, X)))
    gap, gain = high - low, zero - low
    if gap > 1e-6 * gain and (beyond := _beyond_its_rule(problem, X, start)):
        return WORSE if high > zero else beyond
    if gap <= max(SAMPLING * exact.w.size * _dispersion(exact), 1e-6 * gain):
        return ""
    if problem.unconverged:
        too_far = f"and {problem.unconverged}: scale the columns or raise max_iter"
        return "" if gap <= UNCONVERGED * gain else too_far
    if problem.held is not None and not issparse(X):
        return (
            "though the table is that of the fit: the solver stopped early, the weights are under constraints, or the "
            "sample weights are others"
        )
    if high > zero:
        return WORSE
    return _uneven_columns(problem, X, start) or (
        f"which no tolerance explains: the table or its sample weights are probably not those of its fit ({NOISED})"
    )


WORSE = (
    "and they fit worse than no weights at all: the table, the order of its columns or the classes are probably not "
    "those of its fit"
)
BEYOND = 10.0
"""How far beyond its solver's tolerance a gradient may be: rounding, other sums of weights, contrasts of classes."""


def _beyond_its_rule(problem: Problem, X: Any, state: glm.Fit) -> str:
    """Why a solver with this rule did not end here; "" if it may have, or if unlike scales can end it early."""
    weight, w = np.asarray(state.sample_weight), state.w[:-1] if state.intercept else state.w
    scales = np.append(_scales(X), [1.0] * state.intercept)
    even = not len(scales) or scales.max() < UNEVEN * scales.min()
    if problem.tolerance is None or problem.unconverged or not even:
        return ""
    weighted = (state.residual.T * weight).T
    penalty = np.broadcast_to(problem.penalty, (len(state.w),))[: len(w)]
    gradient = np.abs(np.asarray(X.T @ weighted + (penalty * w.T).T))
    largest = max(float(gradient.max(initial=0.0)), float(np.abs(weighted.sum(axis=0)).max()) * state.intercept)
    steep = largest / max(float(weight.sum()), float(len(weight))) / max(1.0, float(scales.max(initial=0.0)))
    if steep <= BEYOND * problem.tolerance:
        return ""
    return (
        f"and its solver ends at a mean gradient of {problem.tolerance:.2g}, where this table has {steep:.2g}: rows of "
        "the table, or their weights, are probably not those of its fit"
    )


def _scales(X: Any) -> FloatArray:
    """The largest entry of each column that has one."""
    scales = np.asarray(abs(X).max(axis=0).toarray()).ravel() if issparse(X) else np.abs(X).max(axis=0)
    return np.asarray(scales[scales > 0])


UNEVEN, FLAT = 1e3, 1e-2
"""Ratio of two columns' scales from which a tolerance for all of them is none for the smallest; and the largest share
of the gradient at zero weights that such a tolerance leaves."""


def _uneven_columns(problem: Problem, X: Any, start: glm.Fit) -> str:
    """A solver whose tolerance the largest columns met long before the others; "" if that is not what is seen."""
    if issparse(X):
        return ""
    scales = _scales(X)
    if not len(scales) or scales.max() < UNEVEN * scales.min():
        return ""

    def gradient(state: glm.Fit) -> FloatArray:
        weighted = (state.residual.T * state.sample_weight).T
        w = state.w[:-1] if state.intercept else state.w
        penalty = np.ravel(problem.penalty)[: len(w)]
        return np.asarray(X.T @ weighted + (penalty * w.T).T)

    first = float(np.linalg.norm(gradient(_no_weights(problem, X))))
    left = float(np.linalg.norm(gradient(start))) / first if first > 0 else 1.0
    unlike = f"and columns that differ in scale by {scales.max() / scales.min():.2g}"
    if left <= FLAT:
        return (
            f"{unlike} let its solver stop early, with {100 * left:.1g} % of the first gradient left: scale the "
            "columns (StandardScaler)"
        )
    if problem.tolerance is None:
        return ""
    return (
        f"{unlike} can end its solver far from the minimum (scale them, StandardScaler), or the table or its weights "
        "are not those of its fit"
    )


def _no_weights(problem: Problem, X: FloatArray) -> glm.Fit:
    """The state at zero weights, or at the constant that fits best if only that has a loss."""
    start = np.zeros_like(problem.w)
    if isinstance(problem.loss, glm.ScalarLoss) and problem.intercept:
        start[-1] = float(np.median(problem.loss.link(problem.y)))
    route = "iterative" if issparse(X) and _several_classes(problem) else None
    return glm.fit_at(X, problem.y, problem.loss, start, problem.l2, **problem.settings, route=route)  # for its margins


def _objective(problem: Problem, state: glm.Fit) -> float:
    """Eq. 13 at the weights of a state."""
    with np.errstate(over="ignore", invalid="ignore"):
        losses = problem.loss.value(state.margin, problem.y)
    penalty = np.broadcast_to(problem.penalty, (len(state.w),)).copy()
    if problem.intercept and np.ndim(problem.penalty) == 0:
        penalty[-1] = 0.0
    return float(state.sample_weight @ losses + 0.5 * np.sum(penalty * (state.w**2).T))


def _dispersion(exact: glm.Fit) -> float:
    """Σω r² / Σω a, about 1 if the loss is a likelihood that fits; 1 for softmax."""
    if isinstance(exact.loss, glm.Softmax):
        return 1.0
    weight = exact.sample_weight
    return float(weight @ exact.residual**2 / (weight @ exact.curvature))


def _better_penalty(problem: Problem, X: FloatArray, start: glm.Fit) -> float | None:
    """nλ at which the gradient at the given weights would all but vanish, None if there is none.

    With fewer than three weights some penalty always fits well.
    """
    w = start.w[:-1] if start.intercept else start.w
    if np.ndim(problem.penalty) or len(w) < 3 or not w.any():
        return None
    weighted = (start.residual.T * start.sample_weight).T
    g = X.T @ weighted
    penalty = -float(np.sum(g * w) / np.sum(w * w))
    rest, here = (float(np.linalg.norm(g + k * w)) for k in (penalty, problem.penalty))
    return penalty if penalty >= 0 and rest < 0.02 * here and abs(penalty - problem.penalty) > 1e-3 * penalty else None


def _not_the_minimum(problem: Problem, cause: str) -> str:
    has_newton = isinstance(problem.loss, glm.Logistic | glm.Softmax) or problem.loss.penalised_mean
    other = ", more iterations or solver='newton-cholesky'" if has_newton else " or more iterations"
    tolerance = f", or fit with a smaller tol{other}" if problem.iterative else ""
    return (
        f"the coefficients are not the minimum of the model's loss on this table: {cause}; pass the training table "
        f"with its weights{tolerance}"
    )


def _minimiser(problem: Problem, design: Design) -> glm.Fit:
    X, p = design.X, design.X.shape[1] + problem.intercept
    if len(problem.w) != p:
        raise Refusal(f"the model has {len(problem.w)} coefficients for {p} columns: pass the training table")
    check_wide(X, problem.y, problem.weight)
    settings = {**problem.settings, "route": _route(problem, design)}
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            return glm.fit(X, problem.y, problem.loss, problem.l2, start=problem.w, **settings)
    except (ValueError, np.linalg.LinAlgError):
        pass  # a start from another table can overflow; a neutral start gives the proper refusal
    try:
        return glm.fit(X, problem.y, problem.loss, problem.l2, **settings)
    except Refusal as refusal:
        message = name_columns(str(refusal), design.names)
        dependent = message != str(refusal) and design.nominal
        todo = "; OneHotEncoder(drop='first') helps where indicators sum to one" if dependent else ""
        noised = (
            f"; {NOISED}" if dependent and not np.any(problem.penalty) else ""
        )  # a file of `fix` has a weight for every level
        raise CannotMeasure(f"the model has no single minimum on this table: {message}{todo}{noised}") from None
