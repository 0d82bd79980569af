"""[Hannun21] figures 2 to 7 redrawn: values in, markup out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dosimeter.reports.charts import Axis, Series, chart
from dosimeter.reproductions.hannun21_deciles import SHOWN_ITERATIONS, Deciles
from dosimeter.reproductions.hannun21_images import extremes, heuristics
from dosimeter.reproductions.hannun21_table import ImageStudy
from dosimeter.reproductions.hannun21_warfarin import PenaltyCurve
from dosimeter.reproductions.html_page import Figure, strip

CLASSES = {"mnist": ("digit 0", "digit 1"), "cifar": ("plane", "car")}
ETA, MEAN = "η", "mean η of VKORC1"


def histograms(studies: tuple[ImageStudy, ...]) -> Figure:
    """Figure 2."""
    charts = []
    for study in studies:
        edges = np.histogram_bin_edges(study.eta, 50)
        series = []
        for label, name in enumerate(CLASSES[study.name]):
            eta = study.of_class(label)
            count = np.histogram(eta, edges)[0].astype(np.float64)
            series.append(Series(name, edges, count, "bars", mark=float(eta.mean())))
        charts.append(chart(study.title, Axis(ETA), Axis("examples"), series))
    return Figure("Figure 2", "η of each example by class; dashed: the class means.", "".join(charts))


def pictures(studies: tuple[ImageStudy, ...]) -> Figure:
    """Figure 3."""
    lines = []
    for study in studies:
        for which, rows in zip(("smallest", "largest"), extremes(study), strict=True):
            lines.append(
                strip(
                    f"{study.title}, {which} η",
                    [_pixels(study, int(row)) for row in rows],
                    [f"{study.eta[row]:.3f}" for row in rows],
                )
            )
    return Figure("Figure 3", "The eight images with the smallest and the largest η.", "".join(lines))


def _pixels(study: ImageStudy, row: int) -> NDArray[np.uint8]:
    shape = (28, 28) if study.name == "mnist" else (32, 32, 3)
    return np.asarray(np.rint(255 * study.raw.X[row]), dtype=np.uint8).reshape(shape)


def scatter(study: ImageStudy) -> Figure:
    """Figure 4, on 2,000 rows drawn without replacement."""
    sample = np.random.default_rng(12345).choice(len(study.eta), 2000, replace=False)
    charts = [
        chart(
            f"η and the {name}, {study.title}",
            Axis(name),
            Axis(ETA),
            [Series("2,000 examples", value[sample], study.eta[sample], "points")],
        )
        for name, value in heuristics(study).items()
    ]
    return Figure("Figure 4", "η against the loss and the norm of the gradient.", "".join(charts))


def iterations(studies: tuple[ImageStudy, ...]) -> Figure:
    """Figure 5."""
    series = []
    for study in studies:
        deviation = study.reweighting.history[:, 1]
        series.append(Series(study.title, np.arange(len(deviation), dtype=np.float64), deviation))
    markup = chart("IRFIL", Axis("iteration"), Axis("standard deviation of η", log=True), series)
    return Figure("Figure 5", "The weights are taken as constants in these η, as in eq. 29.", markup)


def attacks(curves: tuple[PenaltyCurve, ...]) -> Figure:
    """Figure 6, a to d."""
    l2 = np.array([c.l2 for c in curves])
    mean = np.array([c.eta.mean() for c in curves])
    spread = np.array([c.eta.std(ddof=1) for c in curves])
    charts = [
        chart("(a) IWPC", Axis("λ", log=True), Axis("η of VKORC1, σ = 1", log=True),
              [Series("mean ± std over the patients", l2, mean, spread=spread)]),
    ]  # fmt: skip
    for panel, quantity in (("b", "test MSE"), ("c", "white box"), ("d", "black box")):
        series = [
            Series(f"λ = {c.l2:g}", c.means(), c.figure(quantity), spread=c.releases[quantity].std(axis=1))
            for c in curves
        ]
        y = Axis(quantity if quantity == "test MSE" else f"accuracy of the {quantity}", log=quantity == "test MSE")
        charts.append(chart(f"({panel}) IWPC", Axis(MEAN, log=True), y, series))
    return Figure("Figure 6", "Over σ from 1e-5 to 1; bars: standard deviation over 100 releases.", "".join(charts))


def deciles(study: Deciles, panels: tuple[str, str]) -> list[str]:
    """Two panels of figure 7: the η of each example over the iterations, and the white box by decile."""
    path = study.reweighting.path
    quantiles = np.array([np.quantile(stage.eta, [0.0, 0.1, 0.5, 0.9, 1.0]) for stage in path])
    steps = np.arange(len(path), dtype=np.float64)
    names = ("least", "10 %", "median", "90 %", "most")
    lines = [Series(name, steps, quantiles[:, k]) for k, name in enumerate(names)]
    tenths = np.arange(1.0, 11.0)
    bars = [
        Series(f"iteration {t}", tenths, study.means(t), spread=np.asarray(study.accuracy[t].std(axis=1)))
        for t in SHOWN_ITERATIONS
    ]
    return [
        chart(f"({panels[0]}) {study.name}", Axis("iteration of IRFIL"), Axis("η of the attribute", log=True), lines),
        chart(f"({panels[1]}) {study.name}", Axis("decile of the first η"), Axis("white-box accuracy"), bars),
    ]


def equalising(warfarin: Deciles, census: Deciles) -> Figure:
    """Figure 7, a to d."""
    caption = "σ = 1e-3; (a) and (c) show quantiles over the examples; bars: standard deviation over 100 releases."
    return Figure("Figure 7", caption, "".join([*deciles(warfarin, ("a", "b")), *deciles(census, ("c", "d"))]))
