"""[Hannun21] section 6: every printed number and every claim of 6.2 to 6.4 beside ours, and the figures.

`rows` is the short part (Table 1 without IRFIL); `reproduction` is all of it.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from dosimeter.reproductions import hannun21_deciles as deciles
from dosimeter.reproductions import hannun21_figures as figures
from dosimeter.reproductions import hannun21_images as images
from dosimeter.reproductions import hannun21_v1 as first_text
from dosimeter.reproductions import hannun21_warfarin as warfarin
from dosimeter.reproductions.comparison import PaperReport, Row, claim
from dosimeter.reproductions.hannun21_table import (
    SETTINGS,
    ImageStudy,
    in_principal_components,
    plain_rows,
    reweighted_rows,
    rule_rows,
    studies,
    targets,
)
from dosimeter.reproductions.html_page import Reproduction

__all__ = ["SETTINGS", "in_principal_components", "reproduction", "rows", "targets"]

NAME = "hannun21"
_ENCODING = (
    "the published program drops the first level of each categorical column of IWPC (the last of Adult), which gives "
    "its printed numbers; the number of columns is the same"
)


def rows(data: Path) -> PaperReport:
    """Every number of the model rows of Table 1 without IRFIL."""
    return PaperReport(NAME, tuple(chain.from_iterable(plain_rows(s) for pair in studies(data).values() for s in pair)))


def reproduction(data: Path, quick: bool = False) -> Reproduction:
    """Everything; quick: Table 1 without IRFIL, and what the first version says of its notion."""
    pairs = studies(data)
    four = tuple(chain.from_iterable(pairs.values()))
    if quick:
        plain = chain.from_iterable(plain_rows(s) for s in four)
        return Reproduction(PaperReport(NAME, (*plain, *first_text.quick_rows(four[0]))), ())
    curves = warfarin.curves(data)
    decile_studies = deciles.warfarin(data), deciles.census(data)
    all_rows = [
        *chain.from_iterable(plain_rows(s) for s in four),
        *chain.from_iterable(reweighted_rows(s) for s in four),
        *_sizes(four, *decile_studies),
        *chain.from_iterable(rule_rows(*pair) for pair in pairs.values()),
        *image_rows(pairs),
        *warfarin.rows(curves),
        *chain.from_iterable(deciles.rows(decile_study) for decile_study in decile_studies),
        *(deciles.individual_row(decile_study) for decile_study in decile_studies),
        deciles.pipeline_row(decile_studies[0]),
        *first_text.rows(four),
    ]
    redrawn = (
        figures.histograms(four),
        figures.pictures(four),
        figures.scatter(four[0]),
        figures.iterations(four),
        figures.attacks(curves),
        figures.equalising(*decile_studies),
    )
    return Reproduction(PaperReport(NAME, tuple(all_rows)), redrawn)


def image_rows(pairs: dict[str, tuple[ImageStudy, ...]]) -> list[Row]:
    """6.2 and 6.3."""
    four = tuple(chain.from_iterable(pairs.values()))
    return [
        *chain.from_iterable(images.class_rows(s) for s in four),
        *images.separation_rows(pairs["mnist"], pairs["cifar"]),
        *chain.from_iterable(images.extreme_rows(s) for s in four),
        *(images.overlap_row(*pair) for pair in pairs.values()),
        *images.heuristic_rows(four[0]),
        *chain.from_iterable(images.reweighting_rows(s) for s in four),
        images.fairness_row(four[0]),
    ]


def _sizes(four: tuple[ImageStudy, ...], iwpc: deciles.Deciles, adult: deciles.Deciles) -> list[Row]:
    """6.1: rows and columns."""
    mnist, cifar = four[0].split, four[2].split
    counts = (
        ("MNIST training examples", 12665, len(mnist.y)),
        ("CIFAR-10 training examples", 10000, len(cifar.y)),
        ("IWPC examples", 4819, len(iwpc.split.y) + len(iwpc.split.y_test)),
        ("IWPC features", 14, iwpc.split.X.shape[1]),
        ("Adult training examples", 30162, len(adult.split.y)),
        ("Adult test examples", 15060, len(adult.split.y_test)),
        ("Adult features", 86, adult.split.X.shape[1]),
    )
    sizes = [Row(f"6.1 {name}", paper, ours, 0.0) for name, paper, ours in counts]
    return [*sizes, claim("6.1 IWPC: the last level of each nominal is dropped", False, "first level", _ENCODING)]
