"""What a site answers in a training that protects patients: one sum of clipped updates in each round.

The site draws its patients from its own bits, once a round, and tells nobody who was drawn or how many.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from dosimeter.core.accounts import PersonDoses
from dosimeter.core.arrays import FloatArray
from dosimeter.engines.consortium_operations import BOOK, EVENT_LIMITS, PATIENT_SUM
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import pack, unpack
from dosimeter.federated.patient_updates import PatientRows
from dosimeter.federated.site_sums import draw_patients, site_sum
from dosimeter.files.atomic import write_bytes
from dosimeter.models.consortium_moments import people_of
from dosimeter.models.consortium_training import PatientTraining
from dosimeter.models.site_booking import PENDING, SiteBooking
from dosimeter.models.site_memory import Declined, admit_round
from dosimeter.models.site_model import Handler
from dosimeter.models.site_moments import shared_dose
from dosimeter.models.site_table import FEWEST_PEOPLE, SiteTable
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.tables.consortium_schema import ConsortiumSchema

LARGEST_CLIP = 1e12
ROUND, SUM = "round.json", "round.sum"


@dataclass(frozen=True)
class SiteTraining:
    """The answers of a training."""

    schema: ConsortiumSchema
    books: SiteBooking

    @property
    def handlers(self) -> dict[str, Handler]:
        """The answer to each operation."""
        return {
            EVENT_LIMITS.name: self._limits,
            PATIENT_SUM.name: self._sum,
            BOOK.name: lambda values, table: self.books.book(values, self._doses),
        }

    @cached_property
    def training(self) -> PatientTraining:
        """What the schema says."""
        return PatientTraining(self.schema)

    @cached_property
    def _rows(self) -> dict[int, PatientRows]:
        return {}

    def rows(self, table: SiteTable) -> PatientRows:
        """The site's patients, encoded once."""
        if id(table) not in self._rows:
            self._rows[id(table)] = self.training.rows(table.table)
        return self._rows[id(table)]

    def summed(self, table: SiteTable) -> FloatArray:
        """(n, d + 1) what updates are sums over: encoded columns and a constant."""
        rows = self.training.encoding.columns.design(table.table)
        return np.column_stack([rows, np.ones(len(rows))])

    def _limits(self, values: Values, table: SiteTable) -> Values:
        ids = list(people_of(table.ids))
        declared = self.schema.sites[self.books.number - 1].patients or 0
        if len(ids) > declared:
            raise Declined(f"this site has more patients than the {declared} that the schema declares")
        if self.training.cohort.rate(self.training.parameters[0]) * len(ids) < FEWEST_PEOPLE:
            raise Declined(
                f"fewer than {FEWEST_PEOPLE} patients would be drawn here in a round, nearly alone in the sum"
            )
        facts = {"ids": ids, "table": table.digest}
        return {"within": self.books.within(values["proposal"], facts, self._doses)}

    def _doses(self, pending: dict[str, Any]) -> tuple[PersonDoses, ...]:
        return shared_dose(pending["ids"], self.training.dose)

    def _sum(self, values: Values, table: SiteTable) -> Values:
        training, clip = self.training, float(values["clip"])
        path = self.books.folder / PENDING
        if not path.exists():
            raise Declined("this site has not agreed to the training")
        if json.loads(path.read_bytes())["table"] != table.digest:
            raise Declined("the table has changed since this site agreed: its patients would not be those booked")
        if values["round"] >= training.terms.rounds or not 0 < clip <= LARGEST_CLIP:
            raise Declined("a round that the schema does not have")
        question = int(values["round"]).to_bytes(8) + values["model"].tobytes() + clip.hex().encode()
        admit_round(self.books.folder / ROUND, int(values["round"]), question[8:])
        return self._drawn_once(question, lambda: self._draw(values, clip, table))

    def _draw(self, values: Values, clip: float, table: SiteTable) -> Values:
        request = self.training.request(int(values["round"]), values["model"], clip)
        rows = self.rows(table)
        drawn = draw_patients(rows.patients, request.rate, fresh_bits())
        answer = site_sum(self.training.network, rows, request, drawn)
        return {"steps": answer.steps, "halves": answer.halves}

    def _drawn_once(self, question: bytes, draw: Callable[[], Values]) -> Values:
        """The sum of a round, kept before it leaves: a round that is asked again has the same draw.

        Sums of other draws at the same model would differ by a few patients' updates.
        """
        path, digest, sizes = self.books.folder / SUM, sha256(question).digest(), self.schema.sizes
        kept = path.read_bytes() if path.exists() else b""
        if kept[: len(digest)] == digest:
            return unpack(PATIENT_SUM.answer, kept[len(digest) :], sizes)
        values = draw()
        write_bytes(path, digest + pack(PATIENT_SUM.answer, values, sizes))
        return values
