"""The facts of one repair as a plain dict: what leaves, what it gives away, what it cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Gaussian
from dosimeter.core.notion import Standing
from dosimeter.core.progress import stage
from dosimeter.core.scale_ladder import CHOSEN
from dosimeter.core.version import __version__
from dosimeter.models.accuracy_frontier import frontier
from dosimeter.models.fit_table import penalty_remark
from dosimeter.models.fitted_scaler import floor_remark
from dosimeter.models.linear_release import TableRelease
from dosimeter.results.exposure import strip
from dosimeter.results.groups import groups
from dosimeter.results.people import PersonFigures, ranked
from dosimeter.results.summarise import ASSUMED, ATTACKER, NOTION, doses_of, scaler_facts
from dosimeter.results.unknowns import unknowns
from dosimeter.tables.table import Table

SCHEMA = "dosimeter.repair/2"


def repaired(done: TableRelease, table: Table, limit: float | None, within: bool) -> dict[str, Any]:
    """What the released weights give away, and what the repair cost; `table` holds the rows that were fitted."""
    stage("summing up")
    before, doses, plan = done.before.relative, done.doses, done.plan
    people = PersonFigures.named(doses, done.ready.ids)
    unit = "row" if done.ready.ids is None else "person"
    settings = dict(plan.settings)
    after = replace(done.before, leak=plan.leakage, fit=plan.fit)
    return {
        "schema": SCHEMA,
        "version": __version__,
        "internal": True,
        "notion": {**NOTION, "measured_in": "standard deviations"},
        "standing": (Standing.UNACCOUNTED if done.uncovered else Standing.EXACT).value,
        "attacker": ATTACKER,
        "measured_in": "standard deviations",
        "model": {
            "loss": done.ready.loss.name,
            "target": done.ready.target,
            "n": len(done.ready.y),
            **settings,
            "l2_from": done.penalty.source,
        },
        "law": _law(done).__name__,
        "noise": plan.described,
        "noise_on": done.noise_on,
        "scale_from": "the data" if CHOSEN in plan.uncovered else "stated",
        "people": len(doses),
        "unit": unit,
        "dose": {
            "before": "unbounded",
            "spread_before": _over_typical(before),
            "highest": float(doses.max()),
            "typical": float(np.median(doses)),
            "spread_after": _over_typical(doses),
        },
        "score": {"name": done.score_name, "before": done.score_before, "after": done.score_after},
        "choice": _choice(done),
        "held_out": _held_out(done, limit),
        "limit": limit,
        "within": within,
        "useless": False,
        "scaler": scaler_facts(done.ready.scaler, plan.floor),
        "distribution": doses_of(people, unit, limit),
        "ranked": ranked(people, table.rows),
        "groups": groups(after, table, people, ()),
        "strip": strip(unknowns(after, table), people, table),
        "frontier": frontier(done.before, _law(done), here=float(settings["scale"] or 0.0), here_on=_curve(done)),
        "not_covered": list(done.uncovered),
        "assumptions": [*ASSUMED, *done.ready.assumed],
        "remarks": [*done.ready.remarks, penalty_remark(done.penalty), *_floor(done, unit)],
        "booked": False,
    }


def _choice(done: TableRelease) -> dict[str, Any]:
    """The kind of noise, and what each kind would have cost where it was chosen here."""
    if done.choice is None:
        return {"kind": done.kind, "prices": {}, "left_out": {}}
    return {"kind": done.kind, "prices": dict(done.choice.prices), "left_out": dict(done.choice.left_out)}


def _held_out(done: TableRelease, limit: float | None) -> dict[str, Any]:
    """Scores on people left out."""
    found = done.useful
    here = limit if limit is not None and CHOSEN in done.plan.uncovered else done.plan.highest
    steps = [{"limit": s.limit, "scale": s.scale, "score": s.score, "why": s.why} for s in found.steps]
    facts = {"name": found.name, "base": found.base, "without_noise": found.without_noise, "score": found.score}
    return {**facts, "folds": found.folds, "worse": found.worse, "limit": here, "steps": steps, "why": found.why}


def _floor(done: TableRelease, unit: str) -> list[str]:
    """What a fitted scaler leaves at any scale of this very noise."""
    ready, left = done.ready, done.plan.floor
    return [floor_remark(ready.design, left, ready.scaler, unit)] if left > 0 else []


def _law(done: TableRelease) -> Any:
    noise = done.plan.noise
    return Gaussian if isinstance(noise, CorrelatedGaussian) else type(noise)


def _curve(done: TableRelease) -> str:
    """Which curve of the frontier this release lies on; a reweighted fit is another model and lies on none."""
    if done.plan.reweighting is not None:
        return ""
    return "shaped" if isinstance(done.plan.noise, CorrelatedGaussian) else "isotropic"


def _over_typical(doses: Any) -> float:
    typical = float(np.median(doses))
    return float(doses.max()) / typical if typical > 0 else float("inf")
