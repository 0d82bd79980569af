"""`measure`: a fitted model and the table it was trained on, to leakage in the table's own names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.coefficients import Coefficients
from dosimeter.adapters.features import Design, Feature, assemble, raw_feature
from dosimeter.adapters.pipelines import columns_read, transform
from dosimeter.adapters.polish import VISIBLE, polished
from dosimeter.adapters.problem import Problem, Target
from dosimeter.adapters.sklearn_models import problem_of, refuse_unmeasurable, why_not
from dosimeter.adapters.statsmodels_results import column_names
from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import step_of
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_list, safe_text
from dosimeter.models.fitted_scaler import INSIDE, check_scaler, read_through
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.tables.column_values import spread
from dosimeter.tables.constant_values import Tied, tie
from dosimeter.tables.data_checks import varies
from dosimeter.tables.missing_values import Gaps, gap_notes, observed_by_person
from dosimeter.tables.row_arguments import ids_of, names_of, target_of, weights_of
from dosimeter.tables.table import Table

UNITS = {"own": "own units", "sd": "standard deviations"}
SAME = "the column {name} is both the target and the person: name two columns"
SEARCHED = "the model's settings were chosen from the data by a search: the choice is not covered"


def measure(
    model: Any,
    frame: Any,
    y: Any,
    *,
    person: Any = None,
    noise: Any,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    label: bool = True,
    unit: str = "own",
    sample_weight: Any = None,
    scaler: str = "held",
) -> TableLeakage:
    """What the model's coefficients and intercept, released with `noise` on each, give away about its table.

    model: a fitted scikit-learn linear model, alone or behind a Pipeline of scalers and one-hot encoders
    (held fixed); statsmodels GLM results; or `Coefficients`.
    frame: the table it was trained on: pandas, polars, pyarrow or a 2-D array.
    y, person: a column's name or one value a row; several rows may be one person.
    tied: source columns, or the target, with one value per person. Those that never change within a person are tied
    without being named; not_tied takes them for separate values, which under-reports a value that is one.
    unit: 'own' units of the columns, or 'sd' for standard deviations; a category, and a column or a target of two
    values, counts by the step from one value to another in both.
    sample_weight: as it was given to `fit`.
    scaler: 'held' regards a fitted StandardScaler as public and tells what it leaves at any noise; 'total' measures the
    weights as they leave folded into the columns' own units, through mean and deviation.

    >>> import dosimeter as dm
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 1.0, 1.0, 3.0])
    >>> model = LinearRegression().fit(X, y)
    >>> leak = dm.measure(model, X, y, person=["a", "b", "b", "c"], noise=dm.Gaussian(1.0))
    >>> {person: round(eta, 3) for person, eta in leak.persons.items()}
    {'a': 1.049, 'b': 0.677, 'c': 0.409}
    """
    how: dict[str, Any] = {"label": label, "unit": unit, "sample_weight": sample_weight, "scaler": scaler}
    return understood(model, frame, y, person=person, noise=noise, tied=tied, not_tied=not_tied, **how).leakage


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A given model and its table as a problem of ours, with what it gives away."""

    leakage: TableLeakage
    problem: Problem
    tied: Tied
    features: tuple[Feature, ...]
    """The columns that the final estimator sees; a penalised intercept is not among them."""
    probe: Callable[[Mapping[str, NDArray[Any]]], FloatArray]
    """Made-up source columns (k,), 0 where not named -> (k, d) what the final estimator would see."""
    gaps: dict[str, Gaps]
    columns: dict[str, NDArray[Any]]
    """The source columns as they were read, gaps left open."""
    classes: Any


def understood(
    model: Any,
    frame: Any,
    y: Any,
    *,
    person: Any = None,
    noise: Any,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    label: bool = True,
    unit: str = "own",
    sample_weight: Any = None,
    scaler: str = "held",
) -> GivenModel:
    """`measure`, and what it found out on the way."""
    tied, not_tied = ((names,) if isinstance(names, str) else tuple(names) for names in (tied, not_tied))
    check(noise, unit, (*tied, *not_tied), person)
    check_scaler(scaler)
    if isinstance(y, str) and isinstance(person, str) and y == person:
        raise Refusal(SAME.format(name=safe_text(y)))
    steps, final, chosen = _unwrapped(model)
    refuse_unmeasurable(final)
    stage("preparing the columns")
    aside = [k for k in (y, person) if isinstance(k, str)]
    features, design, table, columns, gaps = _design(model, steps, final, frame, aside)
    n = table.n
    problem = problem_of(final, Target(target_of(frame, y, n), weights_of(frame, sample_weight, n)))
    if problem.penalised_intercept:
        design = _with_ones(design)
    how = reading(design, problem.loss, problem.y, noise=noise, label=label, unit=unit)
    stage("polishing the fit")
    fit, moved = polished(problem, design, how)
    remarks = (
        (f"the coefficients were polished to the exact minimum, which moved some η by {100 * moved:.2g} %",)
        if moved > VISIBLE
        else ()
    )
    ids = None if person is None else ids_of(frame, person, n)
    target = y if isinstance(y, str) else "y"
    read = dict(columns)
    if ids is not None:
        there = {name: observed_by_person(columns[name], gap.mask, ids) for name, gap in gaps.items()}
        columns = {**columns, **there}
    shared = _tie(frame, columns, design, problem.y if label else None, ids, target, tied, not_tied)
    if scaler == "total" and not (np.any(design.fitted) and fit.intercept):
        raise CannotMeasure(
            "scaler='total' is for columns behind a StandardScaler of this table and a model with an unpenalised "
            "intercept: use scaler='held'"
        )
    held = design if fit.intercept else replace(design, fitted=())
    found = read_through(fit, held, problem.y, how, scaler)
    leak = TableLeakage(
        found.leak,
        fit,
        held,
        frame=frame,
        target=target,
        label_unit=how["label_unit"],
        measured_in=UNITS[unit],
        ids=ids,
        tied=shared.columns,
        tied_label=shared.label,
        uncovered=found.uncovered + problem.uncovered + chosen + gap_notes(gaps),
        remarks=(*remarks, *shared.remarks, *((INSIDE,) if design.uncovered else ())),
        floor=found.floor,
        scaler=scaler,
    )
    names, _ = _sources(model, steps, final, frame, aside)

    def probe(values: Mapping[str, NDArray[Any]]) -> FloatArray:
        k = len(next(iter(values.values())))
        made = tuple(raw_feature(name, values.get(name, np.zeros(k))) for name in names)
        for step in steps:
            made = transform(step, made)
        return np.column_stack([feature.numbers for feature in made])

    classes = getattr(final, "classes_", None)
    return GivenModel(leak.with_floor_remark(), problem, shared, features, probe, gaps, read, classes)


def _tie(
    frame: Any,
    columns: dict[str, NDArray[Any]],
    design: Design,
    y: FloatArray | None,
    ids: Sequence[Any] | None,
    target: str,
    tied: Sequence[str],
    not_tied: Sequence[str],
) -> Tied:
    """A column that the model does not see has nothing to tie."""
    unseen = {name for name in names_of(frame) if name not in columns and name != target}
    asked = {*tied, *not_tied}
    # A column of one value (the ones of an intercept) is no value of a person's.
    seen = {name: c for name, c in columns.items() if design.blocks.get(name) and (varies(c) or name in asked)}
    named = ([name for name in names if name not in unseen] for names in (tied, not_tied))
    return tie(seen, y, ids, target, *named, frame=frame)


def reading(design: Design, loss: Any, y: FloatArray, *, noise: Any, label: bool, unit: str) -> dict[str, Any]:
    """How `glm.measure` reads a fit on this design in the chosen unit: its keyword arguments."""
    through = design.through * design.spread if unit == "sd" else design.through
    return {"noise": noise, "label": label, "through": through, "label_unit": label_unit(loss, y, unit)}


def label_unit(loss: Any, y: FloatArray, unit: str) -> float:
    """How much of the target one unit of the figures is: the step where it has two values, as for every column.

    Of several classes the unit is √2, the length of a step from one indicator to another.
    """
    if loss.name == "logistic":
        return 1.0
    if loss.name == "softmax":
        return math.sqrt(2.0)
    return step_of(y) or (spread(y) if unit == "sd" else 1.0)


def check(noise: Any, unit: str, tied: Sequence[str], person: Any) -> None:
    """The arguments that do not depend on the table."""
    if not hasattr(noise, "whiten"):
        raise Refusal(
            f"noise is {safe_text(noise)}: give a noise such as Gaussian(0.05), or no_noise for an exact release"
        )
    if unit not in UNITS:
        raise Refusal(f"unit {safe_text(unit)!r} is not 'own' or 'sd'")
    if tied and person is None:
        raise Refusal("tied columns are one value per person: pass person= as well")


def _unwrapped(model: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
    """Transformers in turn, the final estimator, and what was chosen from the data on the way."""
    if type(model).__module__.split(".")[0] == "statsmodels" or isinstance(model, Coefficients):
        return (), model, ()
    if isinstance(model, type) or not hasattr(model, "fit"):
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise CannotMeasure(f"{safe_text(kind)} is not a fitted model: pass the object that fit returned")
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
    from sklearn.pipeline import Pipeline

    if isinstance(model, GridSearchCV | RandomizedSearchCV):
        if not hasattr(model, "best_estimator_"):
            raise CannotMeasure(f"{type(model).__name__} is not fitted, or not with refit=True: fit it first")
        steps, final, chosen = _unwrapped(model.best_estimator_)
        return steps, final, (SEARCHED, *chosen)
    if isinstance(model, Pipeline):
        steps, final, chosen = _unwrapped(model.steps[-1][1])
        return (*(step for _, step in model.steps[:-1]), *steps), final, chosen
    return (), model, ()


def _design(
    model: Any, steps: tuple[Any, ...], final: Any, frame: Any, set_aside: list[str]
) -> tuple[tuple[Feature, ...], Design, Table, dict[str, NDArray[Any]], dict[str, Gaps]]:
    """The model's columns, its matrix, the table that was read, its columns under the model's names, their gaps."""
    names, sources = _sources(model, steps, final, frame, set_aside)
    used = columns_read(steps, names) if steps else tuple(range(len(names)))
    read = [sources[j] for j in used]
    table = Table.of(frame, drop=[name for name in names_of(frame) if name not in read], missing="keep")
    columns = {names[j]: table[sources[j]] for j in used}
    nothing = np.zeros(table.n)
    gaps = {names[j]: table.gaps[sources[j]] for j in used if sources[j] in table.gaps}
    masks = {name: gap.mask for name, gap in gaps.items()}
    # Cells that were filled before they came here need no imputer.
    open_ = {name: gap.mask for name, gap in gaps.items() if gap.value is None}
    features = tuple(raw_feature(name, columns.get(name, nothing), open_.get(name)) for name in names)
    for step in steps:
        features = transform(step, features)
    # A person or target column that the model drops is no source of it.
    shown = [name for j, name in enumerate(names) if j in used or name not in set_aside]
    return features, assemble(features, columns, shown, masks), table, columns, gaps


def _sources(
    model: Any, steps: tuple[Any, ...], final: Any, frame: Any, set_aside: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model's names of its columns, and the frame's names of the same columns."""
    have = names_of(frame)
    if not have:
        Table.of(frame)  # says what is wrong with it
    wanted, count = _fitted_on(model, steps, final)
    positional = [name for name in have if name not in set_aside]
    if wanted is not None and not (isinstance(frame, np.ndarray) or _numbered(final, wanted, have)):
        absent = [name for name in wanted if name not in have]
        if absent:
            raise Refusal(
                f"the model was fitted on {safe_list(absent)}, which the frame does not have: its columns are "
                f"{safe_list(have)}"
            )
        return wanted, wanted
    if len(positional) != count:
        raise Refusal(
            f"the model was fitted on {count} columns and the frame has {len(positional)}: pass the training table"
        )
    return (wanted or tuple(positional)), tuple(positional)


def _fitted_on(model: Any, steps: tuple[Any, ...], final: Any) -> tuple[tuple[str, ...] | None, int]:
    """Names (None where it was fitted on an array) and number of the columns that the model was fitted on."""
    if isinstance(final, Coefficients):
        return tuple(final.coef), len(final.coef)
    if type(final).__module__.split(".")[0] == "statsmodels":
        names = column_names(final)
        return names, len(names)
    for part in (model, *steps, final):
        if hasattr(part, "n_features_in_"):
            named = getattr(part, "feature_names_in_", None)
            return (None if named is None else tuple(map(str, named))), int(part.n_features_in_)
    problem_of(final, Target(np.zeros(1), None))  # refuses what is no fitted linear model, and says why
    raise CannotMeasure(why_not(final))


def _numbered(final: Any, wanted: tuple[str, ...], have: Sequence[str]) -> bool:
    """statsmodels calls the columns of an array x1, x2, ...: then they are known by position alone."""
    made_up = all(name.startswith("x") and name[1:].isdigit() for name in wanted)
    return type(final).__module__.startswith("statsmodels") and made_up and not set(wanted) <= set(have)


def _with_ones(design: Design) -> Design:
    """A last column of ones that no unknown moves."""
    ones = np.ones((len(design.X), 1))
    return replace(
        design,
        X=np.hstack([design.X, ones]),
        names=(*design.names, "intercept"),
        through=np.vstack([design.through, np.zeros((1, design.through.shape[1]))]),
        fitted=np.append(design.fitted, False) if np.any(design.fitted) else (),
    )
