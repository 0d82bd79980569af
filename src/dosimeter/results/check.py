"""The result of `check`: a verdict for each file that is to leave, and why."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from dosimeter.results.result import Result
from dosimeter.results.visibility import GIVEN, LOCAL, STATISTIC, WHOLE, WORDS, Amount, ResultModel

Verdict = Literal["pass", "review", "fail"]
NOT_COVERED = (
    "tables, figures and texts are recognised and listed, not checked: their disclosure control is for people",
    "a file that passes alone may disclose together with one that left earlier: the ledger adds up what was booked",
    "residual degrees of freedom are a property of the whole table: a large one says nothing about a single person",
)


class PolicyFacts(ResultModel):
    """The limits and rules that held."""

    max_dose: Annotated[float | None, GIVEN] = None
    least_residual_df: Annotated[int, GIVEN]
    least_count: Annotated[int, GIVEN]
    exact: Annotated[str, GIVEN]
    unread: Annotated[str, GIVEN]
    booked: Annotated[str, GIVEN]
    table: Annotated[bool, GIVEN]
    """Whether the training table was at hand."""
    ledger: Annotated[bool, GIVEN]


class RegressionFacts(ResultModel):
    """A coefficient table: what its file alone says, and what the training table adds."""

    parameters: Annotated[int, STATISTIC]
    residual_df: Annotated[float | None, STATISTIC] = None
    df_from: Annotated[str, STATISTIC] = ""
    rows: Annotated[int | None, STATISTIC] = None
    degrees_of_freedom_kept: Annotated[bool | None, STATISTIC] = None
    """ACRO's rule alone."""
    covariance: Annotated[str, LOCAL] = ""
    """The file that holds it."""
    indicators: Annotated[list[str], STATISTIC] = Field(default_factory=list)
    counts: Annotated[list[str], STATISTIC] = Field(default_factory=list)
    """The smallest counts of people that the file reveals, as text."""
    smallest: Annotated[int | None, STATISTIC] = None
    leverage: Annotated[float | None, STATISTIC] = None
    """The highest of a row, with the table: 1 if a row alone determines a coefficient."""
    alone: Annotated[int | None, STATISTIC] = None
    """Rows whose target follows exactly from the coefficients and the other rows."""


class FileCheck(ResultModel):
    """One file."""

    file: Annotated[str, LOCAL]
    kind: Annotated[str, LOCAL]
    verdict: Annotated[Verdict, STATISTIC]
    reasons: Annotated[list[str], STATISTIC]
    """Why it fails or needs a person; what passed otherwise."""
    sha256: Annotated[str, LOCAL] = ""
    size: Annotated[int, LOCAL] = 0
    dose: Annotated[Amount | None, STATISTIC] = None
    """The highest of a person, if it could be measured."""
    dose_for: Annotated[str, STATISTIC] = ""
    """person or row."""
    noise: Annotated[str, GIVEN] = ""
    noise_needed: Annotated[float | None, STATISTIC] = None
    """Scale that would give the limit, for an exact release."""
    rows_found: Annotated[int | None, STATISTIC] = None
    """Training rows inside."""
    booked: Annotated[str, LOCAL] = ""
    """The entry of the ledger."""
    regression: Annotated[RegressionFacts | None, STATISTIC] = None


class CheckReport(Result):
    """Everything that is to leave an environment, checked in one pass."""

    schema_name: ClassVar[str] = "dosimeter.check/3"
    title: ClassVar[str] = "What is to leave"

    internal: Annotated[bool, WHOLE]
    folder: Annotated[str, LOCAL]
    policy: Annotated[PolicyFacts, GIVEN]
    files: Annotated[list[FileCheck], STATISTIC]
    passed: Annotated[int, STATISTIC]
    review: Annotated[int, STATISTIC]
    failed: Annotated[int, STATISTIC]
    not_covered: Annotated[list[str], WORDS]

    @classmethod
    def of(cls, folder: str, policy: PolicyFacts, files: list[FileCheck]) -> CheckReport:
        """The worst first."""
        order: list[Verdict] = ["fail", "review", "pass"]
        counts = {verdict: sum(file.verdict == verdict for file in files) for verdict in order}
        return cls(
            internal=True,
            folder=folder,
            policy=policy,
            files=sorted(files, key=lambda file: (order.index(file.verdict), file.file)),
            passed=counts["pass"],
            review=counts["review"],
            failed=counts["fail"],
            not_covered=list(NOT_COVERED),
        )

    @property
    def exit_code(self) -> int:
        """1 if a file fails, 3 if one needs a person, else 0."""
        return 1 if self.failed else 3 if self.review else 0
