"""The result of `scan`: what a model file holds about people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from dosimeter.results.result import Result
from dosimeter.results.visibility import FORM, LOCAL, ONE, STATISTIC, WHOLE, WORDS, ResultModel

if TYPE_CHECKING:
    from dosimeter.scanner import Finding, Match, Scan

STANDING = "exact for what is listed; what is not listed may still be there"
NOT_COVERED = (
    "a scan finds what is in the file as numbers and text; what weights leak is for dosimeter measure",
    "rows behind a step that is no scaling, projection or encoding of labels are found by their names alone",
)


class TableMatch(ResultModel):
    """What part of a finding is in the table."""

    found: Annotated[int, STATISTIC]
    of: Annotated[int, STATISTIC]
    rows: Annotated[list[int], ONE]
    """Rows of the table, from 1."""
    rows_alone: Annotated[list[int], ONE]
    """Those whose content no other row has."""
    how: Annotated[str, STATISTIC]
    columns: Annotated[int, STATISTIC]
    distinct_in_the_table: Annotated[int, STATISTIC]
    exact: Annotated[bool, STATISTIC]
    expected_by_accident: Annotated[float | None, STATISTIC] = None
    beyond_accident: Annotated[bool | None, STATISTIC] = None

    @classmethod
    def from_match(cls, match: Match, rows: bool) -> TableMatch:
        """rows: whether the finding is about rows, which alone have a count by accident."""
        chance: Any = {"expected_by_accident": match.by_accident, "beyond_accident": match.beyond_accident}
        return cls(
            found=match.matched,
            of=match.total,
            rows=list(match.rows),
            rows_alone=list(match.unique_rows),
            how=match.view,
            columns=match.columns,
            distinct_in_the_table=match.distinct,
            exact=match.exact,
            **(chance if rows else {}),
        )


class FileFinding(ResultModel):
    """One thing in the file."""

    place: Annotated[str, LOCAL]
    severity: Annotated[str, STATISTIC]
    certainty: Annotated[str, STATISTIC]
    what: Annotated[str, STATISTIC]
    why: Annotated[str, WORDS]
    count: Annotated[int, STATISTIC]
    owner: Annotated[str, LOCAL]
    shape: Annotated[list[int], STATISTIC]
    remark: Annotated[str, STATISTIC]
    match: Annotated[TableMatch | None, STATISTIC] = None

    @classmethod
    def of(cls, finding: Finding) -> FileFinding:
        """From a finding of the scan."""
        matched: Any = (
            {} if finding.match is None else {"match": TableMatch.from_match(finding.match, finding.severity == "rows")}
        )
        return cls(
            place=finding.place,
            severity=finding.severity,
            certainty=finding.certainty,
            what=finding.content,
            why=finding.why,
            count=finding.count,
            owner=finding.owner,
            shape=list(finding.shape),
            remark=finding.remark,
            **matched,
        )


class UnreadPart(ResultModel):
    """A part of the file that was not looked into."""

    place: Annotated[str, LOCAL]
    why: Annotated[str, LOCAL]


class ScanReport(Result):
    """What a model file holds about people. Nothing in the file was run."""

    schema_name: ClassVar[str] = "dosimeter.scan/3"
    title: ClassVar[str] = "What is inside this model file"

    internal: Annotated[bool, WHOLE]
    file: Annotated[str, LOCAL]
    kind: Annotated[str, FORM]
    rows_inside: Annotated[bool, STATISTIC]
    single_values_inside: Annotated[bool, STATISTIC]
    compared_with_rows: Annotated[int, STATISTIC]
    """Rows of the table that the file was compared with; 0 without one."""
    rows_found: Annotated[list[int], ONE]
    findings: Annotated[list[FileFinding], STATISTIC]
    not_looked_into: Annotated[list[UnreadPart], LOCAL]
    standing: Annotated[str, WORDS]
    ids_found: Annotated[list[str], ONE] = Field(default_factory=list)
    """Whose rows were found, if that was asked for."""
    not_covered: Annotated[list[str], WORDS]
    parts_read: Annotated[int, LOCAL] = 1
    """Arrays and lists that were looked into."""
    removed: Annotated[list[str], LOCAL] = Field(default_factory=list)
    """Places that a redacted copy of the file does not have."""

    @classmethod
    def of(cls, scan: Scan, file: str, ids: Sequence[str] = (), removed: Sequence[str] = ()) -> ScanReport:
        """file: its name. ids: whose rows were found, if that was asked for. removed: what a redacted copy lacks."""
        optional: Any = {"ids_found": list(ids)} if ids else {}
        optional |= {"removed": list(removed)} if removed else {}
        return cls(
            internal=True,
            file=file,
            kind=scan.kind,
            rows_inside=scan.rows_inside,
            single_values_inside=scan.values_inside,
            compared_with_rows=scan.table_rows,
            rows_found=list(scan.matched_rows),
            findings=[FileFinding.of(finding) for finding in scan.findings],
            not_looked_into=[UnreadPart(place=place, why=why) for place, why in scan.unread],
            standing=STANDING,
            not_covered=list(NOT_COVERED),
            parts_read=scan.arrays_read,
            **optional,
        )

    @property
    def people_inside(self) -> bool:
        """Whether rows or single people's values are inside."""
        return self.rows_inside or self.single_values_inside
