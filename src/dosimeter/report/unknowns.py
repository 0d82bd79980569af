"""What is unknown of a person, column by column and the target: how closely it can be guessed, and which leaks most.

Numbers and targets read as 1/η in their own unit. A column of labels, or of two values, is a category: a guess of it is
a choice, not an amount, so it reads as η of the step from one value to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.notion import FloatArray
from dosimeter.frames.leakage import TableLeakage
from dosimeter.frames.table import Table
from dosimeter.report.people import People, number_of


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
    """A target that is a class."""

    def facts(self, people: People) -> dict[str, Any]:
        """Typical and most exposed, each person counted by their best pinned row."""
        least = people.least(self.deviation)
        if self.kind == "category":
            return {"typical": _inverse(np.median(least)), "highest": _inverse(least.min())}
        spread = {"step": 1.0} if self.classes else {"spread": self.spread}
        return {"typical_deviation": float(np.median(least)), "least_deviation": float(least.min()), **spread}


def unknowns(leak: TableLeakage, table: Table) -> list[Unknown]:
    """The source columns in the table's order, then the target where it counts."""
    found = [_column(leak, table, name) for name in leak.columns]
    if leak.leak.label:
        regression = not leak.classes and leak.target in table.names
        spread = _spread(table, leak.target) if regression else 1.0
        found.append(Unknown(leak.target, "target", leak.target_deviation, spread, leak.classes))
    return found


def columns(found: list[Unknown], leak: TableLeakage, people: People) -> list[dict[str, Any]]:
    """Source columns, the most exposed first: by a typical person's guess against the column's spread."""
    # A column over all rows costs a product of its own for each column of a softmax model: left out there.
    over_all = dict.fromkeys(leak.columns) if leak.fit.loss.name == "softmax" else leak.attributes
    sources = [u for u in found if u.kind != "target"]
    order = sorted(sources, key=lambda u: float(np.median(people.least(u.deviation))) / u.spread)
    return [{"column": u.name, "kind": u.kind, "over_all_rows": over_all[u.name], **u.facts(people)} for u in order]


def target(found: list[Unknown], leak: TableLeakage, people: People) -> dict[str, Any]:
    """The target: whether it counts among a row's unknowns, and how closely it can be guessed."""
    facts: dict[str, Any] = {"column": leak.target, "kind": "target", "counted": leak.leak.label}
    return facts | next((u.facts(people) for u in found if u.kind == "target"), {})


def meaning(found: list[Unknown], table: Table, people: People) -> dict[str, Any] | None:
    """The unknown that makes the highest dose: of the most exposed person's, the one that is guessed best."""
    top = people.top
    best = min(found, key=lambda u: people.least(u.deviation)[top] / u.spread, default=None)
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
        return facts | {"eta": _inverse(least[top]), "typical_eta": _inverse(np.median(least))}
    spread = {"step": 1.0} if best.classes else {"spread": best.spread}
    return facts | {"deviation": float(least[top]), "typical_deviation": float(np.median(least)), **spread}


def _column(leak: TableLeakage, table: Table, name: str) -> Unknown:
    if name not in leak.numbers:
        with np.errstate(divide="ignore"):
            return Unknown(name, "category", np.asarray(1.0 / leak.cell(name)), 1.0)
    deviation = leak.deviation(name)
    values = np.unique(table.observed(name).astype(float))
    if len(values) == 2:
        return Unknown(name, "category", deviation / float(values[1] - values[0]), 1.0)
    return Unknown(name, "number", deviation, _spread(table, name))


def _spread(table: Table, name: str) -> float:
    return float(np.std(table.observed(name).astype(float))) or 1.0


def _inverse(deviation: Any) -> float:
    return float("inf") if deviation == 0 else float(1.0 / deviation)
