"""A scaler that was fitted on the table: whether figures go through it, and the floor that it leaves at any noise.

total: figures are those of weights folded into the columns' own units, through mean and deviation
(docs/explanation/scaler.md). held: mean and deviation are taken as public, as in the frozen figure, and their floor is
reported next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.adapters.output_fits import OutputFits
from dosimeter.adapters.solved_equations import AnyFit, SolvedEquations, leakage_of
from dosimeter.adapters.words.design import WordDesign
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_list, safe_text
from dosimeter.glm.fisher import LeakageOfFit
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.linalg.sparse_table import dense_columns, is_sparse
from dosimeter.glm.scalers.fitted_scaler import floor_of, floor_of_columns, floor_of_statistics
from dosimeter.glm.scalers.scaler import Scaler, StatisticMoves
from dosimeter.glm.scalers.statistic_jacobian import through_statistics

SCALERS = ("total", "held")
STATISTIC = "mean and scale"
INSIDE = (
    "a file that still holds the fitted scaler (mean_ and scale_ of a Pipeline) leaks cells whatever the noise: the "
    "figure is of weights that are released without it, folded into the columns' own units"
)


def check_scaler(scaler: str) -> str:
    """One of SCALERS."""
    if scaler not in SCALERS:
        raise Refusal(f"{option('scaler', safe_text(scaler))}: use total or held")
    return scaler


@dataclass(frozen=True, eq=False)
class ScalerReading:
    """The leakage that is reported, and what a fitted scaler leaves of it at any noise."""

    leak: glm.Leakage
    floor: glm.Leakage | None = None
    """None if no scaler was fitted."""
    not_covered: tuple[str, ...] = ()
    """Of the design, with or without the scaler."""
    whole: glm.Leakage | None = None
    """Of a held scaler: the leakage through it, which a limit counts; None where that is not derived."""


def measure_with_scaler(
    fit: AnyFit,
    design: Design,
    y: FloatArray,
    options: dict[str, Any],
    scaler: str,
    units: Any = 1.0,
    answers: bool = False,
) -> ScalerReading:
    """The figure with this scaler; options as in `glm.measure`. Filled cells are constants, not unknowns.

    units: those of the unknowns, as `design.input_map` took them. answers: the model answers queries.
    """
    if isinstance(design, WordDesign):
        leak = design.read(leakage_of(fit, design.X, y, **options))
        return ScalerReading(leak, _floor_of_words(leak, fit, design, units), design.not_covered)
    learned = getattr(design, "learned", None)
    if answers and learned is not None and design.row_map is None:
        return _measure_answers(fit, design, y, options)
    if learned is not None and scaler == "held":
        leak = leakage_of(fit, design.X, y, **options)
        whole = _through_learned(leak, fit, design, options, folded=True)
        floor = _floor_of_learned(leak, fit, design, options)
        return ScalerReading(
            design.read(leak), floor, design.not_covered, None if whole is None else design.read(whole)
        )
    if not isinstance(fit, glm.Fit) or not np.any(design.fitted):
        return ScalerReading(design.read(leakage_of(fit, design.X, y, **options)), None, design.not_covered)
    if is_sparse(design.X):
        leak = design.read(leakage_of(fit, design.X, y, **options))
        return ScalerReading(leak, _floor_beside(leak, design, options, scaler), design.not_covered)
    settings = {name: value for name, value in options.items() if name != "noise"}
    leakage_at = LeakageOfFit(fit, design.X, y, **settings)
    total = design.read(leakage_at(options["noise"], design.fitted))
    if scaler == "held":
        return ScalerReading(design.read(leakage_at(options["noise"])), floor_of(total), design.not_covered, total)
    return ScalerReading(total, floor_of(total), not_covered_with_scaler(design))


def _measure_answers(fit: AnyFit, design: Design, y: FloatArray, options: dict[str, Any]) -> ScalerReading:
    """The figure of the parameters of a model that answers, through scalers by any statistics of the table.

    Noise on answers does not pass through the fold, so that nothing is left beside the figure.
    """
    leak = leakage_of(fit, design.X, y, **options)
    through = _through_learned(leak, fit, design, options, folded=False)
    if through is None or design.learned is None:
        return ScalerReading(design.read(leak), None, design.not_covered)
    return ScalerReading(design.read(through), None, _without(design.not_covered, design.learned.statistics))


def _through_learned(
    leak: glm.Leakage, fit: AnyFit, design: Design, options: dict[str, Any], *, folded: bool
) -> glm.Leakage | None:
    """The leakage through scalers by any statistics; None if a step after them bends, or for other models than a fit.

    folded: as in `through_statistics`.
    """
    learned = design.learned
    if learned is None or design.row_map is not None or not isinstance(fit, glm.Fit):
        return None
    if not isinstance(leak.jacobian, ScalarJacobian | SoftmaxJacobian):
        return None
    P = np.array(options["input_map"], dtype=np.float64)
    moves = StatisticMoves.of_moves(learned.features, learned.by_scale, learned.by_mean, P)
    shared = ~learned.additive & [
        _have_a_value_twice(dense_columns(design.X, feature)[(scale != 0.0) | (mean != 0.0)])
        for feature, scale, mean in zip(learned.features, learned.by_scale.T, learned.by_mean.T, strict=True)
    ]
    ones_last = not fit.intercept and not P[-1].any() and bool((dense_columns(design.X, -1) == 1.0).all())
    if folded and ones_last and isinstance(leak.jacobian, SoftmaxJacobian):
        return None
    return through_statistics(leak, fit, moves, shared, ones_last=ones_last, folded=folded)


def _have_a_value_twice(values: FloatArray) -> bool:
    return len(np.unique(values)) < len(values)


def _floor_beside(leak: glm.Leakage, design: Design, options: dict[str, Any], scaler: str) -> glm.Leakage | None:
    """What a StandardScaler of these rows leaves at any noise beside indicators that are not written out.

    None if a step bends.
    """
    if scaler == "total":
        raise CannotMeasure(
            f"{option('scaler', 'total')} is not available beside a category of this many levels: use "
            f"{option('scaler', 'held')}, which tells what mean and deviation leave, or declared bounds"
        )
    if design.row_map is not None:
        return None
    features = np.flatnonzero(design.fitted).astype(np.intp)
    P = np.ascontiguousarray(np.asarray(options["input_map"])[features])
    return floor_of_statistics(leak, 1, Scaler(features, dense_columns(design.X, features), P))


def _floor_of_learned(leak: glm.Leakage, fit: AnyFit, design: Design, options: dict[str, Any]) -> glm.Leakage | None:
    """What scalers by any statistics leave at any noise; None if a step after them bends.

    Of a model that is not one fit it is that of a weight for each column that the model uses, and of an intercept, in
    each of its outputs: the noise on each of them is folded with the same scaler.
    """
    learned = design.learned
    if learned is None or design.row_map is not None:
        return None
    P = np.array(options["input_map"], dtype=np.float64)
    by_mean = learned.by_mean
    if not isinstance(fit, glm.Fit):
        P[:, leak.jacobian.column_norms()[: P.shape[1]] == 0.0] = 0.0
        by_mean = np.zeros_like(by_mean) if isinstance(fit, glm.CoxFit) else by_mean
    classes = len(fit.inner) // len(fit.factor.basis) if isinstance(fit, glm.Fit) else _rows_of_weights(fit)
    moves = StatisticMoves.of_moves(learned.features, learned.by_scale, by_mean, P)
    return design.read(floor_of_statistics(leak, classes, moves))


def _rows_of_weights(fit: AnyFit) -> int:
    """The outputs of a model, each with weights and an intercept of its own."""
    if isinstance(fit, OutputFits):
        return len(fit.fits)
    equations = fit.solution.equations if isinstance(fit, SolvedEquations) else None
    if isinstance(equations, glm.JointOutputs):
        return len(equations.losses)
    if isinstance(equations, glm.LinearDiscriminant) and equations.n_classes > 2:
        return equations.n_classes
    return 1


def _floor_of_words(leak: glm.Leakage, fit: AnyFit, design: WordDesign, units: Any) -> glm.Leakage | None:
    """What scales of a sparse table's own columns, and scalers of numbers beside a text, leave at any noise."""
    factors, weights, numbers = design.factors(units), np.asarray(getattr(fit, "w", np.zeros(1))), None
    outputs = weights.size // max(1, len(weights)) if isinstance(fit, glm.Fit) else _rows_of_weights(fit)
    if design.learned is not None:
        P = np.zeros((design.X.shape[1], design.m))
        P[design.learned.features] = sparse.csr_array(design.constant_map)[design.learned.features].toarray() * factors
        learned = design.learned
        numbers = StatisticMoves.of_moves(learned.features, learned.by_scale, learned.by_mean, P)
    if numbers is None and design.moves is None:
        return None
    moves = None if design.moves is None else design.moves.in_units(factors)
    return floor_of_columns(leak, outputs, moves, numbers)


def not_covered_with_scaler(design: Design) -> tuple[str, ...]:
    """What is not covered if figures go through mean and deviation."""
    return _without(design.not_covered, (STATISTIC,))


def _without(not_covered: Sequence[str], statistics: Sequence[str]) -> tuple[str, ...]:
    begin = tuple(f"{statistic} of " for statistic in statistics)
    return tuple(note for note in not_covered if not note.startswith(begin))


def floor_for_law(
    leak: glm.Leakage, design: Design, fit: glm.Fit, options: dict[str, Any], law: Any
) -> glm.Leakage | None:
    """The floor under another law of noise."""
    total = glm.measure(fit, design.X, fit.y, **{**options, "noise": law(1.0)}, scaled=design.fitted)
    floor = floor_of(design.read(total))
    return None if floor is None else replace(floor, include_target=leak.include_target)


def floor_remark(design: Design, highest: float, scaler: str, unit: str) -> str:
    """A remark on what the scaler leaves at any noise. Internal: it holds a figure."""
    statistics, names = _statistics(design), safe_list(fitted_sources(design), 6)
    amount = f"up to η = {highest:.3g} about a {unit} at any noise"
    leaks = f"{statistics} of {names} were computed from the table: they leak {amount}, which"
    if scaler == "total":
        return f"{leaks} is in the figures; declared bounds ({option('bounds')}) remove it"
    if isinstance(design, WordDesign):
        return f"{leaks} is NOT in the figures; use a scaler of public rows"
    use = option("bounds") if is_sparse(design.X) else f"{option('scaler', 'total')} or {option('bounds')}"
    return f"{leaks} is NOT in the figures; use {use}"


def _statistics(design: Design) -> str:
    """What a scaler took from the table."""
    numbers = () if design.learned is None else design.learned.statistics
    if isinstance(design, WordDesign):
        return ", ".join(dict.fromkeys([*numbers, *(["scales"] if design.moves is not None else [])]))
    return ", ".join(numbers) or "mean and deviation"


def fitted_sources(design: Design) -> list[str]:
    """Source columns that are standardised by the table."""
    if isinstance(design, WordDesign):
        moved = np.zeros(design.m, dtype=bool)
        if design.moves is not None:
            moved |= (design.moves.constant != 0.0) | (abs(design.moves.values).sum(axis=0) != 0.0)
        if design.learned is not None:
            moved |= abs(design.constant_map[design.learned.features]).sum(axis=0) != 0.0
        return [name for name, block in design.blocks.items() if any(moved[j] for j in block)]
    features = (
        design.fitted if design.learned is None else np.isin(np.arange(len(design.names)), design.learned.features)
    )
    touched = design.touched_by(features)
    return [name for name, block in design.blocks.items() if any(touched[j] for j in block)]
