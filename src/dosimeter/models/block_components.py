"""Components of a table that is read in blocks: what each pass sums, and the release from these sums.

A `ComponentModel` holds constants and no rows, and can be pickled. One pass sums the moments of all rows, and with an
attack those of the members and the rows that are attacked. One pass reads the doses of each person and writes them;
they depend on the scales of the noise and not on its draw. One pass collects the numbers in the bins of the medians.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Each, Largest
from dosimeter.core.errors import CannotMeasure
from dosimeter.core.notion import FISHER, MEMBERSHIP
from dosimeter.core.selection import Collected, Counts, Top
from dosimeter.engines.reading_store import read_readings, write_readings
from dosimeter.models.component_attack import HalfRule, half_terms
from dosimeter.models.component_release import NoisedComponents
from dosimeter.models.component_rows import first_rows, unlisted_labels
from dosimeter.pca.bounded_sums import block_moments, root_weights
from dosimeter.pca.bounds import Box
from dosimeter.pca.fisher import MomentLeakage, measure
from dosimeter.pca.merged_moments import MergedMoments
from dosimeter.pca.moment_plan import MomentPlan
from dosimeter.pca.release import MomentPair
from dosimeter.tables.encoding import TableEncoding
from dosimeter.tables.table import Table

TOP = 50
"""The most exposed people are listed one by one, at most this many."""
COLUMNS = {FISHER.key: "eta", MEMBERSHIP.key: "mu"}
"""Notion -> its name among the readings of a block."""


@dataclass(frozen=True, eq=False)
class ComponentModel:
    """How a block becomes rows within bounds."""

    encoding: TableEncoding
    box: Box
    person: str | None

    def ids(self, table: Table) -> list[Any] | None:
        """Whose each row is."""
        return None if self.person is None else table[self.person].tolist()

    def first_rows(self, table: Table) -> NDArray[np.int64]:
        """(n,) number of the first row of each row's person, in a block of whole people."""
        if self.person is None:
            return table.rows.astype(np.int64)
        return first_rows(table[self.person], table.rows)


# --- the ends of the columns, if no bounds are declared ---


def end_terms(table: Table, encoding: TableEncoding) -> tuple[Largest]:
    """Minus the smallest and then the largest number of each column of the design, (2 d,)."""
    X = encoding.design(table)
    return (Largest(np.concatenate([-X.min(axis=0), X.max(axis=0)])),)


# --- the moments ---


def moment_terms(table: Table, model: ComponentModel, rule: HalfRule | None) -> tuple[Any, ...]:
    """Everything of a block of whole people that the release and the attack sum."""
    clipped = model.box.clip(model.encoding.design(table), int(table.rows[0]))
    first = model.first_rows(table)
    by_person = model.person is not None
    r, people = root_weights(first.tolist()) if by_person else (np.ones(table.n), table.n)
    Z = clipped.rows
    changed = round(clipped.changed_share * table.n)
    most = int(np.unique(first, return_counts=True)[1].max()) if by_person else 1
    counts = np.array([table.n, people, changed, unlisted_labels(model.encoding, table)], dtype=np.int64)
    halves = () if rule is None else half_terms(Z, first, table.rows.astype(np.int64), by_person, rule)
    return (
        *block_moments((Z * r[:, None], r)),
        MergedMoments.of(Z, r**2),
        counts,
        Largest(np.array([float(most)])),
        Each(halves),
    )


@dataclass(frozen=True, eq=False)
class MomentSums:
    """The sums of the pass over the moments. Internal."""

    products: FloatArray
    sums: FloatArray
    moments: MergedMoments
    rows: int
    people: int
    changed: int
    """Rows that the bounds changed."""
    unlisted: int
    most_rows: int
    """Complete rows of the person with the most."""
    halves: tuple[Any, ...]

    @classmethod
    def of(cls, terms: tuple[Any, ...]) -> MomentSums:
        """By their names."""
        products, sums, moments, counts, most, halves = terms
        rows, people, changed, unlisted = (int(count) for count in counts)
        return cls(
            products.total, sums.total, moments, rows, people, changed, unlisted, int(most.value[0]), halves.items
        )


def with_centres(products: FloatArray, sums: FloatArray, gaps: int, box: Box) -> tuple[FloatArray, FloatArray]:
    """Both sums with `gaps` more rows, each the public centre clipped to the bounds."""
    z = box.clip(np.clip(box.centre, box.lower, box.upper)[None, :]).rows[0]
    return products + gaps * np.outer(z, z), sums + gaps * z


# --- the doses ---


@dataclass(frozen=True, eq=False)
class DoseReader:
    """What is read of every block, and where the readings go."""

    model: ComponentModel
    plan: MomentPlan
    notions: tuple[str, ...]
    """Keys of the notions that can be measured."""
    folder: Path

    def leakage(self, table: Table) -> MomentLeakage:
        """Of a block of whole people."""
        return measure(self.plan, self.model.encoding.design(table), self.model.ids(table))


def measurable(plan: MomentPlan, model: ComponentModel, few: Table) -> tuple[tuple[str, ...], str]:
    """Keys of the notions that can be measured, and why the next one cannot. few: rows of one person each."""
    keys: list[str] = []
    ids = None if model.person is None else list(range(few.n))
    try:
        leakage = measure(plan, model.encoding.design(few), ids)
        for notion in (FISHER, MEMBERSHIP):
            leakage.dose(ids, of="components", notion=notion)
            keys.append(notion.key)
    except CannotMeasure as reason:
        return tuple(keys), str(reason)
    return tuple(keys), ""


def dose_terms(table: Table, reader: DoseReader) -> tuple[Any, ...]:
    """How the doses of a block spread, and its most exposed people; the doses are written."""
    leakage, ids = reader.leakage(table), reader.model.ids(table)
    # Figures are in the order in which people first appear in the block.
    first = np.array(list(dict.fromkeys(reader.model.first_rows(table).tolist())), dtype=np.int64)
    figures = {key: _figures(leakage, ids, key) for key in reader.notions}
    named = {} if ids is None else {"person": np.array(list(dict.fromkeys(str(name) for name in ids)))}
    write_readings(
        reader.folder, int(table.rows[0]), {"row": first, **{COLUMNS[k]: v for k, v in figures.items()}, **named}
    )
    eta = figures[FISHER.key]
    positive = eta[eta > 0]
    ends = [-positive.min(initial=np.inf), *(values.max(initial=0.0) for values in figures.values())]
    return (
        np.array([len(eta), len(eta) - len(positive)], dtype=np.int64),
        Largest(np.array(ends)),
        Top.of(eta, first, TOP),
        Each(tuple(Counts.of(values) for values in figures.values())),
    )


def _figures(leakage: MomentLeakage, ids: list[Any] | None, key: str) -> FloatArray:
    """(k,) η or μ of each row, or of each person in the order of their first rows."""
    if ids is None:
        return leakage.examples if key == FISHER.key else leakage.membership
    by_person = leakage.group(ids) if key == FISHER.key else leakage.group_membership(ids)
    return np.array(list(by_person.values()), dtype=np.float64)


def median_terms(table: Table, reader: DoseReader, bins: tuple[NDArray[np.int64], ...]) -> tuple[Each]:
    """The doses of a block that lie in the bins of the medians."""
    readings = read_readings(reader.folder, int(table.rows[0]))
    wanted = zip(reader.notions, bins, strict=True)
    return (Each(tuple(Collected.of(readings[COLUMNS[key]], some) for key, some in wanted)),)


@dataclass(frozen=True, eq=False)
class BlockDoses:
    """How the doses spread. Internal."""

    reader: DoseReader
    people: int
    """Or rows."""
    zero: int
    """Of η."""
    lowest: float
    """The smallest η above 0."""
    highest: dict[str, float]
    """Notion -> the highest dose."""
    typical: dict[str, float]
    top: Top


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockComponents(NoisedComponents):
    """The release of the components of a table in blocks, and everything its passes found. Internal."""

    model: ComponentModel
    exact: MomentPair
    sums: MomentSums
    doses: BlockDoses | None
    """None if nothing can be measured."""
    reason: str
    """Why the next notion cannot be measured."""
    incomplete: int
    """Rows that were left out."""
    people: int
    """People, those without a complete row included."""
    most_rows: int
    """Rows of the person with the most, incomplete rows included."""

    @property
    def covariance(self) -> FloatArray:
        """(d, d) of the clipped rows about their mean; each person has weight one if a person is the unit."""
        return self.sums.moments.covariance

    @property
    def noise(self) -> FloatArray:
        """(d, d) noisy minus exact second moment: the noise, up to rounding."""
        return np.asarray(self.private.second_moment - self.exact.second_moment)
