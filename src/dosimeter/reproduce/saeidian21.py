"""[Saeidian21]: every number of Examples 14 and 17 and every statement of section IV beside ours, and PATE on MNIST."""

from __future__ import annotations

from pathlib import Path

from dosimeter.reproduce import saeidian21_examples as examples
from dosimeter.reproduce import saeidian21_figures as figures
from dosimeter.reproduce import saeidian21_mnist as mnist
from dosimeter.reproduce.comparison import Report
from dosimeter.reproduce.html_page import Reproduction

NAME = "saeidian21"


def reproduction(data: Path | None = None, quick: bool = False) -> Reproduction:
    """All of it; without data, or quick, what needs neither data nor minutes."""
    rows, drawn = examples.rows(), [figures.agreement(), figures.bounds()]
    if data is not None and not quick:
        told = mnist.study(data)
        rows += mnist.rows(told)
        drawn += [figures.learned(told), figures.people(told)]
    return Reproduction(Report(NAME, tuple(rows)), tuple(drawn))
