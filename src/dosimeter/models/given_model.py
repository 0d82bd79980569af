"""A fitted model and its training table: what its weights leak, by the names of the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.chain import Chain
from dosimeter.adapters.cox_problem import CoxProblem
from dosimeter.adapters.features import HELD_FIXED, Design, Feature, learned_scalers
from dosimeter.adapters.formulas import Formula
from dosimeter.adapters.polish import polish
from dosimeter.adapters.problem import Target
from dosimeter.adapters.registry import measurable_adapter, problem_of
from dosimeter.adapters.solved_equations import SolvedEquations, target_units
from dosimeter.adapters.target_map import target_slopes
from dosimeter.adapters.words.design import WordDesign, by_column
from dosimeter.adapters.wrappers import unwrap
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.notion import Standing
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.glm.linalg.sparse_table import is_sparse
from dosimeter.models.counts import COLUMNS
from dosimeter.models.fitted_scaler import INSIDE, check_scaler, measure_with_scaler
from dosimeter.models.given_design import on_counts, on_many_levels, read_design
from dosimeter.models.row_constants import own_constants
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.tables.column_values import spread
from dosimeter.tables.constant_values import Tied, tie
from dosimeter.tables.data_checks import varies
from dosimeter.tables.missing_values import Gaps, gap_notes, observed_by_person
from dosimeter.tables.person_ids import id_remarks_of_people, same_people
from dosimeter.tables.row_arguments import (
    frame_columns,
    ids_of,
    lists_columns,
    names_of,
    target_names,
    target_of,
    weights_of,
)
from dosimeter.tables.table import Table

UNITS = {"raw": "own units", "sd": "standard deviations"}
"""The option `unit` -> the name of the unit in results and doses."""
SAME = "the column {name} is both the target and the person: name two columns"


@dataclass(frozen=True, eq=False)
class GivenModel:
    """A given model and its table as a problem of eq. 13, with its leakage."""

    leakage: TableLeakage
    problem: AnyProblem
    tied: Tied
    features: tuple[Feature, ...]
    """The columns that the final estimator sees; a penalised intercept is not among them."""
    probe: Callable[[Mapping[str, NDArray[Any]]], FloatArray]
    """Made-up source columns (k,), 0 for those not named -> (k, d) input of the final estimator."""
    gaps: dict[str, Gaps]
    columns: dict[str, NDArray[Any]]
    """The source columns as they were read, with their gaps."""
    classes: Any
    y: NDArray[Any]
    """(n,) the target as it was read."""

    @property
    def table(self) -> Table:
        """The columns that the model reads, under its names, and the target or targets."""
        targets = {self.leakage.target: self.y} if self.y.ndim == 1 else dict(
            zip(self.leakage.target.split(", "), self.y.T, strict=True)
        )  # fmt: skip
        columns = {**self.columns, **targets}
        return Table(tuple(columns), tuple(columns.values()), gaps=self.gaps)


def measure_model(
    model: Any,
    frame: Any,
    y: Any,
    *,
    person: Any = None,
    noise: Any,
    tied: Sequence[str] = (),
    not_tied: Sequence[str] = (),
    include_target: bool = True,
    unit: str = "raw",
    sample_weight: Any = None,
    scaler: str = "held",
    answers: bool = False,
    noised: bool = False,
) -> GivenModel:
    """What the model's coefficients and intercept, released with `noise` on each, leak about its table.

    model: a fitted scikit-learn linear model, alone or behind a Pipeline of steps that treat rows one by one (held
    fixed); statsmodels GLM results; or `Coefficients`. frame: the table it was trained on. y, person, sample_weight: a
    column's name or one value per row. tied, not_tied, unit, scaler: as in `dosimeter.measure`. include_target: whether
    the target counts among a row's unknowns. answers: the model answers queries. Its figures then go through a fitted
    scaler where they can, whatever `scaler` says, and a mapped target is refused. noised: its weights carry their noise
    already, so they are no minimum; the figures are those of the minimum.
    """
    tied, not_tied = ((names,) if isinstance(names, str) else tuple(names) for names in (tied, not_tied))
    check(noise, unit, (*tied, *not_tied), person)
    check_scaler(scaler)
    if isinstance(y, str) and isinstance(person, str) and y == person:
        raise Refusal(SAME.format(name=safe_text(y)))
    opened = unwrap(model)
    steps, final = opened.steps, opened.final
    stage("preparing the columns")
    aside = [name for name in (y, person) if isinstance(name, str)] + (list(y) if lists_columns(frame, y) else [])
    chain, design, n, columns, gaps = read_design(model, steps, final, frame, aside, sample_weight)
    own_target = measurable_adapter(final).own_target
    outcome = None if own_target is None else own_target(final)
    y_as_read = target_of(frame, y, n) if outcome is None else np.zeros(n)
    mapped = Target(y_as_read, weights_of(frame, sample_weight, n), frame_columns(frame))
    slopes = None
    if opened.target_map is not None:
        if y_as_read.ndim > 1:
            raise CannotMeasure(
                "a transformed target of several columns is not measured: transform the targets yourself and measure "
                "the model inside"
            )
        slopes = target_slopes(opened.target_map, mapped.numbers())
        mapped = replace(mapped, y=opened.target_map(mapped.numbers()))
    problem = problem_of(final, mapped)
    ids = None if person is None else same_people(ids_of(frame, person, n))
    if isinstance(design, WordDesign) and is_sparse(frame):
        named = set(design.words[COLUMNS].names)
        of_columns = [[name for name in names if name in named] for names in (tied, not_tied)]
        design = by_column(design, COLUMNS, ids, *of_columns)
        tied, not_tied = (tuple(name for name in names if name not in named) for names in (tied, not_tied))
    if isinstance(design, WordDesign):
        problem, design = on_counts(problem, design, type(final).__name__)
    elif is_sparse(design.X):
        design = on_many_levels(problem, design, type(final).__name__)
    if problem.penalised_intercept:
        design = design.with_ones()
    options = measure_options(design, problem.loss, problem.y, noise=noise, include_target=include_target, unit=unit)
    if slopes is not None:  # a unit of the target is one of the values as they were read
        options |= {"target_unit": target_unit(problem.loss, Target(y_as_read, None).numbers(), unit)}
        options |= {"target_slopes": slopes}
    stage("polishing the fit")
    with _hints(design):
        polished = polish(problem, design, options, noised)
    fit, distance = polished.fit, (polished.remark,) if polished.remark else ()
    target = ", ".join(target_names(frame, y) if outcome is None else outcome)
    if isinstance(problem, CoxProblem):
        y_as_read = np.column_stack([problem.time, problem.event])
    columns_as_read = dict(columns)
    if ids is not None:
        filled = {name: observed_by_person(columns[name], gap.mask, ids) for name, gap in gaps.items()}
        columns = {**columns, **filled}
    codes = _row_codes(problem.y) if include_target else None
    shared = _tie(frame, columns, design, codes, ids, target, tied, not_tied)
    # Only one margin goes through a fitted scaler: its constant takes up the means, penalised or not.
    one_margin = isinstance(fit, glm.Fit) and not isinstance(problem.loss, glm.Softmax)
    has_intercept = fit.intercept or (problem.penalised_intercept and one_margin)
    if answers:
        if opened.target_map is not None:
            raise CannotMeasure("answers behind a transformed target have no figure here: answer with the model inside")
        scaler = "total" if np.any(design.fitted) and has_intercept else "held"
    if scaler == "total" and not (np.any(design.fitted) and has_intercept):
        raise CannotMeasure(
            f"{option('scaler', 'total')} is for columns behind a StandardScaler of this table and a model with an "
            f"intercept: use {option('scaler', 'held')}"
        )
    if scaler == "total" and slopes is not None:
        raise CannotMeasure(
            f"{option('scaler', 'total')} is not derived for a transformed target: use {option('scaler', 'held')}"
        )
    features = () if chain is None else chain.features
    held = _held(design, fit, features, has_intercept, slopes is not None, answers)
    if not isinstance(held, WordDesign) and held.learned is not None and ids is not None:
        held = replace(held, learned=held.learned.of_people(ids, _features_of(held, shared.columns)))
    units = design.spread if unit == "sd" else 1.0
    figures = measure_with_scaler(fit, held, problem.y, options, scaler, units, answers)
    beyond = _beyond_the_floor(held, chain)
    if answers and beyond:
        figures = replace(figures, not_covered=design.not_covered)
    leak = TableLeakage(
        figures.leak,
        fit,
        held,
        frame=frame,
        target=target,
        target_unit=options["target_unit"],
        measured_in=UNITS[unit],
        ids=ids,
        tied=shared.columns,
        tied_target=shared.target,
        not_covered=figures.not_covered
        + problem.not_covered
        + polished.not_covered
        + opened.not_covered
        + own_constants(sample_weight, mapped.weight, problem, columns_as_read, mapped.columns)
        + gap_notes(gaps),
        approximations=() if polished.exact else (*distance, *design.hints),
        remarks=(
            *(distance if polished.exact else ()),
            *problem.remarks,
            *polished.remarks,
            *design.remarks,
            *_bounds_remark(figures.leak),
            *id_remarks_of_people(ids or ()),
            *shared.remarks,
            *(() if answers else _inside(design, steps)),
            *(
                ()
                if figures.floor is not None and not beyond
                else _not_computed(figures.not_covered, NO_ANSWERS_COMPUTED if answers else NOT_COMPUTED)
            ),
        ),
        floor=figures.floor,
        whole=figures.whole,
        scaler=scaler,
    )
    classes = getattr(final, "classes_", None)
    return GivenModel(
        leak if answers else leak.with_floor_remark(),
        problem,
        shared,
        () if chain is None else chain.features,
        _no_probe if chain is None else chain.evaluate,
        gaps,
        columns_as_read,
        classes,
        y_as_read,
    )


NOT_COMPUTED = (
    "what statistics of the data leave at any noise is not computed for these steps, neither here nor in the verdict "
    "on a limit: fit them on public rows"
)
NO_ANSWERS_COMPUTED = (
    "what answers tell through statistics of the data is not computed for these steps, neither here nor in the verdict "
    "on a limit: fit them on public rows"
)


def _not_computed(not_covered: Sequence[str], remark: str) -> tuple[str, ...]:
    """Where numbers behind steps were computed with statistics of the data, and no floor was found."""
    held = [note for note in not_covered if note.endswith(HELD_FIXED)]
    return (remark,) if any(not note.startswith("the levels of ") for note in held) else ()


def _beyond_the_floor(design: Design | WordDesign, chain: Chain | None) -> bool:
    """Whether some features came through a scaler of this table that the floor does not count."""
    if isinstance(design, WordDesign) or chain is None:
        return False
    counted = np.flatnonzero(design.fitted) if design.learned is None else design.learned.features
    return any(
        j not in counted and feature.is_scaled_by_these_rows(design.nominal) for j, feature in enumerate(chain.features)
    )


BOUNDS = (
    "the figures of rows, people and the table are upper bounds: the exact ones need matrices that are too large for "
    "this table; no figure is too low"
)


def _bounds_remark(leak: glm.Leakage) -> tuple[str, ...]:
    """Said also where the standing names something else, such as what is not covered."""
    return (BOUNDS,) if getattr(leak, "standing", None) is Standing.UPPER_BOUND else ()


def _held(
    design: Any, fit: Any, features: Sequence[Feature], has_intercept: bool, transformed: bool, answers: bool
) -> Any:
    """The design with what a fitted scaler leaves: through `fitted` where that is derived, else through `learned`."""
    if isinstance(design, WordDesign) or (has_intercept and not transformed):
        return design
    if answers:
        return replace(design, fitted=(), learned=learned_scalers(features))
    if isinstance(fit, SolvedEquations):
        folds = not isinstance(fit.solution.equations, glm.GaussianNaiveBayes)
    else:
        folds = has_intercept or isinstance(fit, glm.CoxFit)
    learned = learned_scalers(features)
    shifts = learned is not None and learned.by_mean.any()
    return replace(design, fitted=(), learned=learned if folds or not shifts else None)


def _features_of(design: Design, sources: Sequence[str]) -> NDArray[np.bool_]:
    """(d,) features that move with these source columns and no others."""
    positions = [j for name in sources for j in design.blocks.get(name, ())]
    others = np.setdiff1d(np.arange(design.constant_map.shape[1]), positions)
    moved = design.constant_map != 0.0
    return np.asarray(moved[:, positions].any(axis=1) & ~moved[:, others].any(axis=1))


def _inside(design: Design, steps: tuple[Any, ...]) -> tuple[str, ...]:
    """What a file that holds the fitted steps leaks whatever the noise."""
    if isinstance(design, WordDesign):
        scaled = design.moves is not None or design.learned is not None
        return (*design.inside, INSIDE) if scaled else design.inside
    return (INSIDE,) if design.not_covered and not all(isinstance(step, Formula) for step in steps) else ()


def _no_probe(columns: Mapping[str, NDArray[Any]]) -> FloatArray:
    raise CannotMeasure("texts and sparse tables have no source columns that could be set one by one")


def _row_codes(y: FloatArray) -> FloatArray:
    """(n,) the target, or a number for each distinct row of several targets."""
    return y if y.ndim == 1 else np.unique(y, axis=0, return_inverse=True)[1].reshape(-1).astype(np.float64)


@contextmanager
def _hints(design: Design) -> Iterator[None]:
    """A refused minimum, with what the steps before the model may have to do with it."""
    try:
        yield
    except CannotMeasure as refusal:
        if not design.hints:
            raise
        raise CannotMeasure("; ".join([str(refusal), *design.hints])) from None


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
    """The tied values among the columns that the model sees."""
    unseen = {name for name in names_of(frame) if name not in columns and name != target}
    requested = {*tied, *not_tied}
    # A constant column (the ones of an intercept) is not a value of a person.
    texts = design.words if isinstance(design, WordDesign) else ()
    # Nor is a text: its counts are many unknowns, of each row its own.
    visible = {
        name: c
        for name, c in columns.items()
        if design.blocks.get(name) and name not in texts and (varies(c) or name in requested)
    }
    named = ([name for name in names if name not in unseen] for names in (tied, not_tied))
    return tie(visible, y, ids, target, *named, frame=frame)


def measure_options(
    design: Design, loss: Any, y: FloatArray, *, noise: Any, include_target: bool, unit: str
) -> dict[str, Any]:
    """Keyword arguments of `glm.measure` for a fit on this design in the chosen unit."""
    input_map = design.input_map(design.spread) if unit == "sd" else design.input_map()
    return {
        "noise": noise,
        "include_target": include_target,
        "input_map": input_map,
        "target_unit": target_unit(loss, y, unit),
    }


def target_unit(loss: Any, y: FloatArray, unit: str) -> Any:
    """The change of the target that one unit of the figures stands for: its step if it has two values.

    A number, or one for each of several targets.
    """
    kind: glm.TargetKind = loss.target
    return target_units(kind, y, lambda column: spread(column) if unit == "sd" and not kind.classes else 1.0)


def check(noise: Any, unit: str, tied: Sequence[str], person: Any) -> None:
    """The arguments that do not depend on the table."""
    if isinstance(noise, type) or not hasattr(noise, "whiten"):
        raise Refusal(
            f"noise is {safe_text(noise)}: give a noise such as Gaussian(0.05), or no_noise for an exact release"
        )
    if unit not in UNITS:
        raise Refusal(f"{option('unit', safe_text(unit))}: use sd or raw")
    if tied and person is None:
        raise Refusal(f"a tied column is one value per person: pass {option('person')} as well")
