"""What a site answers in a study of second moments: exact sums for a trusted coordinator, or sums with its own noise.

With noise at the site the moment is booked in the site's ledger before it leaves, and the ledger keeps its bytes. A
question that is asked again is answered with the same bytes: no moment is noised twice.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dosimeter.core.accounts import PersonDoses, SharedEventDose
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import EventDose
from dosimeter.engines.consortium_operations import BOOK, EVENT_LIMITS, NOISY_MOMENT, SECOND_MOMENT
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import pack, unpack
from dosimeter.ledger import OverBudget
from dosimeter.models.consortium_moments import MomentTerms, people_of
from dosimeter.models.site_booking import SiteBooking
from dosimeter.models.site_memory import Declined
from dosimeter.models.site_model import Handler
from dosimeter.models.site_table import SiteTable
from dosimeter.pca.distributed import noisy_moment
from dosimeter.pca.fisher import COMPONENTS, MATRIX
from dosimeter.pca.release import person_sums
from dosimeter.tables.consortium_schema import ConsortiumSchema


@dataclass(frozen=True)
class SiteMoments:
    """Exact sums; the coordinator adds the noise once."""

    schema: ConsortiumSchema
    books: SiteBooking

    @property
    def handlers(self) -> dict[str, Handler]:
        """The answer to each operation."""
        return {
            SECOND_MOMENT.name: self._moment,
            EVENT_LIMITS.name: self._limits,
            BOOK.name: lambda values, table: self.books.book(values, partial(self._doses, table=table)),
        }

    @property
    def terms(self) -> MomentTerms:
        """Encoding, bounds and mechanism."""
        return MomentTerms(self.schema)

    def summed(self, table: SiteTable) -> FloatArray:
        """(n, q + 1) what is summed over: encoded columns and a constant."""
        return np.column_stack([self.terms.rows(table.table), np.ones(table.table.n)])

    def _moment(self, values: Values, table: SiteTable) -> Values:
        products, sums, people = person_sums(self.terms.rows(table.table), table.ids, self.terms.bounds)
        return {"people": people, "products": products, "sums": sums}

    def _limits(self, values: Values, table: SiteTable) -> Values:
        ids = list(people_of(table.ids))
        if values["people"] < len(ids):
            raise Declined("fewer people at all sites than at this one")
        facts = {"ids": ids, "people": int(values["people"]), "table": table.digest}
        return {"within": self.books.within(values["proposal"], facts, partial(self._doses, table=table))}

    def _doses(self, pending: dict[str, Any], table: SiteTable) -> tuple[PersonDoses, ...]:
        """ε for all, η and μ of each patient: computed again from the same table when it is booked."""
        if pending["table"] != table.digest:
            raise Declined("the table has changed since this site agreed: restore it")
        return self.terms.person_doses(table.table, table.ids, pending["people"], of=COMPONENTS)


@dataclass(frozen=True)
class NoisySiteMoments:
    """The site adds its own noise: the coordinator sees no exact sum."""

    schema: ConsortiumSchema
    books: SiteBooking

    @property
    def handlers(self) -> dict[str, Handler]:
        """The answer to the one operation."""
        return {NOISY_MOMENT.name: self._moment}

    def summed(self, table: SiteTable) -> None:
        """No exact sum leaves."""

    def _moment(self, values: Values, table: SiteTable) -> Values:
        terms, books = MomentTerms(self.schema), self.books
        people = people_of(table.ids)
        message = noisy_moment(terms.rows(table.table), terms.mechanism, bounds=terms.bounds, person=table.ids)
        drawn = message.release.values
        mean = drawn["mean"] - terms.box.centre if "mean" in drawn else np.zeros(terms.box.d)
        answer = {"people": len(people), "products": drawn["second_moment"], "sums": mean}
        artefact = pack(NOISY_MOMENT.answer, answer, self.schema.sizes)
        doses = terms.person_doses(table.table, table.ids, len(people), of=MATRIX)
        booking = books.booking(doses, message.release.recipe, artefact, secrets.token_bytes(32))
        with books.open_ledger() as ledger:
            try:
                receipt = ledger.book(booking)
            except OverBudget:
                raise Declined("this site's patients would exceed its ledger's limits") from None
        earlier = "" if receipt.fresh else ", as before: nothing more was spent"
        books.say(f"noisy moment booked as {receipt.name}: entry {receipt.seq}, {len(people)} patients{earlier}")
        return unpack(NOISY_MOMENT.answer, receipt.artefact, self.schema.sizes)


def shared_dose(ids: list[Any], dose: EventDose) -> tuple[PersonDoses, ...]:
    """One event for every patient of the site."""
    return (SharedEventDose(tuple(ids), dose),)
