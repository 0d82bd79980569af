"""The result of `reproduce`: each printed number of a paper beside ours."""

from __future__ import annotations

from typing import Annotated, ClassVar

from dosimeter.results.result import Result
from dosimeter.results.visibility import ResultModel, public

PAPER = public("from public data of a paper")


class PaperRow(ResultModel):
    """A figure of a paper, ours, and whether they agree within the precision that the paper prints."""

    figure: Annotated[str, PAPER]
    paper: Annotated[float, PAPER]
    ours: Annotated[float, PAPER]
    tolerance: Annotated[float, PAPER]
    why: Annotated[str | None, PAPER] = None
    """The reason, if ours differs."""
    measured: Annotated[str, PAPER] = ""
    """What was measured; for a claim in words always given."""
    ok: Annotated[bool, PAPER]
    state: Annotated[str, PAPER]
    """`ok`, `ok, weak`, `differs`, or `unexplained` if it differs without a reason."""


class ReproductionReport(Result):
    """Every printed number of a paper beside ours."""

    schema_name: ClassVar[str] = "dosimeter.reproduction/3"
    title: ClassVar[str] = "A paper's numbers beside ours"
    public_only: ClassVar[bool] = True

    name: Annotated[str, PAPER]
    rows: Annotated[list[PaperRow], PAPER]
    note: Annotated[str, PAPER] = ""
    """What applies to all rows of this run."""

    @property
    def unexplained(self) -> list[PaperRow]:
        """Rows that differ from the paper without a reason."""
        return [row for row in self.rows if row.state == "unexplained"]
