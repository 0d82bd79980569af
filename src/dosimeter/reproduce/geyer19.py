"""[Geyer19]: Table 1 as arithmetic and trained again with sound accounting, figures 2 and 3, and the second claim."""

from __future__ import annotations

from pathlib import Path

from dosimeter.reproduce import geyer19_arithmetic as arithmetic
from dosimeter.reproduce import geyer19_figures as figures
from dosimeter.reproduce.comparison import Report
from dosimeter.reproduce.geyer19_rows import rows
from dosimeter.reproduce.geyer19_settings import SEEDS
from dosimeter.reproduce.geyer19_study import study
from dosimeter.reproduce.html_page import Figure, Reproduction

NAME = "geyer19"


def reproduction(data: Path | None = None, quick: bool = False, seeds: int = SEEDS) -> Reproduction:
    """Without data the arithmetic; quick: K = 100 as well, and 60 rounds without privacy; else everything.

    seeds: trainings of K = 100 and of K = 1000; K = 10,000 has a tenth of them, at least one.
    """
    told, drawn = arithmetic.rows(), list[Figure]()
    if data is not None:
        trained = study(data, quick, seeds)
        told += rows(trained)
        drawn = [figures.accuracy(trained), figures.spread(trained)]
        drawn += [] if quick else [figures.rising(trained)]
    return Reproduction(Report(NAME, tuple(told)), tuple(drawn))
