"""The figures of a measurement over blocks: what each pass takes from a block, as terms that add up.

first pass      η of every person, written as it comes; how the doses and the least deviations of every column spread;
                sums for the columns over all rows; the most exposed people
second pass     the numbers in the bins of the wanted quantiles; the cells of the most exposed people
groups          the values of the columns, counted and collected; then the doses of each group, counted and collected

The functions are of the module and the recipes can be pickled, so that any engine can run them where the rows are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import Each, Joined, Largest, term
from dosimeter.core.selection import Collected, Counts, Top
from dosimeter.engines.reading_store import read_readings, write_readings
from dosimeter.glm.blocks.block_leakage import column_terms
from dosimeter.glm.blocks.block_scores import score_terms
from dosimeter.glm.fitting.block_fit import BlockFit
from dosimeter.models.block_model import BlockModel
from dosimeter.models.table_leakage import TableLeakage
from dosimeter.results.people import TOP, PersonFigures
from dosimeter.tables.table import Table


@dataclass(frozen=True, eq=False)
class BlockReader:
    """A fitted model and where its readings go."""

    model: BlockModel
    fitted: BlockFit
    folder: Path
    """Where the doses of each block are kept."""
    bounded: bool
    """False for an exact release: nothing but the ranking of people is read."""

    @property
    def unknowns(self) -> tuple[str, ...]:
        """Columns and then, if it counts, the target (the last, under its own name)."""
        if not self.bounded:
            return ()
        columns = tuple(self.model.design.blocks)
        return (*columns, self.model.target) if self.model.include_target else columns

    @property
    def joint(self) -> tuple[str, ...]:
        """Columns whose figure over all rows is that of several unknowns, or of tied ones."""
        blocks = self.model.design.blocks
        return tuple(name for name in blocks if len(blocks[name]) > 1 or name in self.model.tied.columns)

    def leakage(self, table: Table) -> TableLeakage:
        """Of a block."""
        return self.model.leakage(self.fitted, table)


# --- the first pass ---


@term
@dataclass(frozen=True)
class Front:
    """Pairs of a dose and its floor of which no other pair has both higher: the highest dose at any noise is theirs."""

    eta: FloatArray
    left: FloatArray

    @classmethod
    def of(cls, eta: FloatArray, left: FloatArray) -> Front:
        """Of doses (k,) and floors (k,)."""
        order = np.lexsort((-left, -eta))
        eta, left = eta[order], left[order]
        before = np.concatenate([[-np.inf], np.maximum.accumulate(left)[:-1]])
        return cls(eta[left > before], left[left > before])

    def __add__(self, other: Front) -> Front:
        return Front.of(np.concatenate([self.eta, other.eta]), np.concatenate([self.left, other.left]))


@dataclass(frozen=True, eq=False)
class FirstPass:
    """The sums of the first pass."""

    rows: int
    people: int
    top: Top
    front: Front
    left: float
    """The largest floor of a person."""
    doses: Counts
    lowest: float
    highest: float
    zero: int
    score: FloatArray
    deviations: dict[str, Counts]
    least: FloatArray
    """(unknowns,) the smallest deviation of each."""
    columns: tuple[Any, ...]
    joint: dict[str, FloatArray]


def first_terms(table: Table, reader: BlockReader) -> tuple[Any, ...]:
    """Everything of a block that the first pass sums; its doses are written."""
    leak = reader.leakage(table)
    people = PersonFigures.of(leak)
    eta, left, first = people.eta, leak.left, table.rows[people.first].astype(np.int64)
    named = {} if leak.ids is None else {"person": np.array([str(leak.ids[k]) for k in people.first])}
    counted = leak.counted if reader.bounded else eta
    write_readings(reader.folder, int(table.rows[0]), {"row": first, "eta": eta, "counted": counted, **named})
    least = [people.least(deviation) for deviation in deviations(leak, reader)]
    smallest = np.array([float(d.min()) for d in least])
    positive = eta[eta > 0]
    extremes = Largest(np.array([left.max(), -positive.min(initial=np.inf), eta.max(initial=0.0)]))
    columns = column_terms(leak.leak.jacobian) if reader.bounded else ()
    every = np.arange(leak.leak.n)
    joint = [leak.persons_together(every, name) for name in (reader.joint if reader.bounded else ())]
    return (
        np.array([table.n, len(eta), len(eta) - len(positive)]),
        Top.of(eta, first, TOP),
        Front.of(leak.falling, left),
        extremes,
        Counts.of(eta),
        score_terms(leak.fit.loss, leak.fit.margin, leak.fit.y, reader.model.target_mean),
        Each(tuple(Counts.of(d) for d in least)),
        Largest(-smallest),
        Each(columns),
        Each(tuple(joint)),
    )


def first_pass(terms: tuple[Any, ...], reader: BlockReader) -> FirstPass:
    """The sums by their names."""
    numbers, top, front, extremes, doses, score, spread, least, columns, joint = terms
    rows, people, zero = (int(k) for k in numbers)
    left, lowest, highest = extremes.value
    return FirstPass(
        rows=rows,
        people=people,
        top=top,
        front=front,
        left=float(left),
        doses=doses,
        lowest=float(-lowest),
        highest=float(highest),
        zero=zero,
        score=score,
        deviations=dict(zip(reader.unknowns, spread.items, strict=True)),
        least=-least.value,
        columns=columns.items,
        joint=dict(zip(reader.joint, joint.items, strict=True)) if reader.bounded else {},
    )


def deviations(leak: TableLeakage, reader: BlockReader) -> list[FloatArray]:
    """(n,) least standard deviation of a guess of each unknown, as `results.unknowns` reads them."""
    if not reader.bounded:
        return []
    out = []
    with np.errstate(divide="ignore"):
        for name in leak.columns:
            out.append(leak.deviation(name) if name in leak.numbers else np.asarray(1.0 / leak.cell(name)))
    if leak.leak.include_target:
        out.append(leak.target_deviation / (reader.model.target_step or 1.0))
    return out


# --- the second pass ---


@dataclass(frozen=True, eq=False)
class Wanted:
    """What the second pass collects."""

    doses: NDArray[np.int64]
    """Bins of the doses."""
    deviations: Mapping[str, NDArray[np.int64]]
    top: NDArray[np.int64]
    """First rows of the most exposed people, ascending."""


def second_terms(table: Table, reader: BlockReader, wanted: Wanted) -> tuple[Any, ...]:
    """The numbers of a block that lie in the wanted bins, and the cells of the most exposed people."""
    readings = read_readings(reader.folder, int(table.rows[0]))
    needs_cells = bool(reader.unknowns)
    leak = reader.leakage(table)
    people = PersonFigures.named(readings["eta"], leak.ids)
    first = readings["row"]
    every = deviations(leak, reader) if needs_cells else []
    least = [people.least(deviation) for deviation in every]
    mine = np.flatnonzero(np.isin(first, wanted.top))
    cells = np.array([[d[k] for d in least] for k in mine]).reshape(len(mine), len(least))
    places = [[int(table.rows[people.row_of_least(d, int(k))]) for d in every] for k in mine]
    rows_of_cells = np.array(places, dtype=np.int64).reshape(cells.shape)
    ids = [str(readings["person"][k]) if "person" in readings else "" for k in mine]
    return (
        Collected.of(readings["eta"], wanted.doses),
        Each(tuple(Collected.of(d, wanted.deviations[n]) for n, d in zip(reader.unknowns, least, strict=True))),
        Joined((first[mine], cells, rows_of_cells, np.array(ids, dtype=object))),
    )
