"""The attacks against what they replace: refits by scikit-learn, and 64 shadow models."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import dosimeter as dm
from attacks import ridge
from dosimeter import glm
from dosimeter.datasets.papers import adult, iwpc
from dosimeter.glm.attacks.attribute_inversion import white_box
from dosimeter.glm.attacks.membership import membership, removal
from harness.registry import Ratio, Settings, row
from harness.timing import least

SHADOWS, TIMED = 64, 2
"""Shadow models, and how many of them are fitted here; the time is scaled."""
ROWS = 128
"""Rows that are left out of a classifier exactly, for the same reason."""


@row("white box", "The white-box attack against refits", needs=("iwpc",))
def against_refits(settings: Settings) -> Iterator[Ratio]:
    """Three candidates for every warfarin patient, 100 releases, against one Ridge of scikit-learn per candidate."""
    _, X, y = iwpc(settings.data)
    X, y = X[:3855], y[:3855]
    columns, l2 = [11, 12], 0.01
    fit = glm.fit(X, y, glm.Squared(), l2)
    draws = 1e-3 * np.random.default_rng(1).standard_normal((100, 14))
    refits = 50
    attack, peer = least(
        settings.runs,
        lambda: white_box(fit, X, y, columns, draws),
        lambda: ridge(X, y, l2, columns, refits),
    )
    every = peer / refits * 3 * len(X)
    yield Ratio(f"{len(X):,} patients, 100 releases", attack, every, "a Ridge refit for each candidate", 0.01)


@row("membership", "Membership of every row against 64 shadow models", needs=("adult",))
def against_shadows(settings: Settings) -> Iterator[Ratio]:
    """The strongest adversary's test of rows of Adult, against fits of scikit-learn on random halves."""
    split = adult(settings.data)[1]
    X, n, runs = split.X, len(split.X), min(settings.runs, 3)
    halves = [np.random.default_rng(k).permutation(n)[: n // 2] for k in range(TIMED)]
    signed = 2 * split.y - 1
    squared, logistic = glm.fit(X, signed, glm.Squared(), 1e-3), glm.fit(X, split.y, glm.Logistic(), 1e-3)
    some = np.arange(0, n, n // ROWS)[:ROWS]
    ours, theirs = least(
        runs,
        lambda: membership(squared, X, signed, dm.Gaussian(1.0)),
        lambda: [Ridge(alpha=1e-3 * n / 2).fit(X[half], signed[half]) for half in halves],
    )
    peer = f"{SHADOWS} shadow models by scikit-learn"
    yield Ratio(f"squared, Adult, {n:,} rows", ours, theirs * SHADOWS / TIMED, peer)
    ours, theirs = least(
        runs,
        lambda: removal(logistic, X, split.y, some),
        lambda: [LogisticRegression(C=2e3 / n, max_iter=1000).fit(X[half], split.y[half]) for half in halves],
    )
    name = f"logistic, Adult, {n:,} rows, scaled from {ROWS}"
    yield Ratio(name, ours * n / len(some), theirs * SHADOWS / TIMED, peer)
    # Ours are as many exact minimisers as there are rows, one without each; the shadow models are 64.
    yield Ratio("logistic, Adult, one model", ours / len(some), theirs / TIMED, "one shadow model by scikit-learn")
