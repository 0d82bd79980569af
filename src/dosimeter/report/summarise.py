"""The facts of one measurement as a plain dict; every statistic in it is computed from the data and is internal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter import __version__
from dosimeter.frames.leakage import TableLeakage
from dosimeter.frames.table import Table
from dosimeter.report.groups import group_remarks
from dosimeter.report.groups import groups as group_figures
from dosimeter.report.people import People
from dosimeter.report.people import number_of as number_of
from dosimeter.report.unknowns import columns, meaning, target, unknowns

SCHEMA = "dosimeter.measurement/1"
TARGETS = (0.1, 1.0, 10.0)
"""Highest doses for which an exact release is told the noise it would need."""
UNKNOWNS = {
    True: "the target is counted among a row's unknowns",
    False: "the target is taken as known (--no-label; Python: label=False)",
}


def summarise(
    leak: TableLeakage, table: Table, *, limit: float | None = None, groups: Sequence[str] = ()
) -> dict[str, Any]:
    """Doses, what they mean in a column's unit, groups, columns, verdict; `table` holds the measured rows.

    groups: columns whose groups are compared besides those of the model.
    """
    people = People.of(leak)
    bounded = leak.leak.bounded
    found = unknowns(leak, table) if bounded else []
    compared = group_figures(leak, table, people, groups)
    dose: dict[str, Any] = _quantiles(people, table)
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "version": __version__,
        "internal": True,
        "notion": {"name": "Fisher information loss", "symbol": "η", "measured_in": leak.measured_in},
        "standing": leak.standing.value,
        "attacker": "knows everything else in the table and guesses without bias",
        "noise": str(leak.noise),
        "bounded": bounded,
        "model": _model(leak),
        "people": len(people.eta),
        "rows": leak.leak.n,
        "unknowns": UNKNOWNS[leak.leak.label],
        "unit": "row" if leak.ids is None else "person",
        "rows_counted": "from 1, the header not counted",
        "dose": dose if bounded else _unbounded(dose),
        "meaning": meaning(found, table, people),
        "groups": compared,
        "columns": columns(found, leak, people) if bounded else [],
        "target": target(found, leak, people),
        "not_covered": list(leak.uncovered),
        "remarks": [*leak.remarks, *group_remarks(compared, groups)],
    }
    if not bounded:
        facts["noise_needed"] = [{"highest": t, "scale": leak.scale_for(t)} for t in TARGETS]
    if limit is not None:
        above = len(people.eta) if not bounded else int((people.eta > limit).sum())
        facts["verdict"] = {"limit": limit, "above": above, "within": above == 0}
    return facts


def _quantiles(people: People, table: Table) -> dict[str, Any]:
    top = people.top
    return {
        "typical": float(np.median(people.eta)),
        "worst_1_percent": float(np.quantile(people.eta, 0.99)),
        "highest": float(people.eta[top]),
        "highest_row": number_of(table, int(people.first[top])),
    }


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
