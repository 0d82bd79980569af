"""Rows of the benchmark. A row is one function, decorated with `@row`, in a module of `benchmarks/rows/`.

It takes the settings and yields one `Ratio` for each comparison: our seconds over the peer's, so that lower is better
everywhere. What cannot be compared here is yielded as `Skipped`, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Ratio:
    """Our least seconds over the peer's."""

    name: str
    """What is compared, with its size: the reference is looked up by row and name."""
    ours: float
    """Seconds of the processor, unless the name says "by the clock"."""
    peer: float
    against: str
    """What the peer does."""
    limit: float | None = None
    """The ratio must not be above it."""

    @property
    def ratio(self) -> float:
        """Ours over the peer's."""
        return self.ours / self.peer

    def better_of(self, other: Ratio) -> Ratio:
        """The least seconds of both sides over two runs of the same comparison."""
        return Ratio(self.name, min(self.ours, other.ours), min(self.peer, other.peer), self.against, self.limit)


@dataclass(frozen=True)
class Skipped:
    """A comparison that cannot be made here."""

    name: str
    why: str


@dataclass(frozen=True)
class Settings:
    """What every row is told."""

    data: Path
    """The folder of the papers' data."""
    quick: bool = False
    """Small sizes alone."""
    runs: int = 5
    """Runs of which the least counts."""
    pythons: dict[str, str] = field(default_factory=dict)
    """Peer -> the interpreter of its environment; empty without --peers."""
    postgres: str = ""
    """The URL of a PostgreSQL server on which databases may be created."""


RowFunction = Callable[[Settings], Iterator[Ratio | Skipped]]


@dataclass(frozen=True)
class Row:
    """One subject of the table."""

    key: str
    title: str
    run: RowFunction
    needs: tuple[str, ...] = ()
    """Folders of the papers' data."""


ROWS: dict[str, Row] = {}


def row(key: str, title: str, *, needs: tuple[str, ...] = ()) -> Callable[[RowFunction], RowFunction]:
    """Register a function as a row of the table."""

    def register(function: RowFunction) -> RowFunction:
        if key in ROWS:
            raise ValueError(f"two rows of the benchmark are named {key}")
        ROWS[key] = Row(key, title, function, needs)
        return function

    return register


def outcomes(chosen: Row, settings: Settings) -> Iterator[Ratio | Skipped]:
    """The comparisons of a row, or why there are none."""
    missing = [folder for folder in chosen.needs if not (settings.data / folder).is_dir()]
    if missing:
        yield Skipped(chosen.key, f"the papers' data has no folder {missing[0]}: set --data")
        return
    yield from chosen.run(settings)
