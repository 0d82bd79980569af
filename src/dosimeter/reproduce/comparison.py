"""One printed number, or one claim in words, beside ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Row:
    """A figure of a paper, ours, and whether they agree within the precision the paper prints.

    >>> Row("Table 1 x", paper=0.040, ours=0.0405, tolerance=0.0005).ok
    True
    """

    figure: str
    paper: float
    ours: float
    tolerance: float
    why: str | None = None
    """Where ours differs: the reason."""
    measured: str = ""
    """What was looked at, with its figures; for a claim in words always given."""

    @property
    def ok(self) -> bool:
        """Within the paper's printed precision."""
        return abs(self.ours - self.paper) <= self.tolerance * (1 + 1e-9)

    @property
    def weak(self) -> bool:
        """Whether the row says of itself that it could hardly have failed."""
        return self.measured.startswith(_WEAK)

    @property
    def state(self) -> str:
        """`ok`, `ok, weak`, `differs`, or `unexplained` where it differs and does not say why."""
        if self.ok:
            return "ok, weak" if self.weak else "ok"
        return "differs" if self.why else "unexplained"

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "ok": self.ok}


def claim(words: str, holds: bool, measured: str, why: str | None = None) -> Row:
    """A claim that the paper makes in words: 1 where it holds by the stated measure, 0 where it does not.

    >>> claim("6.2 zeros leak more than ones", 0.051 > 0.031, "means 0.051 and 0.031").ok
    True
    """
    return Row(words, 1.0, float(holds), 0.0, why, measured)


_WEAK = "weak: "


def weak(row: Row, reason: str) -> Row:
    """A row that holds by construction, or by a threshold that was set after a look: `reason` says which.

    >>> weak(claim("k queries leak at most kγ", True, "13.3 <= 20"), "a bound on a bound").measured
    'weak: a bound on a bound; 13.3 <= 20'
    """
    return replace(row, measured=f"{_WEAK}{reason}; {row.measured}")


@dataclass(frozen=True)
class Report:
    """All rows of one paper."""

    name: str
    rows: tuple[Row, ...]
    note: str = ""
    """What is to be known of all rows of this run; empty: nothing."""

    def plain(self) -> dict[str, Any]:
        """`{"name": ..., "rows": [...]}`, and `note` where there is one."""
        noted = {"note": self.note} if self.note else {}
        return {"name": self.name, **noted, "rows": [row.plain() for row in self.rows]}

    @property
    def unexplained(self) -> tuple[Row, ...]:
        """Rows that differ from the paper and do not say why."""
        return tuple(row for row in self.rows if not row.ok and not row.why)
