"""A given model released with noise: its own preprocessing and penalty, folded into the table's own columns.

The release is a pipeline over the same source columns. It holds no constant of the preprocessing: scalers are folded
into the noised weights before anything is rounded, one-hot levels stay levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import Problem
from dosimeter.adapters.words.design import WordDesign
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, no_noise
from dosimeter.core.text import safe_list, safe_text
from dosimeter.models.fit_table import PreparedTable
from dosimeter.models.given_model import GivenModel, measure_model
from dosimeter.models.linear_release import TableRelease, draw_release
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.column_encoding import CategoryColumn, NumberColumn
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.sklearn_estimators import refuse_unexportable
from dosimeter.tables.table import Table
from dosimeter.tables.weight_folding import FARTHEST

OWN = "the given model's own"
NOISED = "each weight of the given model as it stands"
NOISED_CONTRASTS = "each weight of the K - 1 orthonormal contrasts between the given model's classes"


def release_model(
    model: Any,
    table: Table,
    target: str,
    *,
    max_dose: float | None = None,
    scale: float | None = None,
    law: type[Density] = Gaussian,
    reweighting_rounds: int = 0,
    noise_shape: str | None = None,
    person: str | None = None,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    rng: np.random.Generator | None = None,
) -> TableRelease:
    """Noise on a fitted model for a highest dose of max_dose (or of the public scale), as `release_table` for our fit.

    model: what `measure` takes, with one loss. The figure goes through a StandardScaler that was fitted on this
    table; other statistics of the preprocessing are held fixed and named.
    """
    options: dict[str, Any] = {"person": person, "noise": no_noise, "tied": tied, "not_tied": not_tied, "unit": "sd"}
    measured = measure_model(model, table, target, **options)
    if not isinstance(measured.problem, Problem):
        raise CannotMeasure(
            f"this {safe_text(measured.problem.loss.name)} model can be measured but not released by fix: fix a model "
            "that minimises one loss"
        )
    refuse_unexportable(measured.problem.loss)
    _refuse_transformed_target(measured)
    _refuse_unfoldable(measured)
    _refuse_other_problem(measured.problem)
    _refuse_learned_constants(measured)
    scaler = "total" if np.any(measured.leakage.design.fitted) else "held"
    if scaler == "total":
        measured = measure_model(model, table, target, **options, scaler=scaler)
    _refuse_own_statistics(measured)
    columns, rows = fold_model(measured)
    fills = {source: f.fill for f in measured.features for source, _ in f.slopes if f.fill is not None}
    leak, problem = measured.leakage, measured.problem
    labels = problem.label_weights if isinstance(problem, Problem) else None
    n = len(problem.y)
    ready = PreparedTable(
        problem.y, problem.loss, target, (target,), columns, leak.design, leak.ids, measured.tied, leak.remarks,
        _classes(measured), scaler=scaler,
    )  # fmt: skip
    by_rows = None if problem.loss.penalised_mean else problem.penalty
    release = draw_release(
        ready,
        glm.Penalty(problem.penalty / n, OWN),
        lambda m: problem.penalty / n if by_rows is None else by_rows / m,
        leak,
        rows,
        _model_inputs(measured, columns, fills),
        fills,
        max_dose=max_dose,
        scale=scale,
        law=law,
        reweighting_rounds=reweighting_rounds,
        noise_shape=noise_shape,
        intercept=problem.intercept,
        sample_weight=problem.weight,
        label_weights=labels,
        rng=rng,
    )
    more = tuple(note for note in leak.not_covered if note not in release.not_covered)
    plan = replace(release.plan, not_covered=(*release.plan.not_covered, *more))
    orthonormal = isinstance(problem.loss, glm.Softmax) and problem.loss.reference == "mean"
    return replace(release, plan=plan, noise_on=NOISED_CONTRASTS if orthonormal else NOISED)


def fold_model(measured: GivenModel) -> tuple[TableEncoding, list[Row]]:
    """The source columns, and the released numbers as sums over the model's weights: numbers, levels, the intercept.

    The mean over the levels of a category is subtracted from each level's weight and added to the intercept.
    """
    levels = {source: f.levels for f in measured.features for source, level in f.slopes if level is not None}
    slopes: dict[str, dict[int, Fraction]] = {}
    for j, feature in enumerate(measured.features):
        for (source, level), slope in feature.slopes.items():
            if not isinstance(slope, float):
                raise TypeError("a slope that differs from row to row does not fold into weights")
            if level is None and slope:
                slopes.setdefault(source, {})[j] = Fraction(slope)
    order = [name for name in measured.leakage.design.blocks if name in slopes or len(levels.get(name, ())) > 1]
    numbers, labels = [n for n in order if n in slopes], [n for n in order if n not in slopes]
    for name in numbers:
        _refuse_far_from_zero(measured, name)
    base, corners = _corners(measured, {name: levels[name] for name in labels}, {n: levels[n] for n in levels})
    intercept = {j: Fraction(v) for j, v in enumerate(base.tolist())}
    rows: list[Row] = [slopes[name] for name in numbers]
    for name in labels:
        each = corners[name]
        mean = {j: sum((c.get(j, Fraction(0)) for c in each), Fraction(0)) / len(each) for c in each for j in c}
        rows += [{j: a for j in mean if (a := c.get(j, Fraction(0)) - mean[j])} for c in each]
        for j, a in mean.items():
            intercept[j] = intercept.get(j, Fraction(0)) + a
    d = len(base)
    if measured.problem.penalised_intercept:
        intercept[d] = Fraction(1)
    if measured.problem.intercept:
        intercept[len(measured.leakage.design.names)] = Fraction(1)
    # The model's own levels are as its frame holds them: text where they are text.
    categories = (CategoryColumn(name, levels[name], as_text=True) for name in labels)
    columns = TableEncoding((*(NumberColumn(name) for name in numbers), *categories))
    return columns, [*rows, {j: a for j, a in intercept.items() if a}]


def _corners(
    measured: GivenModel, labels: dict[str, tuple[Any, ...]], every: dict[str, tuple[Any, ...]]
) -> tuple[FloatArray, dict[str, list[dict[int, Fraction]]]]:
    """(d,) the model's input for a row of zeros and first levels, and how each level changes it."""
    levels = [(name, level) for name, known in labels.items() for level in known]
    columns: dict[str, Any] = {"": np.zeros(len(levels) + 1)}
    for name, known in every.items():
        column = np.empty(len(levels) + 1, dtype=object)
        column[:] = [known[0], *(level if other == name else known[0] for other, level in levels)]
        columns[name] = column
    probed = measured.probe(columns)
    moved: dict[str, list[dict[int, Fraction]]] = {}
    for (name, _), row in zip(levels, probed[1:], strict=True):
        change = [Fraction(a) - Fraction(b) for a, b in zip(row.tolist(), probed[0].tolist(), strict=True)]
        moved.setdefault(name, []).append({j: a for j, a in enumerate(change) if a})
    return np.asarray(probed[0], dtype=np.float64), moved


def _model_inputs(measured: GivenModel, columns: TableEncoding, fills: dict[str, Any]) -> FloatArray:
    """(n, weights) the inputs of the released model."""
    parts = []
    for s in columns.sources:
        cells = np.array(measured.columns[s.name])
        if s.name in measured.gaps and s.name in fills:
            cells[measured.gaps[s.name].mask] = fills[s.name]
        if not isinstance(s, CategoryColumn):
            parts.append(np.asarray(cells, dtype=np.float64)[:, None])
        else:
            place = {str(level): k for k, level in enumerate(s.levels)} | {level: k for k, level in enumerate(s.levels)}
            parts.append(np.eye(len(s.levels))[[place[cell] for cell in cells.tolist()]])
    return np.concatenate(parts, axis=1)


def _refuse_far_from_zero(measured: GivenModel, name: str) -> None:
    u = np.asarray(measured.columns[name], dtype=np.float64)
    if float(np.nanmax(np.abs(u))) > FARTHEST * (float(np.nanstd(u)) or 1.0):
        raise Refusal(f"column {safe_text(name)} lies far from 0 for its spread: subtract a fixed number from it first")


def _refuse_unfoldable(measured: GivenModel) -> None:
    """Only scalers, one-hot encoders, constants that fill gaps and columns as they are fold into weights."""
    design = measured.leakage.design
    if design.unfoldable or design.row_map is not None:
        texts = "; for texts put PrivateLogisticRegression or PrivateRidge behind the vectorizer"
        raise CannotMeasure(
            f"the model has {safe_list(design.unfoldable)} before it, which does not fold into weights of the table's "
            "own columns: it can be measured, but released only behind scalers and one-hot encoders"
            f"{texts if isinstance(design, WordDesign) else ''}"
        )
    numbers, labels = (
        {source for f in measured.features for source, level in f.slopes if (level is None) is want}
        for want in (True, False)
    )
    if numbers & labels:
        raise CannotMeasure(
            f"column {safe_text(min(numbers & labels))} enters both as a number and as labels, which does not fold "
            "into one weight: it can be measured, but released only as one of the two"
        )


def _classes(measured: GivenModel) -> Any:
    """The classes as the table writes them; statsmodels keeps none, and its two are 0 and 1. None for numbers."""
    kind = measured.problem.loss.target
    if measured.classes is not None or not kind.classes:
        return measured.classes
    return np.array([0.0, 1.0]) if kind is glm.TargetKind.TWO_CLASSES else np.unique(measured.y)


def _refuse_transformed_target(measured: GivenModel) -> None:
    problem = measured.problem
    if not problem.loss.target.classes and not np.array_equal(np.ravel(measured.y), np.ravel(problem.y)):
        raise CannotMeasure(
            "the model transforms its target, and the released file would predict the transformed values: transform "
            "the target in the table and fit the model inside"
        )


def _refuse_other_problem(problem: Problem) -> None:
    if problem.offset is not None:
        raise CannotMeasure(
            "the model has an offset or an exposure, and no estimator of scikit-learn adds one to a prediction: fit it "
            "without"
        )
    if np.ndim(problem.penalty):
        raise CannotMeasure("the model has a penalty for each weight: fit it with one penalty to release it with fix")


def _refuse_own_statistics(measured: GivenModel) -> None:
    """Refuse scalers of this table that the figures do not go through: the fold shows their constants at any noise.

    Without an intercept the released one is a sum of the other weights times these constants, and reveals them exactly.
    """
    problem, design = measured.problem, measured.leakage.design
    centred = [f for j, f in enumerate(measured.features) if f.statistics and _is_centred(measured, j)]
    if centred and not (problem.intercept or getattr(problem, "penalised_intercept", False)):
        raise CannotMeasure(
            f"the model has no intercept, and {_of(centred)} before it: folded into the weights, these would be in the "
            "released file exactly, at any noise; fit an intercept, or do not centre"
        )
    held = [f for j, f in enumerate(measured.features) if not (len(design.fitted) and design.fitted[j])]
    own = [f for f in held if f.is_scaled_by_these_rows(design.nominal)]
    if own:
        raise CannotMeasure(
            f"{_of(own)} before the model are of this very table: no noise on the weights hides them, and what they "
            "leak is derived for a StandardScaler only; use it, or fit the scaler on public bounds instead of the table"
        )


def _is_centred(measured: GivenModel, j: int) -> bool:
    """Whether a statistic was subtracted from the model's j-th input: a number is then not 0 for a row of zeros."""
    feature = measured.features[j]
    if all(level is not None for _, level in feature.slopes):
        return any(word in statistic.split() for statistic in feature.statistics for word in ("mean", "median"))
    return bool(measured.probe({"": np.zeros(1), **_zeros(measured)})[0, j])


def _zeros(measured: GivenModel) -> dict[str, Any]:
    levels = {source: f.levels[0] for f in measured.features for source, level in f.slopes if level is not None}
    return {name: np.array([level, None], dtype=object)[:1] for name, level in levels.items()}


def _of(features: Sequence[Any]) -> str:
    statistics = sorted({statistic for feature in features for statistic in feature.statistics})
    names = dict.fromkeys(source for feature in features for source, _ in feature.slopes)
    return f"{safe_list(statistics)} of {safe_list(names)}"


def _refuse_learned_constants(measured: GivenModel) -> None:
    if any("that fills gaps" in statistic for feature in measured.features for statistic in feature.statistics):
        raise CannotMeasure(
            "the model fills gaps with a mean, a median or a most frequent value, which would be in the released file "
            "exactly as the data has it: use SimpleImputer(strategy='constant')"
        )
    if any(not feature.slopes for feature in measured.features):
        raise CannotMeasure("the model has indicators of missing values, or columns that nothing moves: leave them out")
