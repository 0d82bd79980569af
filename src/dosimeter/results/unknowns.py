"""What is unknown of a person, column by column and the target: how closely it can be guessed, and which leaks most.

Numbers and targets read as 1/η in their own unit, beside what everything else in the table gives without any release:
its residual standard deviation, and R². A column that follows from the others is no showcase of a release. A column of
labels, or of two values, is a category: a guess of it is a choice, not an amount, so it reads as η of the step from one
value to another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.category import step_of
from dosimeter.core.text import safe_list
from dosimeter.glm.column_prediction import Rest
from dosimeter.models.column_control import NEARLY, rest
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.people import PersonFigures, number_of
from dosimeter.tables.table import Table


@dataclass(frozen=True, eq=False)
class Unknown:
    """One column, or the target."""

    name: str
    kind: str
    """'number', 'category' or 'target'."""
    deviation: FloatArray
    """(n,) least standard deviation of an unbiased guess; of a category's step as a number."""
    spread: float
    """The column's standard deviation; 1 for categories and classes, the step between two of them."""
    classes: bool = False
    """A target that is a class, or has two values: read by its step."""
    rest: Rest | None = None
    """How far the other columns give it away without any release; None where the rows are too few to say."""

    @property
    def control(self) -> float:
        """Standard deviation of a least-squares guess from everything else, without the release."""
        return self.spread * (1.0 if self.rest is None else self.rest.left)

    @property
    def nearly_given(self) -> bool:
        """Whether it is a function of the other columns, or nearly."""
        return self.rest is not None and self.rest.r2 >= NEARLY

    def share(self, deviation: Any) -> Any:
        """An error over that of a guess without the release; infinite for what everything else gives exactly."""
        return deviation / self.control if self.control > 0 else np.inf

    def facts(self, people: PersonFigures) -> dict[str, Any]:
        """Typical and most exposed, each person counted by their best pinned row."""
        least = people.least(self.deviation)
        if self.kind == "category":
            return {"typical": _inverse(np.median(least)), "highest": _inverse(least.min()), **self.given}
        figures = {"typical_deviation": float(np.median(least)), "least_deviation": float(least.min())}
        return {**figures, **self.measures, **self.given}

    @property
    def measures(self) -> dict[str, float]:
        """The spread, or the step between two classes."""
        return {"step": 1.0} if self.classes else {"spread": self.spread}

    @property
    def given(self) -> dict[str, Any]:
        """What everything else says of it."""
        if self.rest is None:
            return {}
        facts = {"r2": self.rest.r2, "nearly_given": self.nearly_given}
        return facts if self.kind == "category" or self.classes else {**facts, "without_release": self.control}


def unknowns(leak: TableLeakage, table: Table) -> list[Unknown]:
    """The source columns in the table's order, then the target where it counts."""
    found = [_column(leak, table, name) for name in leak.columns]
    if leak.leak.label:
        step = step_of(leak.fit.y) if not leak.classes else None
        regression = not leak.classes and step is None and leak.target in table.names
        spread = _spread(table, leak.target) if regression else 1.0
        deviation = leak.target_deviation / (step or 1.0)
        found.append(Unknown(leak.target, "target", deviation, spread, leak.classes or step is not None))
    known = [name for name in dict.fromkeys((*leak.columns, leak.target)) if name in table.names]
    given = rest(table, known, leak.design.nominal)
    return [replace(one, rest=given.get(one.name)) for one in found]


def given_remarks(found: list[Unknown]) -> list[str]:
    """The columns that the others give away with or without a release."""
    names = [u.name for u in found if u.nearly_given]
    if not names:
        return []
    follow, them = ("follows", "it") if len(names) == 1 else ("follow", "them")
    return [
        f"{safe_list(names)} {follow} from the other columns, or nearly (R² at least {NEARLY:g}): everything else "
        f"gives {them} to within a tenth of the spread without any release. Columns that repeat others raise "
        "everybody's dose and add little: leave them out (--drop)"
    ]


def columns(found: list[Unknown], leak: TableLeakage, people: PersonFigures) -> list[dict[str, Any]]:
    """Source columns, the most exposed first: by a typical person's guess against one without the release."""
    # A column over all rows costs a product of its own for each column of a softmax model: left out there.
    over_all = dict.fromkeys(leak.columns) if leak.fit.loss.name == "softmax" else leak.attributes
    sources = [u for u in found if u.kind != "target"]
    order = sorted(sources, key=lambda u: float(u.share(np.median(people.least(u.deviation)))))
    return [{"column": u.name, "kind": u.kind, "over_all_rows": over_all[u.name], **u.facts(people)} for u in order]


def target(found: list[Unknown], leak: TableLeakage, people: PersonFigures) -> dict[str, Any]:
    """The target: whether it counts among a row's unknowns, and how closely it can be guessed."""
    facts: dict[str, Any] = {"column": leak.target, "kind": "target", "counted": leak.leak.label}
    return facts | next((u.facts(people) for u in found if u.kind == "target"), {})


def meaning(found: list[Unknown], table: Table, people: PersonFigures) -> dict[str, Any] | None:
    """Of the most exposed person's unknowns the one about which the release says most beyond everything else."""
    top = people.top
    best = min(found, key=lambda u: float(u.share(people.least(u.deviation)[top])), default=None)
    if best is None:
        return None
    least = people.least(best.deviation)
    facts = {
        "row": number_of(table, int(people.first[top])),
        "cell_row": number_of(table, people.row_of_least(best.deviation, top)),
        "column": best.name,
        "kind": best.kind,
    }
    if best.kind == "category":
        return facts | {"eta": _inverse(least[top]), "typical_eta": _inverse(np.median(least)), **best.given}
    figures = {"deviation": float(least[top]), "typical_deviation": float(np.median(least))}
    return facts | figures | best.measures | best.given


def _column(leak: TableLeakage, table: Table, name: str) -> Unknown:
    if name not in leak.numbers:
        with np.errstate(divide="ignore"):
            return Unknown(name, "category", np.asarray(1.0 / leak.cell(name)), 1.0)
    return Unknown(name, "number", leak.deviation(name), _spread(table, name))


def _spread(table: Table, name: str) -> float:
    return float(np.std(table.observed(name).astype(float))) or 1.0


def _inverse(deviation: Any) -> float:
    return float("inf") if deviation == 0 else float(1.0 / deviation)
