"""[Geyer19]: Table 1 as arithmetic and retrained with sound accounting, figures 2 and 3, and the second claim."""

from __future__ import annotations

from pathlib import Path

from dosimeter.reproductions import geyer19_arithmetic as arithmetic
from dosimeter.reproductions import geyer19_figures as figures
from dosimeter.reproductions.comparison import PaperReport
from dosimeter.reproductions.geyer19_rows import rows
from dosimeter.reproductions.geyer19_settings import SEEDS
from dosimeter.reproductions.geyer19_study import training_study
from dosimeter.reproductions.html_page import Figure, Reproduction

NAME = "geyer19"


def reproduction(data: Path | None = None, quick: bool = False, seeds: int = SEEDS) -> Reproduction:
    """Without data the arithmetic; quick: also K = 100, and 60 rounds without privacy; otherwise everything.

    seeds: trainings of K = 100 and of K = 1000; K = 10,000 has a tenth of them, at least one.
    """
    comparisons, charts = arithmetic.rows(), list[Figure]()
    if data is not None:
        study = training_study(data, quick, seeds)
        comparisons += rows(study)
        charts = [figures.accuracy(study), figures.update_statistics(study)]
        charts += [] if quick else [figures.rising(study)]
    return Reproduction(PaperReport(NAME, tuple(comparisons)), tuple(charts))
