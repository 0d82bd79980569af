"""A training that protects patients, from the schema alone: network, encoding, curator and cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import EventDose
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.federated.accountant import Spend, event_of
from dosimeter.federated.adaptive_clipping import QuantileClip
from dosimeter.federated.budget import PrivacyBudget
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.federated.curator import Curator
from dosimeter.federated.networks import Network
from dosimeter.federated.patient_updates import PatientRows
from dosimeter.federated.schedule import Constant
from dosimeter.federated.site_sums import RoundRequest
from dosimeter.tables.client_rows import ClientEncoding, encode_client_rows
from dosimeter.tables.column_encoding import CategoryColumn, RangeColumn
from dosimeter.tables.consortium_schema import ConsortiumSchema
from dosimeter.tables.consortium_sections import TrainingTerms
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table

SEED = 0
"""Of the first weights, which are public."""


@dataclass(frozen=True)
class PatientTraining:
    """What the coordinator and every site derive from the same schema."""

    schema: ConsortiumSchema

    @property
    def terms(self) -> TrainingTerms:
        """[training]."""
        if self.schema.training is None:
            raise TypeError("the schema has no training")
        return self.schema.training

    @cached_property
    def network(self) -> Network:
        """Inputs, hidden layers, classes or one number."""
        return self.terms.network(self.schema.indicators, self.schema.outputs)

    @cached_property
    def encoding(self) -> ClientEncoding:
        """Numbers by their bounds, an indicator for each level, classes or a scaled number as the target."""
        schema = self.schema
        columns: list[Any] = []
        for name in schema.numbers:
            declared = schema.columns[name]
            if isinstance(declared, Range):
                columns.append(RangeColumn(name, declared.lower, declared.upper))
        for name in schema.labels:
            levels = schema.columns[name]
            if isinstance(levels, tuple):
                columns.append(CategoryColumn(name, levels, indicators=True))
        target = schema.columns[schema.target]
        amount = target if isinstance(target, Range) else None
        return ClientEncoding(schema.target, schema.classes or (), TableEncoding(tuple(columns)), amount)

    @property
    def parameters(self) -> tuple[float, float]:
        """m and z."""
        if self.terms.per_round is None or self.terms.noise is None:
            raise Refusal("the schema has no noise-multiplier: `dosimeter federate init` writes it")
        return self.terms.per_round, self.terms.noise

    @property
    def cohort(self) -> PoissonSampling:
        """All declared patients."""
        return PoissonSampling(self.schema.patients)

    @property
    def curator(self) -> Curator:
        """How the coordinator aggregates."""
        terms, release = self.terms, self.schema.release
        clip = QuantileClip(terms.clip, terms.clip_quantile)
        budget = PrivacyBudget(release.epsilon or 0.0, release.delta or 0.0)
        return Curator(self.cohort, Constant(*self.parameters), budget, clip, terms.momentum, unit="person")

    @property
    def dose(self) -> EventDose:
        """What the whole training costs each patient, drawn or not."""
        spent = (Spend(*self.parameters, self.terms.rounds),)
        return EventDose(event_of(spent, self.cohort), "person", self.cohort.adjacency, Standing.UPPER_BOUND)

    def start(self) -> FloatArray:
        """(d,) the public model before the first round."""
        return self.network.start(np.random.default_rng([SEED, 3]))

    def request(self, number: int, model: Any, clip: float) -> RoundRequest:
        """What a round asks of every site."""
        rate = self.cohort.rate(self.parameters[0])
        return RoundRequest(number, model, clip, rate, self.schema.patients, self.terms.learning_rate)

    def rows(self, table: Table) -> PatientRows:
        """The patients of a site."""
        rows = encode_client_rows(table, self.encoding, self.schema.person)
        return PatientRows.of(rows.X, rows.y, rows.clients)

    def released_model(self, model: Any) -> FloatArray:
        """(d,) what leaves: a regression's last layer in the unit of its target."""
        flat = np.array(model, dtype=np.float64)
        if self.encoding.target_range is not None:
            centre, half = self.encoding.target_scale
            W, b = self.network.layers(flat[None])[-1]
            W *= half
            b *= half
            b += centre
        return flat
