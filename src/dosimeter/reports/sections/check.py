"""The sections about a folder that is to leave (`check`)."""

from __future__ import annotations

from typing import Any

from dosimeter.reports.document import View, banner, dose_statistics, internal_verdict, public_verdict, sections
from dosimeter.reports.frame import table_of
from dosimeter.reports.layout import (
    BRIEF,
    EVERYWHERE,
    PAGE,
    Grid,
    Notes,
    Paragraph,
    Part,
    Section,
    Tile,
    Tiles,
    VerdictBanner,
    number,
)
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.statistics import warned
from dosimeter.results.check import CheckReport, FileCheck, RegressionFacts
from dosimeter.results.to_json import JsonObject

ACRO = (
    "ACRO passes a regression with {df} residual degrees of freedom or more. That is a property of the whole table. It "
    "passes a table with an indicator of one person, whose target then follows exactly from the coefficients; and a "
    "covariance matrix of least squares, which gives the number of people behind every indicator and every pair of "
    "them."
)


@public_verdict.register
def _(result: CheckReport) -> str:
    return "A folder was checked against a policy before it left. What was found is internal."


@internal_verdict.register
def _(result: CheckReport) -> str:
    every = f"{len(result.files)} file{'s' if len(result.files) != 1 else ''}"
    look = f"need{'s' if result.review == 1 else ''} a person's look"
    if result.failed:
        fail = f"{result.failed} of {every} fail{'s' if result.failed == 1 else ''}"
        return f"Not to leave: {fail}, {result.review} {look}."
    if result.review:
        return f"{result.review} of {every} {look}; none fails."
    return f"All {every} pass the policy." if len(result.files) > 1 else "The file passes the policy."


@banner.register
def _(result: CheckReport, view: View) -> VerdictBanner:
    if not view.internal:
        return VerdictBanner(view.sentence)
    return VerdictBanner(view.sentence, "bad" if result.failed else "" if result.review else "good")


@sections.register
def _(result: CheckReport, view: View) -> list[Section]:
    policy = Section("Policy", (settings(_policy(result)),), EVERYWHERE)
    if not view.internal:
        return [policy, *closing(result, view)]
    regressions = [file for file in result.files if file.regression is not None]
    counts = Tiles(
        (
            Tile("fail", str(result.failed), "must not leave", "bad" if result.failed else ""),
            Tile("review", str(result.review), "a person must look"),
            Tile("pass", str(result.passed), "within the policy", "good" if result.passed else ""),
        )
    )
    return [
        Section("Files", (counts, _table(result.files))),
        *(_section(file) for file in result.files),
        Section("Regressions: degrees of freedom, and single people", tuple(_regressions(result, regressions)), PAGE),
        policy,
        *closing(result, view),
    ]


def _section(file: FileCheck) -> Section:
    """A file; in a terminal those alone that do not pass."""
    return Section(f"{file.verdict}: {file.file}", tuple(_file(file)), PAGE if file.verdict == "pass" else BRIEF)


def _table(files: list[FileCheck]) -> Grid:
    # Two columns: they fit a telephone.
    rows = tuple((f"{file.verdict}: {file.file}", file.reasons[0] if file.reasons else "") for file in files)
    return Grid("Files, the worst first", ("file", "why"), rows, whole=True)


def _file(file: FileCheck) -> list[Part]:
    facts: list[tuple[str, Any]] = [
        ("what it is", file.kind),
        ("highest dose (η)", None if file.dose is None else f"{number(file.dose)} per {file.dose_for}"),
        ("noise", file.noise or None),
        ("noise scale that the limit needs", optional(file, "noise_needed")),
        ("training rows inside", file.rows_found),
        ("booked as", file.booked or None),
        ("SHA-256", file.sha256 or None),
    ]
    return [Notes(tuple(file.reasons)), settings([*facts, *_of_regression(file.regression)])]


def _of_regression(facts: RegressionFacts | None) -> list[tuple[str, Any]]:
    if facts is None:
        return []
    df = None if facts.residual_df is None else f"{facts.residual_df:g} ({facts.df_from})"
    return [
        ("parameters", facts.parameters),
        ("residual degrees of freedom", df or "not known"),
        ("rows of the table", facts.rows),
        ("covariance in", facts.covariance or None),
        ("indicators that it shows", facts.indicators or None),
        ("smallest counts that it reveals", facts.counts or None),
        ("highest leverage of a row", None if facts.leverage is None else number(facts.leverage)),
        ("rows whose target follows exactly", facts.alone),
    ]


def _regressions(result: CheckReport, files: list[FileCheck]) -> list[Part]:
    if not files:
        return []
    rows = []
    for file in files:
        facts = file.regression
        if facts is None:
            continue
        kept = facts.degrees_of_freedom_kept
        acro = "not known" if kept is None else "pass" if kept else "fail"
        small = "–" if facts.smallest is None else str(facts.smallest)
        rows.append((file.file, acro, file.verdict, small, facts.leverage, facts.alone))
    head = ("file", "degrees of freedom alone", "here", "smallest count", "highest leverage", "rows that follow")
    return [
        Paragraph(ACRO.format(df=result.policy.least_residual_df)),
        Grid("Degrees of freedom, and what they miss", head, tuple(rows)),
    ]


def _policy(result: CheckReport) -> list[tuple[str, Any]]:
    policy = result.policy
    return [
        ("highest dose (η) of a person", policy.max_dose or "no limit"),
        ("least residual degrees of freedom", policy.least_residual_df),
        ("smallest count", policy.least_count),
        ("releases without noise", policy.exact),
        ("files that cannot be looked into", policy.unread),
        ("models that are not booked", policy.booked),
        ("training table at hand", "yes" if policy.table else "no"),
        ("ledger at hand", "yes" if policy.ledger else "no"),
    ]


@dose_statistics.register
def _(result: CheckReport) -> JsonObject:
    return warned({"none": "a check has no statistics of doses to publish: measure the model instead"})


@table_of.register
def _(result: CheckReport) -> dict[str, list[Any]]:
    """One row for each file."""
    names = ("file", "kind", "verdict", "dose", "booked", "sha256")
    table: dict[str, list[Any]] = {name: [getattr(file, name) for file in result.files] for name in names}
    return table | {"reasons": ["; ".join(file.reasons) for file in result.files]}
