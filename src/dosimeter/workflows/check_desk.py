"""What all files of a folder are checked against, and the verdict of one file while it is being checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dosimeter.models.coefficient_facts import belongs_to
from dosimeter.results.check import FileCheck, Verdict
from dosimeter.results.visibility import present
from dosimeter.tables.coefficient_table import CoefficientTable, CovarianceTable
from dosimeter.tables.table import Table
from dosimeter.workflows.check_policy import Policy
from dosimeter.workflows.people_table import to_find

RANK: Mapping[str, int] = {"allow": 0, "pass": 0, "review": 1, "fail": 2}


@dataclass(frozen=True)
class BookedFile:
    """An artefact in the ledger."""

    name: str
    highest: float | None = None
    """The highest η that was booked with it; None if it was booked in another notion."""


@dataclass(eq=False)
class Desk:
    """What all files of a folder are checked against."""

    policy: Policy
    table: Table | None
    """The training table, the person column included; None if it is not at hand."""
    covariances: list[tuple[str, CovarianceTable]] = field(default_factory=list)
    regressions: list[tuple[str, CoefficientTable]] = field(default_factory=list)
    """Name and content of the tables in the folder."""
    booked: dict[str, BookedFile] = field(default_factory=dict)
    """SHA-256 of an artefact -> its entry in the ledger."""

    @property
    def person(self) -> str | None:
        """The column that says whose row it is."""
        return self.policy.data.get("person")

    def covariance_of(self, table: CoefficientTable) -> tuple[str, CovarianceTable | None]:
        """The covariance of a coefficient table and its name; None if there is none in the folder."""
        return next((entry for entry in self.covariances if belongs_to(entry[1], table)), ("", None))

    def regressions_of(self, covariance: CovarianceTable) -> list[tuple[str, CoefficientTable]]:
        """The coefficient tables that a covariance belongs to."""
        return [entry for entry in self.regressions if belongs_to(covariance, entry[1])]

    @cached_property
    def table_to_find(self) -> Table | None:
        """The training table as files are searched for it."""
        return None if self.table is None else to_find(self.table, self.person)


class Findings:
    """The verdict of one file while it is being checked: the worst of its findings."""

    def __init__(self, file: str, kind: str) -> None:
        self.file, self.kind = file, kind
        self._reasons: list[tuple[int, str]] = []
        self.facts: dict[str, Any] = {}
        self.searched = False
        """Whether the file was searched for the training table."""

    @property
    def failed(self) -> bool:
        """Whether nothing more can make it worse."""
        return any(rank == RANK["fail"] for rank, _ in self._reasons)

    def add(self, rule: str, reason: str) -> None:
        """rule: fail or review; pass and allow state the reason alone."""
        self._reasons.append((RANK[rule], reason))

    def check(self) -> FileCheck:
        """The file's part of the result, what decides its verdict first."""
        worst_first = sorted(self._reasons, key=lambda entry: -entry[0])
        rank = worst_first[0][0] if worst_first else 0
        verdicts: tuple[Verdict, ...] = ("pass", "review", "fail")
        return FileCheck(
            file=self.file,
            kind=self.kind,
            verdict=verdicts[rank],
            reasons=[text for _, text in worst_first],
            **present(**self.facts),
        )


def report_dose(result: Any, policy: Policy, findings: Findings) -> None:
    """The dose of a measured release, and what the policy says to it."""
    highest = result.dose.highest
    findings.facts |= {"dose": highest, "dose_for": result.unit, "noise": result.noise if result.bounded else ""}
    if not result.bounded:
        needed = {need.highest: need.scale for need in result.noise_needed}
        scale = needed.get(policy.max_dose or 1.0, math.nan)
        if math.isfinite(scale):
            findings.facts["noise_needed"] = scale
        findings.add(policy.exact, "released without noise: nothing limits what it leaks about a person")
    elif policy.max_dose is not None and highest > policy.max_dose:
        findings.add(
            "fail", f"the highest dose of a {result.unit} is {highest:.3g}, above the limit {policy.max_dose:g}"
        )
    elif result.verdict is not None and not result.verdict.within:
        counted = f"{result.scaler.counted:.3g} with what the fitted scaler adds"
        findings.add("fail", f"the highest dose of a {result.unit} is {counted}, above the limit {policy.max_dose:g}")
    else:
        findings.add("pass", f"the highest dose of a {result.unit} is {highest:.3g}")
