"""What a site answers in a joint fit: sums of its rows, and its own patients' doses from the fit that travelled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dosimeter.core.accounts import PersonDoses
from dosimeter.core.dose import Dose
from dosimeter.core.notion import FISHER, Standing
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED, rung, rung_above
from dosimeter.engines.consortium_operations import BOOK, LIMITS, MOMENTS, SCALE, SCORE
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.site_sums import SUMS, SumOperation
from dosimeter.glm.block_scores import score_terms
from dosimeter.glm.loss import LOSSES
from dosimeter.models.consortium_fit import fit_of, totals_of, totals_values
from dosimeter.models.consortium_model import LAWS, consortium_model
from dosimeter.models.site_booking import Declined, SiteBooking
from dosimeter.models.site_table import SiteTable, check_dose_units
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.weight_folding import model_inputs

Handler = Callable[[Values, SiteTable], Values]


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
            BOOK.name: lambda values, table: self.books.book(values, fisher_doses),
        }

    def _sum(self, values: Values, table: SiteTable, chosen: SumOperation) -> Values:
        return chosen.run(table.block, values, LOSSES[self.schema.loss]())

    def doses(self, values: Values, table: SiteTable, scale: float) -> dict[Any, float]:
        """η of each of the site's patients, with noise of this scale on the weights."""
        totals = totals_of(values)
        check_dose_units(totals, table.totals)
        model = consortium_model(self.schema, totals, LAWS[self.schema.release.noise](scale))  # type: ignore[call-arg]
        return dict(model.leakage(fit_of(values, model), table.table).persons)

    def _scale(self, values: Values, table: SiteTable) -> Values:
        limit = self.schema.release.max_dose
        if limit is None:
            raise Declined("the schema has a public scale")
        highest = max(self.doses(values, table, 1.0).values())
        k = rung_above(max(highest / limit, 1e-140))
        while max(self.doses(values, table, rung(k)).values()) > limit:
            k += 1
        return {"rung": k}

    def _limits(self, values: Values, table: SiteTable) -> Values:
        scale, release = float(values["scale"]), self.schema.release
        doses = self.doses(values, table, scale)
        highest = max(doses.values())
        if release.scale is not None and scale != release.scale:
            raise Declined("another noise scale than the schema's")
        if release.max_dose is not None and highest > release.max_dose:
            self.books.say("a patient would exceed the agreed max-dose at this noise: answered no")
            return {"within": False}
        facts = {
            "scale": scale,
            "chosen": bool(values["chosen"]),
            "ids": list(doses),
            "doses": [dose.hex() for dose in doses.values()],
        }
        return {"within": self.books.within(values["proposal"], facts, fisher_doses)}

    def _score(self, values: Values, table: SiteTable) -> Values:
        m = model_inputs(table.encoder.encoding, table.table) @ values["coef"] + values["intercept"]
        part, whole = score_terms(LOSSES[self.schema.loss](), m, table.block[1], values["mean"])
        return {"part": min(float(part), 1e300), "whole": float(whole)}


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
