"""Steps of unknown kind, such as one's own class: their `transform` is called, and its derivative is by differences.

Checked once on the whole table, before anything is measured: the same input gives the same output, rows do not mix, and
numbers do not jump. A column of text is evaluated at each of its levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.steps.calls import Form, StepFailure, call_step, columns_of, forms_of
from dosimeter.adapters.steps.chain_rule import mixed, moving
from dosimeter.adapters.steps.differences import Differences, slopes_by_differences
from dosimeter.adapters.steps.feature import Feature, Features, Slope, Unknown
from dosimeter.adapters.steps.row_checks import jumping_inputs, refuse_mixing, refuse_rounding
from dosimeter.adapters.steps.run import MOST_VALUES, Category, Run, by_its_values, require_fitted, step_name
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.text import safe_text
from dosimeter.tables.column_values import spread, text_array

NOTHING = 1e-14
"""An output below this share of the largest one is a rounding error of it."""


@dataclass(frozen=True, eq=False)
class KnownStep:
    """What the survey found out about one step."""

    form: Form
    names: tuple[str, ...]
    scales: FloatArray
    """(inputs,) how far each input spreads over the table."""
    learned: tuple[str, ...]
    dead: tuple[int, ...] = ()
    """Outputs that are rounding errors of the others: zero."""
    largest: dict[int, FloatArray] = field(default_factory=dict)
    """Input -> (outputs,) the largest slope of each output over the table."""
    table: tuple[Category, FloatArray] | None = None
    """Of a step with one column as its input, read as a category: its outputs (levels, outputs)."""


def read_unknown(step: Any, features: Features, run: Run) -> Features:
    """The outputs of a step's own `transform`, and their slopes by differences."""
    if not features:
        return ()
    if not hasattr(step, "transform"):
        raise CannotMeasure(f"{step_name(step)} before the model has no transform: it is not a step that can be read")
    require_fitted(step, "transform", len(features))
    for feature in features:
        feature.refuse_gaps()
    columns, key = columns_of(features), (id(step), tuple(feature.name for feature in features))
    if key not in run.log.checked:
        run.log.checked[key] = _first_look(step, features, columns, run)
    known: KnownStep = run.log.checked[key]
    values = call_step(step, columns, known.names, known.form, run)
    if run.survey:
        known = run.log.checked[key] = _check(step, features, columns, values, known, run)
    if values.dtype.kind == "O":
        return _texts(step, features, values, known)
    if known.table is not None:
        return _by_table(step, features[0], values, known, run)

    def derivative(inputs: list[int]) -> FloatArray:
        return _differences(step, columns, known, inputs, run, known.largest).slopes

    names = [f"{step_name(step)} {o}" for o in range(values.shape[1])]
    return mixed(features, values, names, derivative, run, known.learned)


def _first_look(step: Any, features: Features, columns: Sequence[NDArray[Any]], run: Run) -> KnownStep:
    """The form of input that the step takes."""
    failure: CannotMeasure | None = None
    for form, names in forms_of(step, features, run):
        try:
            call_step(step, [column[:3] for column in columns], names, form, run)
        except StepFailure as error:
            failure = failure or error
            continue
        scales = np.array([spread(column) if column.dtype.kind == "f" else 1.0 for column in columns])
        return KnownStep(form, names, scales, _learned(step))
    raise failure or CannotMeasure(f"{step_name(step)} before the model takes no input that is known here")


def _learned(step: Any) -> tuple[str, ...]:
    """What a step took from the data: what it says itself, or every attribute that an unfitted copy does not have."""
    stated = getattr(step, "learned_from_data", None)
    if isinstance(stated, tuple):
        return stated
    own = {"n_features_in_", "feature_names_in_", "n_features_out_"}
    try:
        from sklearn.base import clone

        fresh = set(vars(clone(step)))
    except Exception:  # not every class can be copied, and whatever its constructor does is its own affair
        fresh = set()
    return (f"the constants in {step_name(step)}",) if set(vars(step)) - fresh - own else ()


def _check(
    step: Any,
    features: Features,
    columns: Sequence[NDArray[Any]],
    values: NDArray[Any],
    known: KnownStep,
    run: Run,
) -> KnownStep:
    """Refuse a step that mixes rows; read columns of text, and numbers in which it jumps, by their values."""

    if values.dtype.kind == "f":
        size = np.abs(values).max(axis=0, initial=0.0)
        known = replace(known, dead=tuple(np.flatnonzero(size <= NOTHING * size.max(initial=0.0)).tolist()))

    def evaluate(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return _evaluate(step, parts, known, run)

    refuse_mixing(step, evaluate, columns, evaluate(columns))
    inputs = [j for j, feature in enumerate(features) if moving(feature, run)]
    texts = [j for j, feature in enumerate(features) if feature.raw and not feature.is_number]
    stated = [j for j in inputs if features[j].name in getattr(step, "categories", ())]
    rest = [j for j in inputs if j not in stated]
    jumping = rest if values.dtype.kind == "O" else jumping_inputs(evaluate, columns, rest)
    for j in (*texts, *stated, *jumping):
        source = _only_source(step, features[j])
        why = "reads text" if j in texts else "makes text of numbers" if values.dtype.kind == "O" else "jumps"
        category = by_its_values(run, source, step_name(step), why)
        if len(features) == 1 and features[0].raw and values.dtype.kind == "f":
            cells = text_array(list(category.cells)) if j in texts else np.array(category.cells, dtype=np.float64)
            return replace(known, table=(category, np.asarray(evaluate([cells]), dtype=np.float64)))
        if len(category.cells) > MOST_VALUES:
            raise CannotMeasure(
                f"{step_name(step)} reads the text of column {safe_text(source)} ({len(category.cells)} levels) "
                "together with other columns, and every row would be evaluated at every level: encode the column first"
            )
        run.log.by_level.add(source)
    smooth = [j for j in inputs if not features[j].sources <= run.log.by_level]
    if not smooth or values.dtype.kind == "O":
        return known
    refuse_rounding(step, evaluate, columns, smooth, known.scales)
    result = _differences(step, columns, known, smooth, run, None)
    name = step_name(step)
    run.log.estimates[name] = max(run.log.estimates.get(name, 0.0), result.error)
    if result.bends:
        run.log.remarks[f"{name} bends at {result.bends} cells: the steeper side is counted there"] = None
    return replace(known, largest=result.largest)


def _evaluate(step: Any, columns: Sequence[NDArray[Any]], known: KnownStep, run: Run) -> NDArray[Any]:
    values = call_step(step, columns, known.names, known.form, run)
    if known.dead:
        values[:, list(known.dead)] = 0.0
    return values


def _only_source(step: Any, feature: Feature) -> str:
    if len(feature.sources) != 1:
        raise CannotMeasure(
            f"{step_name(step)} jumps when {safe_text(feature.name)} moves, a mix of several columns, so no derivative "
            "exists: put it on the columns themselves"
        )
    return next(iter(feature.sources))


def _differences(
    step: Any,
    columns: Sequence[NDArray[Any]],
    known: KnownStep,
    inputs: list[int],
    run: Run,
    largest: dict[int, FloatArray] | None,
) -> Differences:
    def evaluate(parts: Sequence[NDArray[Any]]) -> FloatArray:
        return np.asarray(_evaluate(step, parts, known, run), dtype=np.float64)

    return slopes_by_differences(step_name(step), evaluate, columns, inputs, known.scales, largest)


def _texts(step: Any, features: Features, values: NDArray[Any], known: KnownStep) -> Features:
    """Text that a step makes of columns that are read level by level; an encoder may follow."""
    sources: frozenset[str] = frozenset().union(*(feature.sources for feature in features))
    statistics = frozenset(known.learned).union(*(feature.statistics for feature in features))
    return tuple(
        Feature(f"{step_name(step)} {o}", values[:, o], statistics=statistics, sources=sources, bent=sources)
        for o in range(values.shape[1])
    )


def _by_table(step: Any, feature: Feature, values: NDArray[Any], known: KnownStep, run: Run) -> Features:
    """Outputs that are functions of one category: a slope for each of its levels."""
    if known.table is None:
        raise TypeError("the step has no table of levels")
    category, table = known.table
    outputs = []
    for o in range(values.shape[1]):
        slopes: dict[Unknown, Slope] = {}
        if run.survey:
            moves = (table[1:, o] - table[0, o]).tolist()
            slopes = {(feature.name, level): move for level, move in zip(category.levels[1:], moves, strict=True)}
        statistics = feature.statistics | frozenset(known.learned)
        name = f"{step_name(step)} {o}"
        outputs.append(Feature(name, values[:, o], slopes, statistics=statistics, sources=feature.sources))
    return tuple(outputs)
