"""The first pass over a table in blocks: what an encoding, a target and the remarks need to know of each column.

Mean and squared deviations of blocks are merged as by Chan, Golub and LeVeque (1983), so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.engine import term
from dosimeter.tables.column_levels import level_positions
from dosimeter.tables.column_values import distinct
from dosimeter.tables.data_checks import looks_like_id
from dosimeter.tables.table import Kind, Table

MOST_VALUES = 60
"""Distinct numbers of a column that are kept: more than classes that are taken."""
MOST_LEVELS = 1000
"""Levels of a label that are kept: far more than are taken, so that a refusal can say how many there are at least."""


@term
@dataclass(frozen=True)
class Moments:
    """Number, mean and squared deviations of some numbers."""

    n: int
    mean: float
    squares: float
    """Σ (u - mean)²."""

    @classmethod
    def of(cls, u: NDArray[np.float64]) -> Moments:
        """Of numbers (n,), n > 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # refused later, by its size
            mean = float(u.mean())
            return cls(len(u), mean, float(np.sum((u - mean) ** 2)))

    @property
    def deviation(self) -> float:
        """Standard deviation (1/n)."""
        return float(np.sqrt(self.squares / self.n))

    def __add__(self, other: Moments) -> Moments:
        n, apart = self.n + other.n, other.mean - self.mean
        between = apart * apart * (self.n * (other.n / n))
        return Moments(n, self.mean + apart * (other.n / n), self.squares + other.squares + between)


@term
@dataclass(frozen=True)
class NumberSummary:
    """A column of numbers or booleans on some rows."""

    kind: Kind
    moments: Moments
    raw: Moments
    """Before declared bounds clipped them."""
    low: float
    high: float
    whole: bool
    """Whether all are whole numbers."""
    values: NDArray[np.float64] | None
    """The distinct ones, ascending; None if there are more than MOST_VALUES."""
    outside: int = 0
    """Numbers that declared bounds clipped; the rest of the summary is of the clipped ones."""
    every: NDArray[np.float64] | None = None
    """All distinct ones of a column that its name calls an identifier."""

    @property
    def n(self) -> int:
        """Rows."""
        return self.moments.n

    @property
    def mean(self) -> float:
        """Mean."""
        return self.moments.mean

    @property
    def deviation(self) -> float:
        """Standard deviation (1/n)."""
        return self.moments.deviation

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    @property
    def spread(self) -> float:
        """As `column_values.spread`: 1 for booleans and for a column that does not vary."""
        return self.deviation if self.kind != "bool" and self.varies else 1.0

    @property
    def varies(self) -> bool:
        """Whether its values differ by more than rounding."""
        return self.deviation > 1e-12 * self.size

    def __add__(self, other: AnySummary) -> AnySummary:
        if not isinstance(other, NumberSummary) or other.kind != self.kind:
            return MixedSummary(_kinds(self, other))
        values = None
        if self.values is not None and other.values is not None:
            values = np.union1d(self.values, other.values)
        return NumberSummary(
            self.kind,
            self.moments + other.moments,
            self.raw + other.raw,
            min(self.low, other.low),
            max(self.high, other.high),
            self.whole and other.whole,
            None if values is None or len(values) > MOST_VALUES else values,
            self.outside + other.outside,
            None if self.every is None or other.every is None else np.union1d(self.every, other.every),
        )


@term
@dataclass(frozen=True)
class LabelSummary:
    """A column of labels on some rows."""

    n: int
    levels: tuple[str, ...]
    """Ascending; MOST_LEVELS + 1 of them stand for any larger number."""
    counts: NDArray[np.int64]
    """(levels,) rows of each."""
    first: NDArray[np.int64]
    """(levels,) number of the first row of each."""
    unlisted: int = 0
    """Labels that are in no declared list; they are not among the levels."""
    text_rows: int = 0
    """Rows of blocks that hold the labels as text, as a dataframe does (`Table.texts`)."""

    @property
    def kind(self) -> Kind:
        """Text."""
        return "text"

    @property
    def as_text(self) -> bool:
        """Whether a frame holds the labels as text."""
        return 2 * self.text_rows > self.n

    def __add__(self, other: AnySummary) -> AnySummary:
        if not isinstance(other, LabelSummary):
            return MixedSummary(_kinds(self, other))
        counts, first = dict(zip(self.levels, self.counts.tolist(), strict=True)), {}
        first = dict(zip(self.levels, self.first.tolist(), strict=True))
        for level, count, row in zip(other.levels, other.counts.tolist(), other.first.tolist(), strict=True):
            counts[level] = counts.get(level, 0) + count
            first[level] = min(first.get(level, row), row)
        levels = tuple(sorted(counts))[: MOST_LEVELS + 1]
        return LabelSummary(
            self.n + other.n,
            levels,
            np.array([counts[level] for level in levels], dtype=np.int64),
            np.array([first[level] for level in levels], dtype=np.int64),
            self.unlisted + other.unlisted,
            self.text_rows + other.text_rows,
        )


@term
@dataclass(frozen=True)
class MixedSummary:
    """A column that has one kind in some blocks and another in others: it has no summary, and is refused."""

    kinds: tuple[str, ...]

    def __add__(self, other: AnySummary) -> MixedSummary:
        return MixedSummary(_kinds(self, other))


ColumnSummary = NumberSummary | LabelSummary
AnySummary = ColumnSummary | MixedSummary


def _kinds(*summaries: AnySummary) -> tuple[str, ...]:
    kinds = [s.kinds if isinstance(s, MixedSummary) else (s.kind,) for s in summaries]
    return tuple(sorted({kind for each in kinds for kind in each}))


@term
@dataclass(frozen=True)
class SampledRows:
    """Some rows of a table, by their numbers; those of blocks add."""

    columns: dict[str, NDArray[Any]]
    rows: NDArray[np.int64]

    def __add__(self, other: SampledRows) -> SampledRows:
        columns = {name: np.concatenate([c, other.columns[name]]) for name, c in self.columns.items()}
        return SampledRows(columns, np.concatenate([self.rows, other.rows]))

    @classmethod
    def of(cls, table: Table, chosen: NDArray[np.int64]) -> SampledRows:
        """The rows of a block whose numbers are among `chosen`, ascending."""
        mine = table.take(np.isin(table.rows, chosen))
        return cls(dict(zip(mine.names, mine.columns, strict=True)), mine.rows.astype(np.int64))

    @property
    def table(self) -> Table:
        """As a table."""
        return Table(tuple(self.columns), tuple(self.columns.values()), self.rows.astype(np.intp))


@dataclass(frozen=True)
class SummaryOptions:
    """What the first pass looks for."""

    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Declared bounds: numbers are clipped to them first."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Declared levels."""
    sampled: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Numbers of the rows to keep, ascending."""


def summarise(table: Table, options: SummaryOptions) -> tuple[Any, ...]:
    """Rows, the sampled ones, and the summary of each column in the table's order."""
    columns = [summarise_column(table, name, options) for name in table.names]
    return (table.n, SampledRows.of(table, options.sampled), *columns)


def summarise_column(table: Table, name: str, options: SummaryOptions) -> ColumnSummary:
    """One column of one block."""
    if table.kind(name) == "text" or name in options.levels:
        return _labels(table, name, options.levels.get(name))
    raw = table[name].astype(np.float64)
    u, outside = raw, 0
    if name in options.bounds:
        low, high = options.bounds[name]
        u, outside = np.clip(raw, low, high), int(np.sum((raw < low) | (raw > high)))
    moments = Moments.of(u)
    return NumberSummary(
        table.kind(name),
        moments,
        moments if u is raw else Moments.of(raw),
        float(u.min()),
        float(u.max()),
        bool(np.equal(np.mod(raw, 1), 0).all()),
        distinct(u, MOST_VALUES),
        outside,
        np.unique(raw) if table.kind(name) == "number" and looks_like_id(name) else None,
    )


def _labels(table: Table, name: str, declared: Sequence[str] | None) -> LabelSummary:
    levels, position = level_positions(table, name)
    counts = np.bincount(position, minlength=len(levels))
    first = np.full(len(levels), np.iinfo(np.int64).max)
    np.minimum.at(first, position, table.rows)
    unlisted = 0
    if declared is not None:
        kept = np.array([level in declared for level in levels], dtype=bool)
        unlisted = int(counts[~kept].sum())
        levels, counts, first = tuple(np.array(levels, dtype=object)[kept]), counts[kept], first[kept]
    most = MOST_LEVELS + 1
    text_rows = table.n if name in table.texts else 0
    return LabelSummary(table.n, levels[:most], counts[:most].astype(np.int64), first[:most], unlisted, text_rows)


def representatives(summaries: Mapping[str, ColumnSummary]) -> Table:
    """A small table whose columns show the kinds, and the distinct values as far as they matter, of the large one.

    A column of one value shows one, of two both, of more at least three; a label all its levels that were kept.
    """
    shown = {name: _shown(summary) for name, summary in summaries.items()}
    rows = max([2, *(len(values) for values in shown.values())])
    texts = frozenset(name for name, s in summaries.items() if isinstance(s, LabelSummary) and s.as_text)
    return Table(tuple(shown), tuple(values[np.arange(rows) % len(values)] for values in shown.values()), texts=texts)


def _shown(summary: ColumnSummary) -> NDArray[Any]:
    if isinstance(summary, LabelSummary):
        return np.array([*summary.levels, None], dtype=object)[:-1] if summary.levels else np.array([""], dtype=object)
    values = summary.values
    if values is None:
        values = np.linspace(summary.low, summary.high, MOST_VALUES + 1)
    return values.astype(bool) if summary.kind == "bool" else values
