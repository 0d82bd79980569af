"""The sections about a paper's numbers (`reproduce`)."""

from __future__ import annotations

from dosimeter.reports.document import View, banner, public_verdict, sections
from dosimeter.reports.layout import EVERYWHERE, Grid, Paragraph, Part, Section, VerdictBanner
from dosimeter.results.reproduction import ReproductionReport


@public_verdict.register
def _(result: ReproductionReport) -> str:
    held = sum(row.ok for row in result.rows)
    weak = sum(row.state == "ok, weak" for row in result.rows)
    unexplained = len(result.unexplained)
    rest = f"; {unexplained} differ without a reason" if unexplained else "; every other row says why"
    return f"{result.name}: {held} of {len(result.rows)} rows hold ({weak} of them weak){rest}."


@banner.register
def _(result: ReproductionReport, view: View) -> VerdictBanner:
    return VerdictBanner(view.sentence, "bad" if result.unexplained else "good")


@sections.register
def _(result: ReproductionReport, view: View) -> list[Section]:
    rows = tuple(
        (
            row.figure,
            f"{row.paper:.4g}",
            f"{row.ours:.4g}",
            row.state,
            "; ".join(part for part in (row.measured, row.why) if part),
        )
        for row in result.rows
    )
    grid = Grid("Rows", ("figure", "paper", "ours", "state", "measured; why"), rows, whole=True)
    note: tuple[Part, ...] = (Paragraph(result.note),) if result.note else ()
    return [Section("Rows", (grid, *note), EVERYWHERE)]
