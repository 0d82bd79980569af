"""The facts of one measurement as a plain dict; every statistic in it is computed from the data and is internal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter import __version__
from dosimeter.core.notion import FloatArray
from dosimeter.frames.leakage import TableLeakage
from dosimeter.frames.table import Table

SCHEMA = "dosimeter.measurement/1"
TARGETS = (0.1, 1.0, 10.0)
"""Highest doses for which an exact release is told the noise it would need."""
SMALLEST = 10
"""Groups below this many people are not shown: their median is nearly one person's figure."""


@dataclass(frozen=True, eq=False)
class _People:
    """One row per person: their figure and where they first stand in the table."""

    eta: FloatArray
    first: Any


def summarise(
    leak: TableLeakage, table: Table, *, limit: float | None = None, groups: Sequence[str] = ()
) -> dict[str, Any]:
    """Doses, what they mean in a column's unit, groups, columns, verdict; `table` holds the measured rows.

    groups: columns whose groups are compared besides those of the model.
    """
    people = _people(leak)
    dose: dict[str, Any] = _quantiles(people, table)
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "version": __version__,
        "internal": True,
        "notion": {"name": "Fisher information loss", "symbol": "η", "measured_in": leak.measured_in},
        "standing": leak.standing.value,
        "attacker": "knows everything else in the table and guesses without bias",
        "noise": str(leak.noise),
        "bounded": leak.leak.bounded,
        "model": _model(leak),
        "people": len(people.eta),
        "rows": leak.leak.n,
        "unit": "row" if leak.ids is None else "person",
        "rows_counted": "from 1, the header not counted",
        "dose": dose if leak.leak.bounded else _unbounded(dose),
        "meaning": _meaning(leak, table, people),
        "groups": _groups(leak, table, people, groups),
        "columns": _columns(leak, table),
        "not_covered": list(leak.uncovered),
        "remarks": list(leak.remarks),
    }
    if not leak.leak.bounded:
        facts["noise_needed"] = [{"highest": t, "scale": leak.scale_for(t)} for t in TARGETS]
    if limit is not None:
        above = len(people.eta) if not leak.leak.bounded else int((people.eta > limit).sum())
        facts["verdict"] = {"limit": limit, "above": above, "within": above == 0}
    return facts


def _people(leak: TableLeakage) -> _People:
    if leak.ids is None:
        return _People(leak.relative, np.arange(leak.leak.n))
    first: dict[Any, int] = {}
    for row, who in enumerate(leak.ids):
        first.setdefault(who, row)
    return _People(leak.relative, np.array(list(first.values())))


def _quantiles(people: _People, table: Table) -> dict[str, Any]:
    top = int(np.argmax(people.eta))
    return {
        "typical": float(np.median(people.eta)),
        "worst_1_percent": float(np.quantile(people.eta, 0.99)),
        "highest": float(people.eta[top]),
        "highest_row": number_of(table, int(people.first[top])),
    }


def number_of(table: Table, position: int) -> int:
    """The number of a row in its file, from 1: the header not counted, rows left out for missing values counted."""
    return int(table.rows[position]) + 1


def _unbounded(dose: dict[str, Any]) -> dict[str, Any]:
    ratio = dose["highest"] / dose["typical"] if dose["typical"] > 0 else float("inf")
    spread = {"highest_over_typical": ratio, "highest_row": dose["highest_row"]}
    return {"typical": float("inf"), "worst_1_percent": float("inf"), "highest": float("inf"), **spread}


def _model(leak: TableLeakage) -> dict[str, Any]:
    fit = leak.fit
    return {
        "loss": fit.loss.name,
        "l2": fit.l2,
        "parameters": int(fit.w.size),
        "intercept": fit.intercept,
        "gradient_norm": fit.gradient_norm,
        "condition": fit.condition,
        "target": leak.target,
    }


def _spread(table: Table, name: str) -> float:
    return float(np.std(table[name].astype(float)))


def _meaning(leak: TableLeakage, table: Table, people: _People) -> dict[str, Any] | None:
    """The number of the most exposed person that is pinned best, against its own spread; and a typical person's."""
    numbers = leak.numbers
    if not numbers or not leak.leak.bounded:
        return None
    row = int(people.first[int(np.argmax(people.eta))])
    deviations = {name: leak.deviation(name) for name in numbers}
    closest = min(numbers, key=lambda name: deviations[name][row] / (_spread(table, name) or 1.0))
    return {
        "row": number_of(table, row),
        "column": closest,
        "deviation": float(deviations[closest][row]),
        "typical_deviation": float(np.median(deviations[closest])),
        "spread": _spread(table, closest),
    }


def _columns(leak: TableLeakage, table: Table) -> list[dict[str, Any]]:
    """Source columns, the most exposed first: by the typical cell against the column's spread."""
    if not leak.leak.bounded:
        return []
    over_all, out = leak.attributes, []
    for name in leak.columns:
        entry: dict[str, Any] = {"column": name, "kind": "nominal", "over_all_rows": over_all[name]}
        if name in leak.numbers:
            deviation, spread = leak.deviation(name), _spread(table, name)
            entry |= {
                "kind": "number",
                "typical_deviation": float(np.median(deviation)),
                "least_deviation": float(np.min(deviation)),
                "spread": spread,
            }
            order = float(np.median(deviation)) / (spread or 1.0)
        else:
            typical = float(np.median(leak.cell(name)))
            entry |= {"typical": typical, "highest": float(np.max(leak.cell(name)))}
            order = 1 / typical if typical > 0 else float("inf")
        out.append((order, entry))
    return [entry for _, entry in sorted(out, key=lambda pair: pair[0])]


def _groups(leak: TableLeakage, table: Table, people: _People, extra: Sequence[str]) -> list[dict[str, Any]]:
    """Groups of people by one column, the median figure of each over the median of all, largest first."""
    median = float(np.median(people.eta))
    if median <= 0:
        return []
    out = []
    for name in dict.fromkeys([*extra, *(c for c in leak.columns if c in table.names)]):
        for label, member in _parts(table, name, people.first):
            size = int(member.sum())
            if SMALLEST <= size <= len(member) - SMALLEST:
                ratio = float(np.median(people.eta[member])) / median
                out.append({"column": name, "group": label, "people": size, "over_median": ratio})
    return sorted(out, key=lambda g: -g["over_median"])


def _parts(table: Table, name: str, first: Any) -> list[tuple[str, Any]]:
    """(label, members): each level of a label; of a number the lowest and the highest tenth."""
    values = table[name][first]
    levels = np.unique(values) if values.dtype.kind != "O" else np.array(sorted(set(values)), dtype=object)
    if values.dtype.kind == "O" or len(levels) <= 6:
        text = values.dtype.kind == "O"
        return [(f"= {level}" if text else f"= {float(level):g}", values == level) for level in levels[:50]]
    low, high = np.quantile(values.astype(float), [0.1, 0.9])
    return [(f"<= {low:.4g}", values <= low), (f">= {high:.4g}", values >= high)]
