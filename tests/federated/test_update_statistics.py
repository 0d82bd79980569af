"""V_c and U_s, accumulated in blocks, against their definitions on the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import CannotMeasure
from dosimeter.federated import (
    Constant,
    Curator,
    FixedClip,
    PoissonSampling,
    PrivacyBudget,
    UpdateBatch,
    UpdateStatistics,
)


def by_definition(X: np.ndarray) -> tuple[float, float]:
    """V_c and U_s of [Geyer19] entry by entry, in long doubles."""
    X = X.astype(np.longdouble)
    mu = X.sum(axis=0) / len(X)
    return float((((X - mu) ** 2).sum(axis=0) / len(X)).mean()), float((mu**2).mean())


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("sizes", [[40], [1, 39], [7, 13, 20]])
def test_any_chunks_give_the_definition(sizes: list[int], offset: float) -> None:
    X = np.random.default_rng(1).normal(size=(40, 9)) + offset
    statistics = UpdateStatistics()
    for part in np.split(X, np.cumsum(sizes)[:-1]):
        statistics.add(part)
    variance, scale = by_definition(X)
    assert statistics.variance == pytest.approx(variance, rel=1e-9)
    assert statistics.scale == pytest.approx(scale, rel=1e-12)


def test_the_curator_shows_the_updates_before_the_clip() -> None:
    statistics = UpdateStatistics()
    curator = Curator(PoissonSampling(10), Constant(10, 1.0), PrivacyBudget(50, 1e-2), FixedClip(0.01))
    state = curator.open_round(curator.start(np.zeros(2)))
    X = np.random.default_rng(0).normal(size=(10, 2))
    X[3, 0] = np.nan
    curator.close_round(state, [UpdateBatch(np.arange(10), X)], observe=statistics.observe)
    variance, scale = by_definition(np.delete(X, 3, axis=0))
    assert statistics.clients == 9
    assert (statistics.variance, statistics.scale) == (pytest.approx(variance), pytest.approx(scale))


def test_rows_whose_squares_overflow_are_left_out_and_counted() -> None:
    statistics = UpdateStatistics()
    statistics.add(np.array([[1.0, 1.0], [1e300, 0.0]]))
    assert (statistics.clients, statistics.left_out, statistics.variance) == (1, 1, 0.0)


def test_without_updates_the_statistics_are_undefined() -> None:
    statistics = UpdateStatistics()
    statistics.add(np.full((1, 2), 1e300))
    with pytest.raises(CannotMeasure, match="no update"):
        _ = statistics.variance
    with pytest.raises(CannotMeasure, match="no update"):
        _ = statistics.scale
