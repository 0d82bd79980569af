"""What is unknown about a person, column by column and the target: how closely it can be guessed, what leaks most.

A number, or the target, is read as 1/η in its own unit, beside what everything else in the table gives without any
release: its residual standard deviation, and R². A column that follows from the others says little about a release. A
column of labels, or of two values, is a category: a guess of it is a choice and not an amount, so it is read as η of
the step from one value to another. A text is read as η of its word counts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import step_of
from dosimeter.core.face import option
from dosimeter.core.quantiles import median
from dosimeter.core.text import safe_list
from dosimeter.glm.attacks.column_prediction import ColumnPrediction
from dosimeter.models.column_control import NEARLY, explain_table
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.linear_parts import ColumnFigures, TargetFigures, WorstCell
from dosimeter.results.people import PersonFigures, number_of
from dosimeter.results.visibility import present
from dosimeter.tables.table import Table

BY_ETA = ("category", "text")
"""Kinds that are read as η: their guess is no amount in a unit."""


@dataclass(frozen=True)
class Guess:
    """Deviations of guesses over the people: of a typical person and of the most exposed one."""

    typical: float
    least: float


@dataclass(frozen=True, eq=False)
class Unknown:
    """One column, or the target."""

    name: str
    kind: str
    """'number', 'category', 'text' or 'target'."""
    deviation: FloatArray
    """(n,) least standard deviation of an unbiased guess; of a category, of its step as a number."""
    spread: float
    """The column's standard deviation; 1 for categories and classes, the step between two of them."""
    classes: bool = False
    """A target that is a class, or has two values: read by its step."""
    rest: ColumnPrediction | None = None
    """What the other columns say about it without any release; None if there are too few rows."""

    @property
    def control(self) -> float:
        """Standard deviation of a least-squares guess from everything else, without the release."""
        return self.spread * (1.0 if self.rest is None else self.rest.residual_share)

    @property
    def nearly_given(self) -> bool:
        """Whether it is a function of the other columns, or nearly."""
        return self.rest is not None and self.rest.r2 >= NEARLY

    @property
    def by_step(self) -> bool:
        """Whether a guess of it is a choice between values: a category, a text, or a target that is a class."""
        return self.kind in BY_ETA or self.classes

    def share(self, deviation: Any) -> Any:
        """An error over that of a guess without the release; of a choice, 1/η of its step. Infinite for what follows.

        R² says how an amount spreads about its best guess. It says nothing about how well two values one step apart
        can be distinguished, so it does not lower the rank of a class or of a category.
        """
        if self.by_step:
            return np.full_like(deviation, np.inf) if self.nearly_given else deviation
        return deviation / self.control if self.control > 0 else np.inf

    def guess(self, people: PersonFigures) -> Guess:
        """Each person by the best guessed of their rows."""
        least = people.least(self.deviation)
        return Guess(median(least), float(least.min()))

    def figures(self, guess: Guess) -> dict[str, Any]:
        """Fields of `ColumnFigures`: typical and most exposed."""
        if self.kind in BY_ETA:
            return {"typical": _inverse(guess.typical), "highest": _inverse(guess.least), **self.context}
        return {"typical_deviation": guess.typical, "least_deviation": guess.least, **self.context}

    @property
    def context(self) -> dict[str, Any]:
        """Fields of `ColumnFigures` and `WorstCell`: its spread or step, and what everything else says about it."""
        number = self.kind not in BY_ETA and not self.classes
        return present(
            spread=self.spread if number else None,
            step=1.0 if self.classes else None,
            r2=None if self.rest is None else self.rest.r2,
            nearly_given=None if self.rest is None else self.nearly_given,
            without_release=self.control if number and self.rest is not None else None,
        )


def unknowns(leak: TableLeakage, table: Table) -> list[Unknown]:
    """The source columns in the table's order, then the target if it counts."""
    every = [_column(leak, table, name) for name in leak.columns]
    if leak.leak.include_target:
        one_number = not leak.classes and leak.fit.y.ndim == 1
        step = step_of(leak.fit.y) if one_number else None
        regression = not leak.classes and step is None and leak.target in table.names
        spread = _spread(table, leak.target) if regression else 1.0
        deviation = leak.target_deviation / (step or 1.0)
        every.append(Unknown(leak.target, "target", deviation, spread, leak.classes or step is not None))
    # A text is no category of its wordings: what the other columns say about it is not computed.
    named = [name for name in (*leak.columns, leak.target) if name not in leak.texts]
    names = [name for name in dict.fromkeys(named) if name in table.names]
    by_the_others = explain_table(table, names, leak.design.nominal - leak.design.binned)
    return [replace(unknown, rest=by_the_others.get(unknown.name)) for unknown in every]


def given_remarks(every: Sequence[Unknown]) -> list[str]:
    """The columns that follow from the others with or without a release."""
    names = [unknown.name for unknown in every if unknown.nearly_given]
    if not names:
        return []
    follow, them = ("follows", "it") if len(names) == 1 else ("follow", "them")
    return [
        f"{safe_list(names)} {follow} from the other columns, or nearly (R² at least {NEARLY:g}): everything else "
        f"gives {them} to within a tenth of the spread without any release. Columns that repeat others raise "
        f"everyone's dose and add little: leave them out ({option('exclude')})"
    ]


def columns(every: Sequence[Unknown], leak: TableLeakage, people: PersonFigures) -> list[ColumnFigures]:
    """Source columns, the most exposed first: by a typical person's guess against one without the release."""
    # A column over all rows costs a product of its own for each column of a softmax model: left out there.
    if isinstance(leak.fit.loss, glm.Softmax) or leak.texts:
        over_all: dict[str, float | None] = dict.fromkeys(leak.columns)
    else:
        over_all = dict(leak.attributes)
    sources = [unknown for unknown in every if unknown.kind != "target"]
    guesses = [(source, source.guess(people)) for source in sources]
    return [
        ColumnFigures(
            column=source.name, kind=source.kind, over_all_rows=over_all[source.name], **source.figures(guess)
        )
        for source, guess in sorted(guesses, key=lambda pair: float(pair[0].share(pair[1].typical)))
    ]


def target(every: Sequence[Unknown], leak: TableLeakage, people: PersonFigures) -> TargetFigures:
    """The target: whether it counts among a row's unknowns, and how closely it can be guessed."""
    figures = next((u.figures(u.guess(people)) for u in every if u.kind == "target"), {})
    return TargetFigures(column=leak.target, kind="target", counted=leak.leak.include_target, **figures)


def worst_cell(every: Sequence[Unknown], table: Table, people: PersonFigures) -> WorstCell | None:
    """Of the most exposed person's unknowns, the one about which the release says most beyond everything else."""
    top = people.top
    best = min(every, key=lambda unknown: float(unknown.share(people.least(unknown.deviation)[top])), default=None)
    if best is None:
        return None
    least, category = people.least(best.deviation), best.kind in BY_ETA
    mine, typical = least[top], median(least)
    return WorstCell(
        row=number_of(table, int(people.first[top])),
        cell_row=number_of(table, people.row_of_least(best.deviation, top)),
        column=best.name,
        kind=best.kind,
        **present(
            eta=_inverse(mine) if category else None,
            typical_eta=_inverse(typical) if category else None,
            deviation=None if category else float(mine),
            typical_deviation=None if category else float(typical),
        ),
        **best.context,
    )


def _column(leak: TableLeakage, table: Table, name: str) -> Unknown:
    if name not in leak.numbers:
        kind = "text" if name in leak.texts else "category"
        with np.errstate(divide="ignore"):
            return Unknown(name, kind, np.asarray(1.0 / leak.cell(name)), 1.0)
    return Unknown(name, "number", leak.deviation(name), _spread(table, name))


def _spread(table: Table, name: str) -> float:
    u = table.observed(name).astype(float)
    size = float(np.abs(u).max(initial=0.0)) or 1.0  # the square of 1e160 has no float64
    return spread_or_one(float(np.mean(u / size)) * size, float(np.std(u / size)) * size)


def spread_or_one(mean: float, deviation: float) -> float:
    """The standard deviation of a column; 1 if it does not vary, where rounding may leave a little.

    >>> spread_or_one(0.1, 1.4e-17), spread_or_one(0.0, 1.4e-17), spread_or_one(0.1, 0.02)
    (1.0, 1.4e-17, 0.02)
    """
    return deviation if deviation > 1e-12 * abs(mean) else 1.0


def _inverse(deviation: Any) -> float:
    return float("inf") if deviation == 0 else float(1.0 / deviation)
