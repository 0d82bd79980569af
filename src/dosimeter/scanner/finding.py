"""What part of a model file reveals about people, and how severe it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

Severity = Literal["rows", "values of single people", "statistics", "lists"]
SEVERITIES: tuple[Severity, ...] = ("rows", "values of single people", "statistics", "lists")

Certainty = Literal["known", "possible", "matched"]
"""known: the attribute exists to hold this; possible: its shape allows it; matched: found in the given table."""


@dataclass(frozen=True)
class Match:
    """How an array of the file matches the table.

    Parameters
    ----------
    matched : int
        Distinct rows or values of the array that the table has.
    total : int
        Distinct rows or values of the array.
    rows : tuple of int
        Numbers of the matching rows of the table, from 1.
    unique_rows : tuple of int
        Those of them whose content no other row has.
    view : str
        Which view of the table matched ("as it stands", "standardised by steps[0]").
    columns : int
        Number of columns compared.
    distinct : int
        Distinct rows in that view of the table (distinct levels, for a list).
    by_accident : float
        Expected number of matching rows if columns were independent. Single values and levels have no such number: it
        equals `matched`.
    exact : bool
        Equal to the last bit.
    beyond_accident : bool
        More matches than accident explains.

    Examples
    --------
    >>> Match(2, 2, (4, 9), (4,), "as it stands", 30, 569, 1e-20, True, True).rows
    (4, 9)
    """

    matched: int
    total: int
    rows: tuple[int, ...]
    unique_rows: tuple[int, ...]
    view: str
    columns: int
    distinct: int
    by_accident: float
    exact: bool
    beyond_accident: bool


@dataclass(frozen=True)
class Finding:
    """One thing to know about a file.

    Parameters
    ----------
    place : str
        Where in the file ("steps[1].support_vectors_").
    severity : str
        "rows", "values of single people", "statistics" or "lists".
    content : str
        What is there.
    why : str
        Why it matters.
    count : int
        How many rows, values or levels.
    owner : str
        Class or operator that holds it; "" if unknown.
    shape : tuple of int
        Of the array.
    certainty : str, default "known"
        "known", "possible" or "matched".
    match : Match, optional
        The comparison with the table.
    remark : str
        What else the table says.

    Examples
    --------
    >>> Finding("steps[1].support_vectors_", "rows", "support vectors", "whole rows", 148).place
    'steps[1].support_vectors_'
    """

    place: str
    severity: Severity
    content: str
    why: str
    count: int
    owner: str = ""
    shape: tuple[int, ...] = ()
    certainty: Certainty = "known"
    match: Match | None = None
    remark: str = ""

    def with_match(self, match: Match) -> Finding:
        """This finding with its match in the table."""
        return replace(self, match=match, certainty="matched" if match.matched else self.certainty)

    @property
    def rows_inside(self) -> bool:
        """True if this finding alone means that rows are inside the file."""
        return self.severity == "rows" and self.certainty != "possible"

    def to_dict(self) -> dict[str, Any]:
        """As a plain dict."""
        facts: dict[str, Any] = {
            "place": self.place,
            "severity": self.severity,
            "certainty": self.certainty,
            "what": self.content,
            "why": self.why,
            "count": self.count,
            "owner": self.owner,
            "shape": list(self.shape),
            "remark": self.remark,
        }
        if self.match is not None:
            facts["match"] = {
                "found": self.match.matched,
                "of": self.match.total,
                "rows": list(self.match.rows),
                "rows_alone": list(self.match.unique_rows),
                "how": self.match.view,
                "columns": self.match.columns,
                "distinct_in_the_table": self.match.distinct,
                "exact": self.match.exact,
            }
            if self.severity == "rows":
                chance = {"expected_by_accident": self.match.by_accident, "beyond_accident": self.match.beyond_accident}
                facts["match"] |= chance
        return facts
