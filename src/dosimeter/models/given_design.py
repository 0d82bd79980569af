"""The design of a given model: which columns of the table it was fitted on, and its steps over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.adapters.any_problem import AnyProblem
from dosimeter.adapters.chain import Chain
from dosimeter.adapters.features import Design, assemble
from dosimeter.adapters.pipelines import columns_read
from dosimeter.adapters.problem import EquationsProblem, Problem
from dosimeter.adapters.registry import model_library, sources_of
from dosimeter.adapters.statsmodels_design import constant_place
from dosimeter.adapters.words.design import WordDesign
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.glm.fitting.wide_softmax_fit import MOST, WRITTEN_OUT
from dosimeter.glm.linalg.sparse_table import is_sparse
from dosimeter.models.counts import read_counts, takes_counts
from dosimeter.tables.missing_values import Gaps
from dosimeter.tables.row_arguments import names_of, weights_of
from dosimeter.tables.table import Table, library_of


def read_design(
    model: Any, steps: tuple[Any, ...], final: Any, frame: Any, set_aside: list[str], sample_weight: Any
) -> tuple[Chain | None, Design, int, dict[str, NDArray[Any]], dict[str, Gaps]]:
    """The steps over the table, the design, its rows, the columns under the model's names, their gaps.

    Texts and sparse tables have no chain of columns."""
    if takes_counts(steps, frame):
        fitted_on = None if steps else sources_of(final)
        design, read = read_counts(steps, frame, set_aside, None if fitted_on is None else fitted_on[1])
        return None, design, design.X.shape[0], read, {}
    names, sources = _sources(model, steps, final, frame, set_aside)
    used = columns_read(steps, names) if steps else tuple(range(len(names)))
    read_names = [sources[j] for j in used]
    table = Table.of(frame, drop=[name for name in names_of(frame) if name not in read_names], missing="keep")
    columns = {names[j]: table[sources[j]] for j in used}
    gaps = {names[j]: table.gaps[sources[j]] for j in used if sources[j] in table.gaps}
    chain = Chain(
        steps,
        names,
        columns,
        table.n,
        # Cells that were filled before need no imputer.
        open_gaps={name: gap.mask for name, gap in gaps.items() if gap.value is None},
        filled={name: gap.mask for name, gap in gaps.items()},
        library=library_of(frame),
        weights=weights_of(frame, sample_weight, table.n),
    )
    # A person or target column that the model drops is not one of its sources.
    shown = [name for j, name in enumerate(names) if j in used or name not in set_aside]
    return chain, assemble(chain, shown), table.n, columns, gaps


def _sources(
    model: Any, steps: tuple[Any, ...], final: Any, frame: Any, set_aside: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The model's names of its columns, and the frame's names of the same columns."""
    names = names_of(frame)
    if not names:
        Table.of(frame)  # says what is wrong with it
    positional = [name for name in names if name not in set_aside]
    wanted, count = _fitted_on(model, steps, final, len(positional))
    if wanted is not None and not (isinstance(frame, np.ndarray) or _numbered(final, wanted, names)):
        absent = [name for name in wanted if name not in names]
        if absent:
            raise Refusal(
                f"the model was fitted on {safe_list(absent)}, which the frame does not have: its columns are "
                f"{safe_list(names)}"
            )
        return wanted, wanted
    constant = constant_place(final) if len(positional) == count + 1 else None
    if constant is not None:  # an array that was passed with the ones that statsmodels counts apart
        positional = [*positional[:constant], *positional[constant + 1 :]]
    if len(positional) != count:
        raise Refusal(
            f"the model was fitted on {count} columns and the frame has {len(positional)}: pass the training table"
        )
    return (wanted or tuple(positional)), tuple(positional)


def _fitted_on(model: Any, steps: tuple[Any, ...], final: Any, count: int) -> tuple[tuple[str, ...] | None, int]:
    """Names (None if it was fitted on an array) and number of the columns that the model was fitted on.

    count: of the columns that it is given.
    """
    first = next((step for step in steps if not (step is None or isinstance(step, str))), final)
    # A final estimator behind a formula was fitted on the columns of the formula, not on those of the table.
    for part in (*(() if final is model else (model,)), first):
        sources = sources_of(part)
        if sources is not None:
            return sources
    if first is not final:  # a step of one's own need not say what it was fitted on
        return None, count
    raise CannotMeasure(f"{safe_text(type(final).__name__)} does not tell on which columns it was fitted")


def _numbered(final: Any, wanted: tuple[str, ...], names: Sequence[str]) -> bool:
    """statsmodels calls the columns of an array x1, x2, ...: then they are known by position alone."""
    made_up = all(name.startswith("x") and name[1:].isdigit() for name in wanted)
    return model_library(final) == "statsmodels" and made_up and not set(wanted) <= set(names)


def on_counts(problem: AnyProblem, design: WordDesign, model: str) -> tuple[AnyProblem, Design]:
    """A problem of one margin, or of many weights, on the sparse table; others on a table that is written out."""
    if isinstance(problem, EquationsProblem) and problem.one_margin is not None:
        problem = problem.one_margin
    if isinstance(problem, Problem) and isinstance(problem.loss, glm.ScalarLoss):
        if not np.ndim(problem.penalty) or not is_sparse(design.X):
            return problem, design
        if not design.can_be_written_out(1):
            raise CannotMeasure(
                f"{model} with a penalty for each weight, such as intercept_scaling other than 1, is not measured on a "
                f"sparse table of {design.X.shape[0]} x {design.X.shape[1]}: use one penalty for all, or fewer columns"
            )
        return problem, design.written_out(model)
    if isinstance(problem, Problem) and not design.can_be_written_out(problem.w.shape[1]):
        return problem, design
    if isinstance(problem, EquationsProblem) and problem.outputs and not design.can_be_written_out(1):
        return problem, design
    return problem, design.written_out(model)


def on_many_levels(problem: AnyProblem, design: Design, model: str) -> Design:
    """A sparse table of indicators for a smooth loss of one margin with a penalty; written out for others."""
    n, d = design.X.shape
    if d <= MOST and isinstance(problem, Problem) and _has_sparse_route(problem):
        return design
    if n * d > WRITTEN_OUT:
        raise CannotMeasure(
            f"{model} on {n} rows x {d} columns of indicators is not measured: use a loss of one margin with an L2 "
            f"penalty and at most {MOST} columns, or pool rare levels (OneHotEncoder(min_frequency=...))"
        )
    return replace(design, X=design.X.toarray())


def _has_sparse_route(problem: Problem) -> bool:
    """A smooth convex loss of one margin, one penalty for all columns, and no offset."""
    one_margin = isinstance(problem.loss, glm.ScalarLoss) and problem.loss.convex
    return one_margin and problem.offset is None and np.ndim(problem.penalty) == 0 and problem.penalty > 0
