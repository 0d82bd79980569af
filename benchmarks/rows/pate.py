"""The exact leakage of a noisy vote against quadrature of the same integrals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dosimeter import pate
from dosimeter.core.noise import Laplace
from harness.registry import Ratio, Settings, row
from harness.timing import least
from pate import CLASSES, GAMMA, by_quad, consensus

SHOWN = 8
"""Histograms that quadrature is timed on."""


@row("pate", "Leakage of a noisy vote against quadrature")
def against_quadrature(settings: Settings) -> Iterator[Ratio]:
    """250 teachers, 10 classes, a consensus of Beta(8, 1), γ = 0.05; seconds of one query."""
    votes, noise = consensus(20_000, CLASSES, np.random.default_rng(1)), Laplace(1 / GAMMA)
    together, alone, peer = least(
        settings.runs,
        lambda: pate.leakage(votes, noise),
        lambda: [pate.leakage(votes[:1], noise) for _ in range(50)],
        lambda: [by_quad(v, GAMMA) for v in votes[:SHOWN]],
    )
    yield Ratio(
        "a query, 20,000 together", together / len(votes), peer / SHOWN, "quad on the integrals of eq. 45", 0.01
    )
    yield Ratio("a query alone", alone / 50, peer / SHOWN, "quad on the integrals of eq. 45")
