"""One printed number, or one claim in words, beside ours."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Row:
    """A number in a paper, ours, and whether they agree within the precision that the paper prints.

    >>> Row("Table 1 x", paper=0.040, ours=0.0405, tolerance=0.0005).ok
    True
    """

    figure: str
    paper: float
    ours: float
    tolerance: float
    why: str | None = None
    """If ours differs: the reason."""
    measured: str = ""
    """What was measured, with its values; always given for a claim in words."""

    @property
    def ok(self) -> bool:
        """True if the difference is within the paper's printed precision."""
        return abs(self.ours - self.paper) <= self.tolerance * (1 + 1e-9)

    @property
    def weak(self) -> bool:
        """True if the row says that it could hardly have failed."""
        return self.measured.startswith(_WEAK)

    @property
    def state(self) -> str:
        """`ok`, `ok, weak`, `differs`, or `unexplained` if it differs without a reason."""
        if self.ok:
            return "ok, weak" if self.weak else "ok"
        return "differs" if self.why else "unexplained"

    def to_dict(self) -> dict[str, Any]:
        """As a plain dict, for JSON."""
        return {**asdict(self), "ok": self.ok}


def claim(figure: str, holds: bool, measured: str, why: str | None = None) -> Row:
    """A claim that the paper makes in words: 1 if it holds by the stated measure, 0 if not.

    >>> claim("6.2 zeros leak more than ones", 0.051 > 0.031, "means 0.051 and 0.031").ok
    True
    """
    return Row(figure, 1.0, float(holds), 0.0, why, measured)


_WEAK = "weak: "


def weak(row: Row, reason: str) -> Row:
    """Mark a row that holds by construction, or by a threshold set after seeing the values; `reason` says which.

    >>> weak(claim("k queries leak at most kγ", True, "13.3 <= 20"), "a bound on a bound").measured
    'weak: a bound on a bound; 13.3 <= 20'
    """
    return replace(row, measured=f"{_WEAK}{reason}; {row.measured}")


@dataclass(frozen=True)
class PaperReport:
    """All rows of one paper."""

    name: str
    rows: tuple[Row, ...]
    note: str = ""
    """What applies to all rows of this run; may be empty."""

    def to_dict(self) -> dict[str, Any]:
        """`{"name": ..., "rows": [...]}`, and `note` if there is one."""
        noted = {"note": self.note} if self.note else {}
        return {"name": self.name, **noted, "rows": [row.to_dict() for row in self.rows]}

    @property
    def unexplained(self) -> tuple[Row, ...]:
        """Rows that differ from the paper without a reason."""
        return tuple(row for row in self.rows if not row.ok and not row.why)
