"""The facts of one measurement as a plain dict; every statistic in it is computed from the data and is internal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.core.progress import stage
from dosimeter.core.version import __version__
from dosimeter.models.accuracy_frontier import frontier
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.distribution import distribution
from dosimeter.results.exposure import strip
from dosimeter.results.groups import group_remarks
from dosimeter.results.groups import groups as group_figures
from dosimeter.results.people import PersonFigures, ranked
from dosimeter.results.people import number_of as number_of
from dosimeter.results.unknowns import columns, given_remarks, meaning, target, unknowns
from dosimeter.tables.table import Table

SCHEMA = "dosimeter.measurement/2"
NOTION = {"name": "Fisher information loss", "symbol": "η"}
ATTACKER = "knows everything else in the table and guesses without bias"
ASSUMED = (
    "a guess without bias: somebody who accepts bias, or knows more of a person than the table holds, may do better",
    "the noise is fresh, is drawn by the operating system and stays secret",
    "names and kinds of columns, which of them vary, and the levels of categories, are taken as public: they stand in "
    "the model",
    "other releases about the same people add to the dose: their η² add up",
)
TARGETS = (0.1, 0.3, 1.0)
"""Highest doses for which an exact release is told the noise it would need."""
UNKNOWNS = {
    True: "the target is counted among a row's unknowns",
    False: "the target is taken as known (--no-label; Python: label=False)",
}


def summarise(
    leak: TableLeakage,
    table: Table,
    *,
    limit: float | None = None,
    groups: Sequence[str] = (),
    own: bool = True,
    show_ids: bool = False,
) -> dict[str, Any]:
    """Doses, what they mean in a column's unit, groups, columns, verdict; `table` holds the measured rows.

    groups: columns whose groups are compared besides those of the model. own: the model was fitted here, so that more
    noise and less can be tried on it. show_ids: the most exposed go by their ids.
    """
    stage("measuring every row")
    people = PersonFigures.of(leak)
    stage("measuring every column")
    bounded = leak.leak.bounded
    found = unknowns(leak, table) if bounded else []
    compared = group_figures(leak, table, people, groups)
    dose: dict[str, Any] = _quantiles(people, table)
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "version": __version__,
        "internal": True,
        "notion": {**NOTION, "measured_in": leak.measured_in},
        "standing": leak.standing.value,
        "attacker": ATTACKER,
        "noise": str(leak.noise),
        "bounded": bounded,
        "model": {**_model(leak), "fitted_here": own},
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
        "distribution": doses_of(people, "row" if leak.ids is None else "person", limit, relative=not bounded),
        "ranked": ranked(people, table.rows, relative=not bounded, ids=leak.ids if show_ids else None),
        "strip": strip(found, people, table, ids=leak.ids if show_ids else None),
        "not_covered": list(leak.uncovered),
        "assumptions": [*ASSUMED, *leak.assumed],
        "remarks": [*leak.remarks, *given_remarks(found), *group_remarks(compared, groups)],
        "scaler": None if leak.floor is None else scaler_facts(leak.scaler, float(leak.left.max())),
    }
    if not bounded:
        asked = sorted({*TARGETS, *(() if limit is None else (limit,))})
        needed = [(t, leak.scale_for(t)) for t in asked]
        # Below what a fitted scaler leaves no scale helps; the remark about it says so.
        facts["noise_needed"] = [{"highest": t, "scale": s} for t, s in needed if np.isfinite(s)]
    if own:
        facts["frontier"] = _frontier(leak)
    if limit is not None:
        # A scaler that is held fixed leaves its own part all the same: no limit below that is kept.
        counted = np.maximum(people.eta, leak.left)
        above = len(people.eta) if not bounded else int((counted > limit).sum())
        facts["verdict"] = {"limit": limit, "above": above, "within": above == 0}
    return facts


def scaler_facts(scaler: str, floor: float) -> dict[str, Any] | None:
    """How the figures treat a scaler fitted on the table, and what it leaves at any noise; None where none was."""
    return {"figures": scaler, "floor": floor} if floor > 0 else None


def doses_of(people: PersonFigures, unit: str, limit: float | None, *, relative: bool = False) -> dict[str, Any]:
    """The spread of the doses; of an exact release, which has none, of their multiples of the typical one."""
    if not relative:
        return distribution(people.eta, of="η", unit=unit, limit=limit)
    typical = float(np.median(people.eta)) or 1.0
    return distribution(people.eta / typical, of="η over the typical", unit=unit)


def _frontier(leak: TableLeakage) -> dict[str, Any] | None:
    if not leak.leak.bounded:
        return frontier(leak)
    return frontier(leak, type(leak.noise), here=leak.noise.scale)


def _quantiles(people: PersonFigures, table: Table) -> dict[str, Any]:
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
