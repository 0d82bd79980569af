"""[Geyer19] figures 2 and 3 redrawn, and the picture that the second claim has not."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.federated.history import History
from dosimeter.report.charts import Axis, Series, chart
from dosimeter.reproduce.geyer19_study import Study
from dosimeter.reproduce.html_page import Figure

ROUND, ACCURACY = "communication round", "accuracy"
POINTS = 60


def _some(n: int) -> Index:
    return np.unique(np.linspace(0, n - 1, min(n, POINTS)).astype(np.intp))


def _curve(name: str, history: History, column: str = "accuracy", over: FloatArray | None = None) -> Series:
    y = history.columns[column]
    at = _some(len(y))
    x = np.arange(1.0, len(y) + 1) if over is None else over
    return Series(name, x[at], y[at])


def accuracy(told: Study) -> Figure:
    """Figure 2: the first seed of each line, and averaging without privacy."""
    series = [_curve("100 clients, not private", told.plain)]
    series += [_curve(f"{K} clients, private", runs[0]) for K, runs in sorted(told.sound.items(), reverse=True)]
    caption = "ε = 8 and the printed δ, soundly accounted; each curve ends where its rounds do. Simulations."
    together = chart("Accuracy on the test set", Axis(ROUND), Axis(ACCURACY), series)
    early = [Series(s.name, s.x[s.x <= 60], s.y[s.x <= 60]) for s in series]
    return Figure("Figure 2", caption, together + chart("The first 60 rounds", Axis(ROUND), Axis(ACCURACY), early))


def spread(told: Study) -> Figure:
    """Figure 3: accuracy, V_c and U_s without privacy."""
    names = (("accuracy", ACCURACY, False), ("variance", "V_c, between clients", False), ("scale", "U_s", True))
    charts = [
        chart(label, Axis(ROUND), Axis(label, log=log), [_curve(label, told.plain, column)])
        for column, label, log in names
    ]
    return Figure("Figure 3", "K = 100, every client in every round, not private. Internal figures.", "".join(charts))


def rising(told: Study) -> Figure:
    """Accuracy over what was sent: constant against rising m_t, the same (ε, δ)."""
    series = []
    for name, runs in (("constant", told.sound[1000]), ("rising", told.rising)):
        for k, history in enumerate(runs[:2], start=1):
            sent = np.cumsum(history.columns["sampled"]).astype(np.float64)
            series.append(_curve(f"{name}, seed {k}", history, over=sent))
    markup = chart("K = 1000", Axis("updates sent"), Axis(ACCURACY), series)
    return Figure("Constant and rising m_t", "Both end at (8, 1e-5).", markup)
