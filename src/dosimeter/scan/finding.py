"""What a part of a model file says about people, and how badly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

Severity = Literal["rows", "values of single people", "statistics", "lists"]
SEVERITIES: tuple[Severity, ...] = ("rows", "values of single people", "statistics", "lists")

Certainty = Literal["known", "possible", "matched"]
"""known: the attribute is there to hold this; possible: its shape allows it; matched: found in the table given."""


@dataclass(frozen=True)
class Match:
    """What of a part was found in a table.

    found: distinct lines or values of the part that the table has; of: how many distinct ones the part has;
    rows: the rows of the table concerned, counted from 1; alone: those of them whose content no other row has;
    how: which view of the table ("as it stands", "standardised by steps[0]"); columns: on how many columns;
    distinct: distinct rows in that view of the table (distinct levels, for a list); exact: to the last bit;
    by_accident: how many lines would be found by accident if columns were independent; for single values and levels
    there is no such figure: it is as many as were found.
    """

    found: int
    of: int
    rows: tuple[int, ...]
    alone: tuple[int, ...]
    how: str
    columns: int
    distinct: int
    by_accident: float
    exact: bool
    beyond_accident: bool


@dataclass(frozen=True)
class Finding:
    """One thing to know about a file.

    >>> Finding("steps[1].support_vectors_", "rows", "support vectors", "whole rows", 148).place
    'steps[1].support_vectors_'
    """

    place: str
    severity: Severity
    what: str
    why: str
    count: int
    owner: str = ""
    shape: tuple[int, ...] = ()
    certainty: Certainty = "known"
    match: Match | None = None
    remark: str = ""

    def matched(self, match: Match) -> Finding:
        """The same with what was found in the table."""
        return replace(self, match=match, certainty="matched" if match.found else self.certainty)

    @property
    def rows_inside(self) -> bool:
        """Whether this alone makes the file one with rows inside."""
        return self.severity == "rows" and self.certainty != "possible"

    def facts(self) -> dict[str, Any]:
        """As a plain dict."""
        plain: dict[str, Any] = {
            "place": self.place,
            "severity": self.severity,
            "certainty": self.certainty,
            "what": self.what,
            "why": self.why,
            "count": self.count,
            "owner": self.owner,
            "shape": list(self.shape),
            "remark": self.remark,
        }
        if self.match is not None:
            plain["match"] = {
                "found": self.match.found,
                "of": self.match.of,
                "rows": list(self.match.rows),
                "rows_alone": list(self.match.alone),
                "how": self.match.how,
                "columns": self.match.columns,
                "distinct_in_the_table": self.match.distinct,
                "exact": self.match.exact,
            }
            if self.severity == "rows":
                chance = {"expected_by_accident": self.match.by_accident, "beyond_accident": self.match.beyond_accident}
                plain["match"] |= chance
        return plain
