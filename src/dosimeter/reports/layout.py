"""What a report is made of, as plain values. Pages, terminals, notebooks and cards render the same parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from dosimeter.results.to_json import JsonObject

Cell = str | float | int | bool | None
Tone = Literal["", "good", "bad"]
UNBOUNDED = "unbounded"


def number(value: Cell) -> str:
    """A figure in three digits, a count in full, text as it is.

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
class Paragraph:
    """A paragraph."""

    kind: ClassVar[str] = "paragraph"
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
    """A table: the first column names the row, figures are aligned right."""

    kind: ClassVar[str] = "grid"
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = False
    """Shown on request: the table beside a chart."""
    whole: bool = False
    """A terminal shows all rows."""

    @property
    def heads(self) -> list[tuple[str, bool]]:
        """(heading, whether figures are under it)."""
        figures = [any(isinstance(row[k], int | float) for row in self.rows) for k in range(1, len(self.headings))]
        return list(zip(self.headings, [False, *figures], strict=True))

    def cells(self, row: Sequence[Cell]) -> list[tuple[str, bool]]:
        """(text, whether it is a figure) of the cells after the first."""
        return [(number(cell), isinstance(cell, int | float)) for cell in row[1:]]


@dataclass(frozen=True)
class Tile:
    """One figure in large type, with what it means."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Tiles:
    """The few figures that a reader needs first."""

    kind: ClassVar[str] = "tiles"
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A chart, the same figures as a table, and a sentence that says what it shows."""

    kind: ClassVar[str] = "drawing"
    title: str
    spec: Mapping[str, Any]
    grid: Grid
    says: str = ""

    @property
    def full(self) -> bool:
        """Whether it takes the width of the page."""
        return bool(self.spec.get("width") == "container")


@dataclass(frozen=True)
class Gauge:
    """A dose on a logarithmic bar that reaches below the least figure and above the largest."""

    kind: ClassVar[str] = "gauge"
    title: str
    level: float
    """How far the bar is filled."""
    limit: float | None
    marks: tuple[tuple[str, float], ...] = ()
    """(label, figure), all above 0."""
    width: ClassVar[int] = 900
    reach: ClassVar[tuple[float, float]] = (1e-200, 1e200)
    """Figures outside have no place on the bar: beyond them powers of ten overflow."""

    @classmethod
    def of(
        cls, title: str, level: float, limit: float | None = None, marks: tuple[tuple[str, float], ...] = ()
    ) -> Gauge | None:
        """A gauge, or None if a figure has no place on it: 0, infinity."""
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
        """The same as text."""
        figures = [f"{label} {number(value)}" for label, value in self.marks]
        return ", ".join([*figures, *([f"limit {number(float(self.limit))}"] if self.limit is not None else [])])


Part = Paragraph | Tiles | Notes | DefinitionList | Code | Grid | Drawing | Gauge


Medium = Literal["page", "terminal", "notebook", "card"]
PAGE: frozenset[Medium] = frozenset({"page"})
BRIEF: frozenset[Medium] = frozenset({"page", "terminal", "notebook"})
EVERYWHERE: frozenset[Medium] = frozenset({"page", "terminal", "notebook", "card"})
SHORT: frozenset[Medium] = frozenset({"terminal", "notebook"})
"""A summary of what the page shows at length."""
PRINTED: frozenset[Medium] = frozenset({"page", "card"})
"""Settings and assumptions, for the record."""


@dataclass(frozen=True, eq=False)
class Section:
    """A heading, its parts, and the media that show it: a terminal gets the short ones, a model card the settings."""

    heading: str
    parts: tuple[Part, ...]
    media: frozenset[Medium] = BRIEF

    @property
    def key(self) -> str:
        """The anchor: the heading's letters. Headings are ours, never untrusted text."""
        return "-".join("".join(c if c.isalnum() else " " for c in self.heading.lower()).split())


@dataclass(frozen=True, eq=False)
class VerdictBanner:
    """One sentence, what it means without symbols, and a gauge if there is a figure to show."""

    text: str
    tone: Tone = ""
    gauge: Gauge | None = None
    meaning: str = ""


@dataclass(frozen=True, eq=False)
class Document:
    """A whole report before it is laid out."""

    title: str
    edition: Literal["external", "internal"]
    verdict: VerdictBanner
    sections: tuple[Section, ...]
    says: str = ""
    """What this edition holds, in a sentence."""
    figures: JsonObject = field(default_factory=dict)
    """The same figures as plain values, embedded in the page as JSON."""

    def on(self, medium: Medium) -> tuple[Section, ...]:
        """The sections that this medium shows."""
        return tuple(section for section in self.sections if medium in section.media)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """Every chart of the page."""
        return tuple(part for section in self.on("page") for part in section.parts if isinstance(part, Drawing))
