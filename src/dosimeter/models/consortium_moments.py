"""Second moments of a consortium: encoding, bounds and mechanism from the schema, the same at every party."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dosimeter.core.accounts import PersonDoses, SharedEventDose
from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import EventDose
from dosimeter.core.notion import FISHER, MEMBERSHIP
from dosimeter.engines.protocol.assembly import Values
from dosimeter.engines.protocol.fields import Malformed
from dosimeter.models.component_release import MEASURED_IN, PRESENCE, mechanism_of
from dosimeter.models.component_rows import row_bounds
from dosimeter.pca.bounds import Bounds, Box
from dosimeter.pca.fisher import measure
from dosimeter.pca.mechanism import MEAN_SHARE, Mechanism
from dosimeter.pca.moment_plan import PERSON, plan_moments
from dosimeter.pca.release import dose_of
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.tables.column_encoding import CategoryColumn, ColumnEncoding, RangeColumn
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.declared_bounds import Declaration, Range
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table

SLACK = 1e-6
UNITS = ((FISHER, MEASURED_IN[False]), (MEMBERSHIP, PRESENCE))
"""Of η and μ, as `dm.components` books them."""
MECHANISM = "analyze-gauss"


@dataclass(frozen=True)
class MomentTerms:
    """What a second moment of this study is, from the schema alone."""

    schema: ConsortiumSchema

    @cached_property
    def declared(self) -> dict[str, Declaration]:
        """The columns of a row, numbers first; the target of a regression is the last number."""
        schema = self.schema
        numbers = {name: schema.columns[name] for name in schema.numbers}
        target = {schema.target: schema.columns[schema.target]} if schema.loss else {}
        return {**numbers, **target, **{name: schema.columns[name] for name in schema.labels}}

    @cached_property
    def encoding(self) -> TableEncoding:
        """Numbers from -1 to 1 at their bounds, and an indicator for each level."""
        return TableEncoding(tuple(_source(name, column) for name, column in self.declared.items()))

    @cached_property
    def bounds(self) -> Bounds:
        """Public bounds of an encoded row."""
        return row_bounds(self.encoding, self.declared, None)

    @property
    def box(self) -> Box:
        """The bounds of each entry."""
        return self.bounds.over(len(self.encoding.names))

    @property
    def mechanism(self) -> Mechanism:
        """Budget and noise: a patient with all their rows is replaced by another."""
        release, terms = self.schema.release, self.schema.components
        share = MEAN_SHARE if terms is None else terms.mean_share
        return mechanism_of(MECHANISM, release.epsilon or 0.0, release.delta or 0.0, REPLACE, share)

    def rows(self, table: Table) -> FloatArray:
        """(n, q) encoded rows, not clipped."""
        return self.encoding.design(table)

    def dose(self, people: int) -> EventDose:
        """What a release of the moments of `people` people costs each of them."""
        return dose_of(self.mechanism, self.box, people)

    def person_doses(self, table: Table, ids: Sequence[Hashable], people: int, *, of: str) -> tuple[PersonDoses, ...]:
        """What each of these people receives if the moments of `people` people are noised: the event, then η and μ.

        of: "components", or "second moment" if the noisy matrix itself is sent.
        """
        X = self.rows(table)
        plan = plan_moments(X.shape[1], people, PERSON, self.mechanism, self.bounds, n_samples=people)
        leakage = measure(plan, X, ids)
        figures = (leakage.dose(ids, of=of, notion=notion, measured_in=unit) for notion, unit in UNITS)
        return (SharedEventDose(people_of(ids), self.dose(people)), *figures)

    def check(self, values: Values, *, noisy: bool) -> None:
        """Refuse sums that no table within the bounds gives; with noise, that no noise makes likely."""
        people, reach = values["people"], self.box.reach
        most, most_sum = people * np.outer(reach, reach), people * reach
        if noisy:
            # 1e6 deviations of the noise: what is beyond is a fault, and the check reveals nothing.
            mechanism = self.mechanism
            most = np.outer(reach, reach) + 1e6 * mechanism.scales(self.box, people)
            most_sum = reach + 1e6 * mechanism.mean_scale(self.box, people)
        allowed, allowed_sum = most * (1 + SLACK), most_sum * (1 + SLACK)
        symmetric = np.abs(values["products"] - values["products"].T).max() <= SLACK * allowed.max()
        if not ((np.abs(values["products"]) <= allowed).all() and (np.abs(values["sums"]) <= allowed_sum).all()):
            raise Malformed("a sum that no table within the schema gives")
        if not symmetric:
            raise Malformed("a second moment that is not symmetric")


def _source(name: str, column: Declaration) -> ColumnEncoding:
    if isinstance(column, Range):
        return RangeColumn(name, column.lower, column.upper, clip=False)
    return CategoryColumn(name, column, indicators=True)


def people_of(ids: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """Each person once, in the order of their first rows."""
    return tuple(dict.fromkeys(ids))
