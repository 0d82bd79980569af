"""[Zari22] in full: figures 1 to 6 and every sentence of 4.2, 4.3, 5.2 and 5.3 that can be held against a number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dosimeter.reproduce import zari22_attack as attack
from dosimeter.reproduce import zari22_claims as claims
from dosimeter.reproduce import zari22_figures as figures
from dosimeter.reproduce import zari22_scales as scales
from dosimeter.reproduce import zari22_trade as trade
from dosimeter.reproduce.comparison import Report, Row, claim
from dosimeter.reproduce.html_page import Reproduction
from dosimeter.reproduce.zari22_data import Study, studies
from dosimeter.reproduce.zari22_private import private

NAME = "zari22"
SIZES = {"Adult": (48_842, 14), "Census": (1080, 13), "LFW": (5749, 25 * 18), "MNIST": (70_000, 28 * 28)}


def reproduction(data: Path, quick: bool = False) -> Reproduction:
    """Everything; quick: a smoke test, three trials instead of ten, N up to 1,000 and five ε, about a minute."""
    four = studies(data, quick)
    told = {study.name: attack.curves(study) for study in four}
    few = {s.name: attack.curve(s, s.N, attack.FEW) for s in four if s.name in attack.IMAGES}
    protected = {study.name: private(study, quick) for study in four}
    everything = [
        *size_rows(four),
        *attack.rows(told, few),
        *scales.rows(four),
        *claims.rows(protected),
        *trade.rows(protected),
    ]
    drawn = (
        figures.attack(told),
        figures.protected(protected, told),
        figures.laplace(protected),
        figures.region(),
        figures.utility(protected),
        figures.trade(protected),
    )
    if not quick:
        return Reproduction(Report(NAME, tuple(everything)), drawn)
    marked = tuple(replace(row, measured=f"{row.measured}{_BESIDE if row.measured else _ALONE}") for row in everything)
    return Reproduction(Report(NAME, marked, SMOKE), drawn)


SMOKE = (
    "A smoke test: three trials and few ε show that everything runs. Verdicts of single rows flip against the full run "
    "(ten did when it was counted); only the full run is evidence."
)
_ALONE = "smoke test, not evidence"
_BESIDE = f"; {_ALONE}"


def size_rows(four: tuple[Study, ...]) -> list[Row]:
    """4.2: rows and columns, and what the Census table is."""
    made = []
    for study in four:
        n, d = SIZES[study.name]
        made.append(Row(f"4.2 {study.name}: records", n, len(study.X), 0.0))
        made.append(Row(f"4.2 {study.name}: attributes", d, study.d, 0.0))
    why = (
        "the columns are a person's income, tax and contributions (AGI, FEDTAX, WSALVAL, ...), and one of them is the "
    )
    return [
        *made,
        claim(
            "4.2 Census holds business statistics", False, "13 columns of persons, rank 12", why + "sum of two others"
        ),
    ]
