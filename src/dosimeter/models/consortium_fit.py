"""A fit over sites: run by the coordinator, and carried back to each site so that it can read its patients' doses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dosimeter.engines.plausible import PublicBounds
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import Malformed
from dosimeter.engines.sites import SitesEngine
from dosimeter.glm.fitting.block_fit import BlockFit, fit_blocks
from dosimeter.glm.linalg.inverse_hessian import Factor
from dosimeter.models.block_model import BlockModel
from dosimeter.models.consortium_model import Totals
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.declared_bounds import Range

SLACK = 1e-9


def fit_sites(engine: SitesEngine, model: BlockModel, bounds: PublicBounds) -> BlockFit:
    """The minimiser over the rows of all sites."""
    return fit_blocks(
        engine.parts,
        model.loss,
        n=model.n,
        d=len(model.encoding.names),
        l2=model.penalty.l2,
        engine=engine,
        largest=bounds.sizes[:-1],
    )


def totals_values(totals: Totals) -> Values:
    """Totals as they travel."""
    return dict(vars(totals))


def totals_of(values: Mapping[str, Any]) -> Totals:
    """The totals that travelled."""
    names = ("rows", "means", "squares", "target_mean", "target_squares", "several", "changes")
    return Totals(**{name: values[name] for name in names})


def check_totals(schema: ConsortiumSchema, values: Mapping[str, Any]) -> None:
    """Refuse totals that no table within the schema gives."""
    totals = totals_of(values)
    columns = [schema.columns[name] for name in schema.numbers]
    target = schema.columns[schema.target]
    ranges = [(c.lower, c.upper) for c in columns if isinstance(c, Range)]
    ranges.append((target.lower, target.upper) if isinstance(target, Range) else (0.0, 1.0))
    for k, (low, high) in enumerate(ranges):
        moments, slack = totals.column(k), SLACK * (abs(low) + abs(high))
        within = low - slack <= moments.mean <= high + slack
        if not within or not 0 <= moments.squares <= totals.rows * (high - low) ** 2 * (1 + SLACK):
            raise Malformed("a sum that no table within the schema gives")
    if not np.isin(totals.changes, (0.0, 1.0)).all():
        raise Malformed("a flag that is neither 0 nor 1")


def fit_values(fitted: BlockFit, totals: Totals) -> Values:
    """A fit as it travels to the sites: weights, the factor of the Hessian, and the totals."""
    return {
        **totals_values(totals),
        "w": fitted.w,
        "low": np.zeros_like(fitted.w) if fitted.low is None else fitted.low,
        "refined": fitted.low is not None,
        "v": fitted.v,
        **{f"coordinate_{name}": getattr(fitted.coordinates, name) for name in ("basis", "mixing", "condition")},
        **{f"factor_{name}": getattr(fitted.factor, name) for name in ("basis", "mixing", "condition")},
        "gradient_norm": fitted.gradient_norm,
        "decrement": fitted.decrement,
        "iterations": fitted.iterations,
        "reach": fitted.reach,
    }


def fit_of(values: Mapping[str, Any], model: BlockModel) -> BlockFit:
    """The fit that travelled; loss and penalty are those of the site's own schema."""
    strengths = np.full(len(values["w"]), model.penalty.l2)
    strengths[-1] = 0.0
    return BlockFit(
        model.loss,
        strengths,
        True,
        values["w"],
        values["low"] if values["refined"] else None,
        Factor(values["coordinate_basis"], values["coordinate_mixing"], values["coordinate_condition"]),
        values["v"],
        Factor(values["factor_basis"], values["factor_mixing"], values["factor_condition"]),
        model.n,
        values["gradient_norm"],
        values["decrement"],
        values["iterations"],
        values["reach"],
    )
