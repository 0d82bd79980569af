"""[Saeidian21]: every number of Examples 14 and 17 and every claim of section IV beside ours, and PATE on MNIST."""

from __future__ import annotations

from pathlib import Path

from dosimeter.reproductions import saeidian21_examples as examples
from dosimeter.reproductions import saeidian21_figures as figures
from dosimeter.reproductions import saeidian21_mnist as mnist
from dosimeter.reproductions.comparison import PaperReport
from dosimeter.reproductions.html_page import Reproduction

NAME = "saeidian21"


def reproduction(data: Path | None = None, quick: bool = False) -> Reproduction:
    """Everything; without data, or quick, only what needs neither data nor minutes."""
    rows, charts = examples.rows(), [figures.agreement(), figures.bounds()]
    if data is not None and not quick:
        study = mnist.teacher_study(data)
        rows += mnist.rows(study)
        charts += [figures.learned(study), figures.people(study)]
    return Reproduction(PaperReport(NAME, tuple(rows)), tuple(charts))
