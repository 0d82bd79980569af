"""One run of some rows through the frozen steps, and what the runs of one model share.

* survey: all rows; slopes that are the same on every row, and marks where they are not. Steps are checked here.
* slopes: a block of rows; the slopes that differ from row to row.
* values: made-up or repeated rows; no slopes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.text import safe_text


class Mode(Enum):
    """What a run computes."""

    SURVEY = "survey"
    SLOPES = "slopes"
    VALUES = "values"


@dataclass(frozen=True)
class Category:
    """The levels of a source column, the reference first, each with a cell of the table that has it."""

    levels: tuple[str, ...]
    cells: tuple[Any, ...]
    binned: bool = False
    """Whether the levels are bins of a number, and the cells values inside them."""

    def same_cells(self, other: Category) -> bool:
        """Whether two encoders know the same levels, in whatever order."""
        return {str(c) for c in self.cells} == {str(c) for c in other.cells} and self.binned == other.binned


@dataclass
class Log:
    """What the steps of one model have said about themselves."""

    categories: dict[str, list[Category]] = field(default_factory=dict)
    """Source column -> its levels, as each encoder sees them."""
    by_level: set[str] = field(default_factory=set)
    """Source columns that must be read level by level."""
    remarks: dict[str, None] = field(default_factory=dict)
    estimates: dict[str, float] = field(default_factory=dict)
    """Step -> largest relative error of its slopes, for steps that are read by differences."""
    unfoldable: dict[str, None] = field(default_factory=dict)
    """Steps that cannot be folded into weights of the source columns."""
    hints: dict[str, None] = field(default_factory=dict)
    """What may be wrong if the coefficients are not a minimum."""
    checked: dict[Any, Any] = field(default_factory=dict)
    """What was learned about a step of unknown kind."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run; see the top of the file."""

    mode: Mode
    log: Log
    columns: Mapping[str, NDArray[Any]]
    """The source columns (n,) of all rows."""
    gaps: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    """Where they have no value."""
    two_valued: frozenset[str] = frozenset()
    """Source columns of two numbers: categories, whose step is what is measured."""
    library: Any = None
    """The dataframe library of the caller's table; None for an array."""
    weights: FloatArray | None = None
    """(n,) weights of the rows, by which a scaler may have been fitted; None for equal ones."""

    @property
    def survey(self) -> bool:
        return self.mode is Mode.SURVEY

    @property
    def wants_slopes(self) -> bool:
        return self.mode is not Mode.VALUES

    def declare(self, source: str, category: Category) -> None:
        """Say that a step reads the column as a category."""
        known = self.log.categories.setdefault(source, [])
        if self.survey and category not in known:
            known.append(category)

    def observed(self, source: str) -> NDArray[Any]:
        """The values of a source column that are not missing."""
        column = self.columns[source]
        return column[~self.gaps[source]] if source in self.gaps else column


MOST_VALUES = 1000
"""A number with more distinct values than this is not read as a category of its values."""


def by_its_values(run: Run, source: str, step: str, why: str) -> Category:
    """Declare a column a category of the values it has in the table; refused for a number of many values."""
    column = run.observed(source)
    text = column.dtype.kind == "O"
    values = sorted(set(column.tolist())) if text else np.unique(column).tolist()
    if not text and len(values) > MOST_VALUES:
        raise CannotMeasure(
            f"{step} {why} in column {safe_text(source)}, where no derivative exists, and the column has "
            f"{len(values)} distinct values, too many to read as a category: use a step without jumps, or "
            "KBinsDiscretizer"
        )
    category = Category(tuple(map(str, values)), tuple(values))
    run.declare(source, category)
    if not text:
        run.log.remarks[
            f"{step} {why} in column {safe_text(source)}: the column is read as a category of its {len(values)} "
            "values, by the largest step between two of them"
        ] = None
    return category


def step_name(step: Any) -> str:
    """The class of a step, safe to print; for a function its name, for a term of a formula its text."""
    term = getattr(step, "formula_term", "")
    if isinstance(term, str) and term:
        return safe_text(term)
    func = getattr(step, "func", None)
    inner = f"({getattr(func, '__name__', type(func).__name__)})" if callable(func) else ""
    return safe_text(f"{type(step).__name__}{inner}")


def require_fitted(step: Any, attribute: str, count: int) -> Any:
    """A fitted attribute; the step must have seen as many columns as there are."""
    if not hasattr(step, attribute):
        raise CannotMeasure(f"{step_name(step)} before the model is not fitted: fit the whole pipeline first")
    n_fitted = getattr(step, "n_features_in_", count)
    if n_fitted != count:
        raise Refusal(f"{step_name(step)} was fitted on {n_fitted} columns and gets {count}: pass the training table")
    return getattr(step, attribute)


__all__: Sequence[str] = (
    "MOST_VALUES", "Category", "Log", "Mode", "Run", "by_its_values", "require_fitted", "step_name",
)  # fmt: skip
