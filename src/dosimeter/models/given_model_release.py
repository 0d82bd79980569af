"""A given model repaired: its own preprocessing and penalty, its weights noised, folded into the table's own columns.

What leaves is a pipeline over the same source columns. The preprocessing's constants do not stand in it: scalers are
folded into the noised weights before anything is rounded, one-hot levels stay as levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Density, Gaussian, no_noise
from dosimeter.core.text import safe_text
from dosimeter.models.fit_table import PreparedTable
from dosimeter.models.given_model import GivenModel, understood
from dosimeter.models.linear_release import TableRelease, released
from dosimeter.noise_addition.linear_map import Row
from dosimeter.tables.fit_encoding import CategoryColumn, Columns, NumberColumn
from dosimeter.tables.sklearn_export import FARTHEST
from dosimeter.tables.table import Table

OWN = "the given model's own"
NOISED = "each weight of the given model as it stands"


def repair_model(
    model: Any,
    table: Table,
    target: str,
    *,
    max_dose: float | None = None,
    scale: float | None = None,
    law: type[Density] = Gaussian,
    equalise: int = 0,
    shape: str | None = None,
    person: str | None = None,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    rng: np.random.Generator | None = None,
) -> TableRelease:
    """Noise for a highest dose of max_dose (or of the public scale) on a fitted model, as `repair` for one of ours.

    model: what `measure` takes, with one margin. The figure goes through a StandardScaler that was fitted on this
    table; other statistics of the preprocessing are held fixed and named.
    """
    how: dict[str, Any] = {"person": person, "noise": no_noise, "tied": tied, "not_tied": not_tied, "unit": "sd"}
    found = understood(model, table, target, **how)
    if isinstance(found.problem.loss, glm.Softmax):
        raise CannotMeasure("a softmax model is measured but not repaired here: use two classes")
    _refuse_learned_fillings(found)
    scaler = "total" if np.any(found.leakage.design.fitted) else "held"
    if scaler == "total":
        found = understood(model, table, target, **how, scaler=scaler)
    columns, rows = folded(found)
    fills = {source: f.fill for f in found.features for source, _ in f.slopes if f.fill is not None}
    leak, problem = found.leakage, found.problem
    n = len(problem.y)
    ready = PreparedTable(
        problem.y, problem.loss, target, (target,), columns, leak.design, leak.ids, found.tied, leak.remarks,
        found.classes, scaler=scaler,
    )  # fmt: skip
    by_rows = problem.penalty if not isinstance(problem.loss, glm.Poisson) else None
    done = released(
        ready,
        glm.Penalty(problem.penalty / n, OWN),
        lambda m: problem.penalty / n if by_rows is None else by_rows / m,
        leak,
        rows,
        _seen(found, columns, fills),
        fills,
        max_dose=max_dose,
        scale=scale,
        law=law,
        equalise=equalise,
        shape=shape,
        intercept=problem.intercept,
        sample_weight=problem.weight,
        rng=rng,
    )
    more = tuple(note for note in leak.uncovered if note not in done.uncovered)
    return replace(done, plan=replace(done.plan, uncovered=(*done.plan.uncovered, *more)), noise_on=NOISED)


def folded(found: GivenModel) -> tuple[Columns, list[Row]]:
    """The source columns, and the released numbers as sums over the model's weights: numbers, levels, the intercept.

    A level's weight is its own less the mean over the levels, which the intercept takes up.
    """
    levels = {source: f.levels for f in found.features for source, level in f.slopes if level is not None}
    slopes: dict[str, dict[int, Fraction]] = {}
    for j, feature in enumerate(found.features):
        for (source, level), slope in feature.slopes.items():
            if level is None and slope:
                slopes.setdefault(source, {})[j] = Fraction(slope)
    order = [name for name in found.leakage.design.blocks if name in slopes or len(levels.get(name, ())) > 1]
    numbers, labels = [n for n in order if n in slopes], [n for n in order if n not in slopes]
    for name in numbers:
        _refuse_far(found, name)
    base, corners = _corners(found, {name: levels[name] for name in labels}, {n: levels[n] for n in levels})
    intercept = {j: Fraction(v) for j, v in enumerate(base.tolist())}
    rows: list[Row] = [slopes[name] for name in numbers]
    for name in labels:
        each = corners[name]
        mean = {j: sum((c.get(j, Fraction(0)) for c in each), Fraction(0)) / len(each) for c in each for j in c}
        rows += [{j: a for j in mean if (a := c.get(j, Fraction(0)) - mean[j])} for c in each]
        for j, a in mean.items():
            intercept[j] = intercept.get(j, Fraction(0)) + a
    d = len(base)
    if found.problem.penalised_intercept:
        intercept[d] = Fraction(1)
    if found.problem.intercept:
        intercept[len(found.leakage.design.names)] = Fraction(1)
    made = Columns(
        (*(NumberColumn(name) for name in numbers), *(CategoryColumn(name, levels[name]) for name in labels))
    )
    return made, [*rows, {j: a for j, a in intercept.items() if a}]


def _corners(
    found: GivenModel, labels: dict[str, tuple[Any, ...]], every: dict[str, tuple[Any, ...]]
) -> tuple[FloatArray, dict[str, list[dict[int, Fraction]]]]:
    """(d,) what the model sees of a row of zeros and first levels, and how each level moves it."""
    tried = [(name, level) for name, known in labels.items() for level in known]
    columns: dict[str, Any] = {"": np.zeros(len(tried) + 1)}
    for name, known in every.items():
        column = np.empty(len(tried) + 1, dtype=object)
        column[:] = [known[0], *(level if other == name else known[0] for other, level in tried)]
        columns[name] = column
    seen = found.probe(columns)
    moved: dict[str, list[dict[int, Fraction]]] = {}
    for (name, _), row in zip(tried, seen[1:], strict=True):
        change = [Fraction(a) - Fraction(b) for a, b in zip(row.tolist(), seen[0].tolist(), strict=True)]
        moved.setdefault(name, []).append({j: a for j, a in enumerate(change) if a})
    return np.asarray(seen[0], dtype=np.float64), moved


def _seen(found: GivenModel, columns: Columns, fills: dict[str, Any]) -> FloatArray:
    """(n, weights) what the released model sees of the table."""
    parts = []
    for s in columns.sources:
        cells = np.array(found.columns[s.name])
        if s.name in found.gaps and s.name in fills:
            cells[found.gaps[s.name].mask] = fills[s.name]
        if isinstance(s, NumberColumn):
            parts.append(np.asarray(cells, dtype=np.float64)[:, None])
        else:
            place = {str(level): k for k, level in enumerate(s.levels)} | {level: k for k, level in enumerate(s.levels)}
            parts.append(np.eye(len(s.levels))[[place[cell] for cell in cells.tolist()]])
    return np.concatenate(parts, axis=1)


def _refuse_far(found: GivenModel, name: str) -> None:
    u = np.asarray(found.columns[name], dtype=np.float64)
    if float(np.nanmax(np.abs(u))) > FARTHEST * (float(np.nanstd(u)) or 1.0):
        raise Refusal(f"column {safe_text(name)} lies far from 0 for its spread: subtract a fixed number from it first")


def _refuse_learned_fillings(found: GivenModel) -> None:
    if any("that fills gaps" in statistic for feature in found.features for statistic in feature.statistics):
        raise CannotMeasure(
            "the model fills gaps with a mean, a median or a most frequent value, which would stand in the released "
            "file as it was found in the data: use SimpleImputer(strategy='constant')"
        )
    if any(not feature.slopes for feature in found.features):
        raise CannotMeasure("the model has indicators of missing values, or columns that nothing moves: leave them out")
