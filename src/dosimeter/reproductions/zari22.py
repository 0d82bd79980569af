"""[Zari22]: figures 1 to 6 and every claim of 4.2, 4.3, 5.2 and 5.3 that can be compared with a number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dosimeter.reproductions import zari22_attack as attack
from dosimeter.reproductions import zari22_claims as claims
from dosimeter.reproductions import zari22_figures as figures
from dosimeter.reproductions import zari22_scales as scales
from dosimeter.reproductions import zari22_trade as trade
from dosimeter.reproductions.comparison import PaperReport, Row, claim
from dosimeter.reproductions.html_page import Reproduction
from dosimeter.reproductions.zari22_data import TableStudy, studies
from dosimeter.reproductions.zari22_private import private_study

NAME = "zari22"
SIZES = {"Adult": (48_842, 14), "Census": (1080, 13), "LFW": (5749, 25 * 18), "MNIST": (70_000, 28 * 28)}


def reproduction(data: Path, quick: bool = False) -> Reproduction:
    """Everything; quick: a smoke test with three trials instead of ten, N up to 1,000 and five ε, about a minute."""
    four = studies(data, quick)
    curves_by_table = {study.name: attack.curves(study) for study in four}
    few_columns = {s.name: attack.curve(s, s.N, attack.FEW) for s in four if s.name in attack.IMAGES}
    private_studies = {study.name: private_study(study, quick) for study in four}
    all_rows = [
        *size_rows(four),
        *attack.rows(curves_by_table, few_columns),
        *scales.rows(four),
        *claims.rows(private_studies),
        *trade.rows(private_studies),
    ]
    redrawn = (
        figures.attack(curves_by_table),
        figures.protected(private_studies, curves_by_table),
        figures.laplace(private_studies),
        figures.region(),
        figures.utility(private_studies),
        figures.trade(private_studies),
    )
    if not quick:
        return Reproduction(PaperReport(NAME, tuple(all_rows)), redrawn)
    marked = tuple(
        replace(row, measured=f"{row.measured}{_SMOKE_SUFFIX if row.measured else _SMOKE_MARK}") for row in all_rows
    )
    return Reproduction(PaperReport(NAME, marked, SMOKE), redrawn)


SMOKE = (
    "A smoke test: three trials and few ε show that everything runs. Verdicts of single rows differ from the full run "
    "(ten did when they were counted); only the full run is evidence."
)
_SMOKE_MARK = "smoke test, not evidence"
_SMOKE_SUFFIX = f"; {_SMOKE_MARK}"


def size_rows(four: tuple[TableStudy, ...]) -> list[Row]:
    """4.2: rows and columns, and what the Census table contains."""
    rows = []
    for study in four:
        n, d = SIZES[study.name]
        rows.append(Row(f"4.2 {study.name}: records", n, len(study.X), 0.0))
        rows.append(Row(f"4.2 {study.name}: attributes", d, study.d, 0.0))
    why = (
        "the columns are a person's income, tax and contributions (AGI, FEDTAX, WSALVAL, ...), and one of them is the "
    )
    return [
        *rows,
        claim(
            "4.2 Census holds business statistics", False, "13 columns of persons, rank 12", why + "sum of two others"
        ),
    ]
