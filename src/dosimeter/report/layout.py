"""What a page is made of, as plain values: tests look at these, and the templates only lay them out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Cell = str | float | int | bool | None
Tone = Literal["", "good", "bad"]
UNBOUNDED = "unbounded"


def number(value: Cell) -> str:
    """A figure in three digits, a count in full, words as they are.

    >>> number(0.123456), number(12345), number(float("inf")), number(None)
    ('0.123', '12345', 'unbounded', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return UNBOUNDED if math.isinf(value) else f"{value:.3g}"
    return str(value)


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    kind: ClassVar[str] = "words"
    text: str
    tone: Tone = ""
    quiet: bool = False


@dataclass(frozen=True)
class Notes:
    """A list of sentences."""

    kind: ClassVar[str] = "notes"
    entries: tuple[str, ...]


@dataclass(frozen=True)
class DefinitionList:
    """Names and what they are: settings, digests."""

    kind: ClassVar[str] = "terms"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Code:
    """A command line."""

    kind: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Grid:
    """A table: the first column names the row, figures stand to the right."""

    kind: ClassVar[str] = "grid"
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False
    """Shown on request: the table that stands beside a chart."""

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """(heading, whether figures stand under it)."""
        figures = [any(isinstance(row[k], int | float) for row in self.rows) for k in range(1, len(self.headings))]
        return list(zip(self.headings, [False, *figures], strict=True))

    def cells(self, row: Sequence[Cell]) -> list[tuple[str, bool]]:
        """(text, whether it is a figure) of the cells after the first."""
        return [(number(cell), isinstance(cell, int | float)) for cell in row[1:]]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart, the same figures as a table, and a sentence that says what is seen."""

    kind: ClassVar[str] = "drawing"
    title: str
    spec: Mapping[str, Any]
    grid: Grid
    says: str = ""


@dataclass(frozen=True)
class Gauge:
    """A dose on a logarithmic bar that reaches below the least figure and above the largest."""

    kind: ClassVar[str] = "gauge"
    title: str
    level: float
    """How far the bar is filled."""
    limit: float | None
    marks: tuple[tuple[str, float], ...] = ()
    """(what, figure), all above 0."""
    width: ClassVar[int] = 600
    reach: ClassVar[tuple[float, float]] = (1e-200, 1e200)
    """Figures outside have no place on the bar: beyond them powers of ten overflow."""

    @classmethod
    def of(
        cls, title: str, level: float, limit: float | None = None, marks: tuple[tuple[str, float], ...] = ()
    ) -> Gauge | None:
        """A gauge, or None where a figure has no place on it: 0, infinity."""
        low, high = cls.reach
        known = (level, *(() if limit is None else (limit,)), *(value for _, value in marks))
        return cls(title, level, limit, marks) if all(low < value < high for value in known) else None

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest figure of the bar, whole powers of ten."""
        known = [v for v in (self.level, self.limit, *(v for _, v in self.marks)) if v is not None]
        low = 10.0 ** math.floor(math.log10(min(known)) - 0.2)
        return low, 10.0 ** math.ceil(math.log10(max(known)) + 0.2)

    def at(self, value: float) -> float:
        """Place of a figure in user units of the picture."""
        low, high = self.ends
        share = math.log(min(max(value, low), high) / low) / math.log(high / low)
        return round(self.width * share, 1)

    @property
    def tone(self) -> Tone:
        """Whether the level is above the limit."""
        return "bad" if self.limit is not None and self.level > self.limit else ""

    @property
    def says(self) -> str:
        """The same in words."""
        told = [f"{what} {number(value)}" for what, value in self.marks]
        return ", ".join([*told, *([f"limit {number(float(self.limit))}"] if self.limit is not None else [])])


Part = Words | Notes | DefinitionList | Code | Grid | Drawing | Gauge


@dataclass(frozen=True, eq=False)
class Section:
    """A heading and what stands under it."""

    heading: str
    parts: tuple[Part, ...]

    @property
    def key(self) -> str:
        """The anchor: the heading's letters. Headings are ours, never a stranger's text."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.heading.lower()).split())


@dataclass(frozen=True, eq=False)
class VerdictBanner:
    """One sentence, with a gauge where there is a figure to show."""

    text: str
    tone: Tone = ""
    gauge: Gauge | None = None


@dataclass(frozen=True, eq=False)
class Document:
    """A whole report before it is laid out."""

    title: str
    edition: Literal["external", "internal"]
    verdict: VerdictBanner
    sections: tuple[Section, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """Every chart of the page."""
        return tuple(part for section in self.sections for part in section.parts if isinstance(part, Drawing))
