"""What a site answers in a joint fit: sums of its rows, and its own patients' doses from the fit that travelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dosimeter.core.accounts import PersonDoses
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import Dose
from dosimeter.core.noise import Density
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED, rung, rung_above
from dosimeter.engines.consortium_operations import BOOK, FITTED, LIMITS, MOMENTS, SCALE, SCORE
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import pack
from dosimeter.engines.site_sums import SUMS, SumOperation, factor_of
from dosimeter.glm.blocks.block_scores import score_terms
from dosimeter.glm.losses.loss import LOSSES
from dosimeter.models.consortium_fit import fit_of, totals_of, totals_values
from dosimeter.models.consortium_model import LAWS, consortium_model
from dosimeter.models.site_booking import SiteBooking, recipe_of
from dosimeter.models.site_exposure import REACH, beyond_rounding, sums_rest_on_few
from dosimeter.models.site_memory import Declined
from dosimeter.models.site_table import SiteTable, check_dose_units
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.weight_folding import model_inputs

Handler = Callable[[Values, SiteTable], Values]
ROUNDING = 4
"""Rungs above the computed one that are tried."""


@dataclass(frozen=True)
class SiteModel:
    """The answers of a joint fit."""

    schema: ConsortiumSchema
    books: SiteBooking

    @property
    def handlers(self) -> dict[str, Handler]:
        """The answer to each operation."""
        return {
            **{name: partial(self._sum, chosen=chosen) for name, chosen in SUMS.items()},
            MOMENTS.name: lambda values, table: totals_values(table.totals),
            SCALE.name: self._scale,
            LIMITS.name: self._limits,
            SCORE.name: self._score,
            BOOK.name: self._book,
        }

    def summed(self, table: SiteTable) -> FloatArray:
        """(n, p + 1) what is summed over: encoded columns, intercept and target."""
        X, y, _ = table.block
        return np.column_stack([X, np.ones(len(X)), y])

    def _sum(self, values: Values, table: SiteTable, chosen: SumOperation) -> Values:
        loss, (X, y, _) = LOSSES[self.schema.loss](), table.block
        _refuse_out_of_range(values)
        if "v" in values:
            margins = factor_of(values).rows(X, values["v"][:, None])[:, 0]
            if sums_rest_on_few(loss, margins, y, table.people_of_rows):
                self.books.memory.refuse_exposed()
        return chosen.run(table.block, values, loss)

    def doses(self, values: Values, table: SiteTable, scale: float) -> dict[Any, float]:
        """η of each of the site's patients, with noise of this scale on the weights."""
        totals = totals_of(values)
        check_dose_units(totals, table.totals)
        model = consortium_model(self.schema, totals, self._law(scale))
        return dict(model.leakage(fit_of(values, model), table.table).persons)

    def _scale(self, values: Values, table: SiteTable) -> Values:
        limit = self.schema.release.max_dose
        if limit is None:
            raise Declined("the schema has a public scale")
        self._admit(SCALE.name, values)
        k = rung_above(max(highest_of(self.doses(values, table, 1.0)) / limit, 1e-140))
        for further in range(ROUNDING):  # a dose at a scale is rounded
            if highest_of(self.doses(values, table, rung(k + further))) <= limit:
                return {"rung": k + further}
        raise Declined("no noise brings the doses of this fit within the limit")

    def _limits(self, values: Values, table: SiteTable) -> Values:
        scale, release = float(values["scale"]), self.schema.release
        if scale != (rung(rung_above(scale)) if release.scale is None else release.scale):
            raise Declined("another noise scale than the schema's, or none of the public ladder")
        if bool(values["chosen"]) != (release.scale is None):
            raise Declined("another answer than the schema's to whether the noise was chosen from the data")
        self._admit(LIMITS.name, values, scale)
        doses = self.doses(values, table, scale)
        if release.max_dose is not None and highest_of(doses) > release.max_dose:
            self.books.say("a patient would exceed the agreed max-dose at this noise: answered no")
            return {"within": False}
        facts = {
            "scale": scale,
            "chosen": bool(values["chosen"]),
            "ids": list(doses),
            "doses": [dose.hex() for dose in doses.values()],
        }
        return {"within": self.books.within(values["proposal"], facts, fisher_doses)}

    def _book(self, values: Values, table: SiteTable) -> Values:
        """Book the release, if its recipe has the noise that this site agreed to."""
        scale = self.books.pending(values["proposal"])["scale"]
        if recipe_of(values["recipe"]).noise != str(self._law(scale)):
            raise Declined("a recipe with another noise than this site agreed to")
        return self.books.book(values, fisher_doses)

    def _law(self, scale: float) -> Density:
        return LAWS[self.schema.release.noise](scale)  # type: ignore[call-arg]

    def _admit(self, operation: str, values: Values, scale: float = 1.0) -> None:
        fit = pack(FITTED, {name: values[name] for name in FITTED}, self.schema.sizes)
        self.books.memory.admit_fit(operation, fit + scale.hex().encode())

    def _score(self, values: Values, table: SiteTable) -> Values:
        loss, y = LOSSES[self.schema.loss](), table.block[1]
        self.books.memory.admit_fit(SCORE.name, pack(SCORE.question, values, self.schema.sizes))
        m = model_inputs(table.encoder.encoding, table.table) @ values["coef"] + values["intercept"]
        if sums_rest_on_few(loss, m, y, table.people_of_rows):
            self.books.memory.refuse_exposed()
        part, whole = score_terms(loss, m, y, values["mean"])
        return {"part": min(float(part), 1e300), "whole": float(whole)}


def _refuse_out_of_range(values: Values) -> None:
    """Refuse coordinates and weights at which sums overflow or vanish; it depends on the question alone."""
    coordinates = [values[name] for name in ("basis", "mixing", "T") if name in values]
    points = [values[name] for name in ("v", "high", "low") if name in values]
    beyond = any(map(beyond_rounding, coordinates)) or any(np.abs(point).max() > REACH for point in points)
    if beyond or ("basis" in values and beyond_rounding(factor_of(values).matrix)):
        raise Declined("coordinates at which sums overflow or vanish")


def highest_of(doses: dict[Any, float]) -> float:
    """The dose of the most exposed patient; declined if one is no number."""
    highest = float(np.max(list(doses.values())))
    if not np.isfinite(highest):
        raise Declined("a fit at which a dose is no number")
    return highest


def fisher_doses(pending: dict[str, Any]) -> tuple[PersonDoses, ...]:
    """η of each patient, as this site agreed to it."""
    not_covered = (SCALE_NOT_COVERED,) if pending["chosen"] else ()
    dose = Dose.of_figures(
        FISHER,
        "person",
        tuple(pending["ids"]),
        np.array([float.fromhex(dose) for dose in pending["doses"]]),
        standing=Standing.UNACCOUNTED if not_covered else Standing.EXACT,
        measured_in="standard deviations",
        not_covered=not_covered,
    )
    return (dose,)
