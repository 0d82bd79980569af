"""The errata of the first version as rows: each against an independent route, on a small table."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter import glm
from dosimeter.datasets.papers import Split
from dosimeter.reproductions import hannun21_v1 as first
from dosimeter.reproductions.hannun21_images import _warning_row
from dosimeter.reproductions.hannun21_table import ImageStudy, ModelSetting, studies

PRINTED = ((0.04, 5e-4), (0.014, 5e-4), (100.0, 0.5))


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.normal(size=60) > 0).astype(float)
    split = Split(X, y, X, y)
    return ImageStudy("mnist", ModelSetting("linear", glm.Squared(), 0.0, True, PRINTED, PRINTED), split, split)


def by_hand(X, y, weight):
    """‖I‖₂ of each row at σ = 1: weighted least squares refitted with each cell moved slightly in both directions."""
    step = 1e-5

    def solve(X, y):
        return np.linalg.solve(X.T @ (weight[:, None] * X), X.T @ (weight * y))

    norms = []
    for i in range(len(y)):
        J = []
        for j in range(X.shape[1] + 1):
            solutions = []
            for sign in (1, -1):
                Z, t = X.copy(), y.copy()
                if j < X.shape[1]:
                    Z[i, j] += sign * step
                else:
                    t[i] += sign * step
                solutions.append(solve(Z, t))
            J.append((solutions[0] - solutions[1]) / (2 * step))
        norms.append(np.linalg.norm(np.array(J).T @ np.array(J), 2))
    return np.array(norms)


def test_algorithm_1_as_printed_divides_by_the_norm_of_the_information(small):
    """Three rounds by refits with differences, and line 7 as printed."""
    X, y, weight = small.split.X, small.y, np.ones(60)
    for mean, deviation in first.irfil_as_printed(small, rounds=3):
        information = by_hand(X, y, weight)
        eta = np.sqrt(information)
        assert (mean, deviation) == (pytest.approx(eta.mean(), rel=1e-7), pytest.approx(eta.std(ddof=1), rel=1e-6))
        weight = 60 * (weight / information) / np.sum(weight / information)


def test_the_constant_guess_beats_the_unbiased_one_in_simulated_releases(small):
    """The label of the most exposed row from 20,000 noised models, everything else known, and the guess 0."""
    X, y = small.split.X, small.y
    i = int(small.eta.argmax())
    column = np.linalg.solve(X.T @ X, X[i])  # how the weights move with y_i
    noise = np.random.default_rng(1).normal(size=(20_000, 3))
    guess = y[i] + noise @ column / (column @ column)
    row = first.biased_row(small)
    assert np.mean((guess - y[i]) ** 2) >= row.paper * 0.97
    assert abs(guess.mean() - y[i]) < 4 * guess.std() / 20_000**0.5
    assert row.ours == 1.0
    assert not row.ok
    assert row.why


def test_the_two_definitions_differ_and_information_adds(small):
    root, printed = first.definition_rows(small)
    assert (root.paper, root.ours) == (16.0, pytest.approx(4.0))
    assert not root.ok
    assert printed.ours == pytest.approx(np.mean(by_hand(small.split.X, small.y, np.ones(60))), rel=1e-7)
    four, unlike = first.composition_rows(small)
    assert four.ours == pytest.approx(2.0)
    assert unlike.ours == pytest.approx(small.eta.max() * (1 + 4 + 9 + 16) ** 0.5)
    assert unlike.paper == pytest.approx(small.eta.max() * (1 + 2 + 3 + 4))
    assert all(row.why for row in (four, unlike))


def test_a_perfect_warning_does_not_have_a_low_recall():
    """The highest tenth of anything finds at most a tenth of the rows: that could not fail, this can."""
    rng = np.random.default_rng(2)
    eta = rng.gamma(2.0, size=4000)
    above = eta > eta.mean()
    assert not _warning_row("η itself", eta, above).ok
    assert not _warning_row("nothing", rng.random(4000), above).ok
    # Right where it is high, and silent about three quarters of the others.
    half_blind = np.where(rng.random(4000) < 0.25, eta, rng.random(4000) * eta.min())
    assert _warning_row("a part", half_blind, above).ok


@pytest.mark.slow
@pytest.mark.paper
def test_what_algorithm_1_as_printed_does_on_the_papers_images(papers_data):
    studies_by_name = studies(papers_data)
    ends = {}
    for study in (studies_by_name["mnist"][0], *studies_by_name["cifar"]):
        history = first.irfil_as_printed(study)
        ratio = history[:, 1] / history[:, 0]
        ends[study.title] = (round(float(ratio[0]), 2), round(float(ratio[-1]), 2))
    assert ends == {"linear mnist": (0.34, 0.17), "linear cifar": (0.32, 0.67), "logistic cifar": (0.48, 1.00)}
