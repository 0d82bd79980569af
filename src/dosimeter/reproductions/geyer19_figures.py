"""[Geyer19] figures 2 and 3 redrawn, and a chart for the second claim, which the paper does not have."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.federated.history import History
from dosimeter.reports.charts import Axis, Series, chart
from dosimeter.reproductions.geyer19_study import TrainingStudy
from dosimeter.reproductions.html_page import Figure

ROUND, ACCURACY = "communication round", "accuracy"
POINTS = 60


def _drawn_points(n: int) -> Index:
    return np.unique(np.linspace(0, n - 1, min(n, POINTS)).astype(np.intp))


def _curve(name: str, history: History, column: str = "accuracy", over: FloatArray | None = None) -> Series:
    y = history.columns[column]
    points = _drawn_points(len(y))
    x = np.arange(1.0, len(y) + 1) if over is None else over
    return Series(name, x[points], y[points])


def accuracy(study: TrainingStudy) -> Figure:
    """Figure 2: the first seed of each line, and averaging without privacy."""
    series = [_curve("100 clients, not private", study.not_private)]
    series += [_curve(f"{K} clients, private", runs[0]) for K, runs in sorted(study.sound.items(), reverse=True)]
    caption = "ε = 8 and the printed δ, soundly accounted; each curve ends where its rounds do. Simulations."
    whole = chart("Accuracy on the test set", Axis(ROUND), Axis(ACCURACY), series)
    early = [Series(s.name, s.x[s.x <= 60], s.y[s.x <= 60]) for s in series]
    return Figure("Figure 2", caption, whole + chart("The first 60 rounds", Axis(ROUND), Axis(ACCURACY), early))


def update_statistics(study: TrainingStudy) -> Figure:
    """Figure 3: accuracy, V_c and U_s without privacy."""
    names = (("accuracy", ACCURACY, False), ("variance", "V_c, between clients", False), ("scale", "U_s", True))
    charts = [
        chart(label, Axis(ROUND), Axis(label, log=log), [_curve(label, study.not_private, column)])
        for column, label, log in names
    ]
    return Figure("Figure 3", "K = 100, every client in every round, not private. Internal values.", "".join(charts))


def rising(study: TrainingStudy) -> Figure:
    """Accuracy over the updates sent: constant against rising m_t, at the same (ε, δ)."""
    series = []
    for name, runs in (("constant", study.sound[1000]), ("rising", study.rising)):
        for k, history in enumerate(runs[:2], start=1):
            updates_sent = np.cumsum(history.columns["sampled"]).astype(np.float64)
            series.append(_curve(f"{name}, seed {k}", history, over=updates_sent))
    markup = chart("K = 1000", Axis("updates sent"), Axis(ACCURACY), series)
    return Figure("Constant and rising m_t", "Both end at (8, 1e-5).", markup)
