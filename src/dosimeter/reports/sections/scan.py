"""The sections about the inside of a model file (`scan`)."""

from __future__ import annotations

from dosimeter.reports.document import View, banner, internal_verdict, public_verdict, sections
from dosimeter.reports.layout import Notes, Paragraph, Part, Section, Tone, VerdictBanner
from dosimeter.reports.sections.closing import closing
from dosimeter.results.scan import FileFinding, ScanReport

SHOWN = 20
NO_ROWS = "a model that keeps no rows: dosimeter fix, or another linear model"


@public_verdict.register
def _(result: ScanReport) -> str:
    return "A model file was scanned. What it holds about people is internal."


@internal_verdict.register
def _(result: ScanReport) -> str:
    unread = len(result.not_looked_into)
    if unread and not result.parts_read:
        return "Not looked into: nothing in this file could be read, and rows may be inside."
    if result.rows_inside:
        return "Rows inside: anyone who has this file has people's rows."
    possible = any(finding.severity == "rows" for finding in result.findings)
    more = "; what could be rows is listed below" if possible and not result.compared_with_rows else ""
    parts = "1 part was" if unread == 1 else f"{unread} parts were"
    where = f" in what was looked into; {parts} not, see below" if unread else ""
    if result.single_values_inside:
        return f"Single people's values inside; no rows found{where}{more}."
    return f"No rows found{where}{more}."


@banner.register
def _(result: ScanReport, view: View) -> VerdictBanner:
    if not view.internal:
        return VerdictBanner(view.sentence)
    tone: Tone = "bad" if result.people_inside else "" if result.not_looked_into else "good"
    return VerdictBanner(view.sentence, tone)


@sections.register
def _(result: ScanReport, view: View) -> list[Section]:
    if not view.internal:
        return closing(result, view)
    unread = Notes(tuple(f"{part.place}: {part.why}" for part in result.not_looked_into[:SHOWN]))
    return [
        Section("The file", tuple(_file(result))),
        *_findings(result),
        Section("Not looked into", (unread,) if unread.entries else ()),
        *closing(result, view),
    ]


def _file(result: ScanReport) -> list[Part]:
    parts: list[Part] = [Paragraph(f"{result.file} ({result.kind}), read without running anything in it.")]
    if result.rows_inside:
        if result.compared_with_rows:
            rows = result.rows_found
            which = f": {_some(list(map(str, rows)))}" if rows else ": the rows inside are not this table's, or changed"
            parts.append(Paragraph(f"{len(rows)} of the table's {result.compared_with_rows} rows{which}"))
        parts.append(Paragraph(NO_ROWS, quiet=True))
    if result.removed:
        parts.append(Paragraph(f"A copy without these was written; it predicts the same: {_some(result.removed)}"))
    if result.ids_found:
        parts.append(Paragraph(f"Whose: {_some(result.ids_found)}"))
    return parts


def _findings(result: ScanReport) -> list[Section]:
    shown = [finding for finding in result.findings if finding.certainty != "possible" or finding.severity == "rows"]
    if not shown:
        return [Section("Findings", (Paragraph("Nothing that is known to describe single people."),))]
    sections_by_severity = []
    for severity in dict.fromkeys(finding.severity for finding in shown):
        group = [finding for finding in shown if finding.severity == severity]
        entries = [_described(finding) for finding in group[:SHOWN]]
        if len(group) > SHOWN:
            entries.append(f"and {len(group) - SHOWN} more (the JSON has them all)")
        reasons = dict.fromkeys(finding.why for finding in group[:SHOWN])
        parts: tuple[Part, ...] = (Notes(tuple(entries)), *(Paragraph(why, quiet=True) for why in reasons))
        sections_by_severity.append(Section(severity[:1].upper() + severity[1:], parts))
    return sections_by_severity


def _described(finding: FileFinding) -> str:
    possible = "could be: " if finding.certainty == "possible" else ""
    match = _match(finding)
    return f"{possible}{finding.what} ({finding.count}) in {finding.place}" + (f": {match}" if match else "")


def _match(finding: FileFinding) -> str:
    """What the table says about a finding."""
    match = finding.match
    if match is None:
        return finding.remark
    if finding.severity != "rows":
        alone = match.rows_alone
        which = f", {len(alone)} rows by themselves: {_some(list(map(str, alone)))}" if alone else ""
        return f"{match.found} of {match.of} are in the table{which}"
    sure = "" if match.beyond_accident else ": no more than by accident"
    view = f"{match.how}, {match.columns} columns, {match.distinct_in_the_table} distinct rows"
    accident = match.expected_by_accident or 0.0
    return f"{match.found} of {match.of} are rows of the table ({view}); by accident {accident:.1g}{sure}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
