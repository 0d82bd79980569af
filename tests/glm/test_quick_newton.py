"""The fit with few Hessians: the same minimiser, or none of its business."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import dosimeter as dm
from dosimeter import Refusal, glm
from dosimeter.core.engine import LocalEngine
from dosimeter.glm.fitting import quick_newton

from .problems import adversarial, ordinary, targets


@pytest.fixture
def always_quick(monkeypatch):
    """Every table counts as long; the list holds what the quick method answered."""
    answers = []
    original = quick_newton.minimise

    def recorded(*arguments, **options):
        answers.append(original(*arguments, **options))
        return answers[-1]

    monkeypatch.setattr(quick_newton, "LONG", 0.0)
    monkeypatch.setattr(quick_newton, "minimise", recorded)
    return answers


def careful(problem, **options):
    """The other method: an engine is always used by it."""
    return problem.fit(engine=LocalEngine(), **options)


def same(ours, truth):
    """Equal up to the rounding of margins."""
    scale = 1.0 + np.abs(truth.margin).max()
    np.testing.assert_allclose(ours.margin, truth.margin, rtol=1e-10, atol=1e-12 * scale)
    np.testing.assert_allclose(ours.residual, truth.residual, rtol=1e-8, atol=1e-13)
    np.testing.assert_allclose(ours.curvature, truth.curvature, rtol=1e-8)
    H, H_truth = (f.factor.matrix @ f.factor.matrix.T for f in (ours, truth))
    size = np.sqrt(np.diag(H_truth))
    assert np.abs((H - H_truth) / size / size[:, None]).max() < 1e-8
    assert ours.condition == pytest.approx(truth.condition, rel=1e-6)
    assert ours.reach == pytest.approx(truth.reach)
    np.testing.assert_allclose(ours.fingerprint, truth.fingerprint, atol=1e-12)
    np.testing.assert_array_equal(ours.fingerprint_direction, truth.fingerprint_direction)


PLAIN = [
    p
    for p in ordinary(n=60)
    if not isinstance(p.loss, glm.Softmax | glm.Squared) and p.loss.convex and not p.loss.has_kinks
]
"""Losses with kinks, or that are not convex, always take the careful way."""


OTHERS = [
    p for p in ordinary(n=60) if not isinstance(p.loss, glm.Softmax) and not (p.loss.convex and not p.loss.has_kinks)
]


@pytest.mark.parametrize("problem", OTHERS, ids=lambda p: p.name)
def test_other_losses_are_left_to_the_careful_method(problem, always_quick):
    problem.fit()
    assert not always_quick


@pytest.mark.parametrize("problem", PLAIN, ids=lambda p: p.name)
def test_the_same_minimiser_as_the_careful_method(problem, always_quick):
    truth = careful(problem)
    start = None if problem.loss.name == "logistic" else truth.w + 0.1
    ours = problem.fit(start=start)
    assert always_quick[-1] is not None
    same(ours, truth)
    assert ours.gradient_norm < 1e-11
    assert ours.decrement < 1e-12
    # Figures, too.
    figures, expected = (glm.measure(f, problem.X, problem.y, dm.Gaussian(1.0)).examples for f in (ours, truth))
    np.testing.assert_allclose(figures, expected, rtol=1e-9)


CURVED = [p for p in adversarial() if not isinstance(p.loss, glm.Softmax | glm.Squared)]


@pytest.mark.parametrize("problem", CURVED, ids=lambda p: p.name)
def test_hard_tables_end_where_the_careful_method_ends(problem, always_quick):
    same(problem.fit(start=np.zeros(problem.X.shape[1])), careful(problem))


def wide(n=3000, d=40, seed=0, decades=0.0):
    rng = np.random.default_rng(seed)
    U, _, V = np.linalg.svd(rng.standard_normal((n, d)), full_matrices=False)
    X = np.sqrt(n) * (U * np.logspace(0, -decades, d)) @ V
    y = (rng.random(n) < expit(2 * X @ rng.standard_normal(d) / np.sqrt(d))).astype(float)
    return X, y


@pytest.mark.parametrize("decades", [0.0, 1.0, 1.8, 3.0])
def test_columns_of_any_condition_number_below_the_easy_ones(decades, always_quick):
    X, y = wide(decades=decades)
    ours = glm.fit(X, y, glm.Logistic(), 1e-9, intercept=True)
    assert always_quick[-1] is not None
    truth = glm.fit(X, y, glm.Logistic(), 1e-9, intercept=True, engine=LocalEngine())
    assert truth.condition > 0.5 * 10**decades
    np.testing.assert_allclose(ours.margin, truth.margin, rtol=1e-9, atol=1e-10)
    figures, expected = (glm.measure(f, X, y, dm.Gaussian(1.0)).examples for f in (ours, truth))
    np.testing.assert_allclose(figures, expected, rtol=1e-9)


def test_dependent_columns_are_left_to_the_careful_method(always_quick):
    X, y = wide(n=500, d=5, decades=6.0)
    ours = glm.fit(X, y, glm.Logistic(), 0.0)
    assert always_quick[-1] is None
    same(ours, glm.fit(X, y, glm.Logistic(), 0.0, engine=LocalEngine()))


def test_separated_targets_are_left_to_the_careful_method(always_quick):
    X, _ = wide(n=500, d=5)
    with pytest.raises(Refusal, match="separate"):
        glm.fit(X, (X[:, 0] > 0).astype(float), glm.Logistic(), 0.0)
    assert always_quick[-1] is None


def test_a_short_fit_is_the_start_where_rows_are_many(always_quick):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40 * 32 * 4, 3))
    y = targets(glm.Poisson(), X[:, 0] - 1.0, rng)
    ours = glm.fit(X, y, glm.Poisson(), 1e-3, intercept=True)
    # The fit of some rows, which has no start itself, is left to the careful method.
    assert len(always_quick) == 1
    assert always_quick[0] is not None
    theirs = PoissonRegressor(alpha=1e-3, tol=1e-12, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.w, np.append(theirs.coef_, theirs.intercept_), rtol=1e-5)
    assert ours.gradient_norm < 1e-9


def test_some_rows_without_a_minimiser_are_no_start():
    """Every thirty-second row has class 1, so those rows alone determine nothing."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((20_000, 60))
    y = targets(glm.Logistic(), X[:, 0], rng)
    y[::32] = 1.0
    assert quick_newton.is_long(X, True)
    ours = glm.fit(X, y, glm.Logistic(), 0.0, intercept=True)
    assert ours.gradient_norm < 1e-9
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.w, np.append(theirs.coef_, theirs.intercept_), rtol=1e-3, atol=1e-6)


def test_rows_without_weight_do_not_count(always_quick):
    X, y = wide(n=400, d=4)
    weight = np.ones(400)
    X[:10], weight[:10] = 1e6, 0.0
    ours = glm.fit(X, y, glm.Logistic(), 0.01, sample_weight=weight)
    assert always_quick[-1] is not None
    same(ours, glm.fit(X, y, glm.Logistic(), 0.01, sample_weight=weight, engine=LocalEngine()))


def test_a_start_of_the_wrong_shape_is_refused(always_quick):
    X, y = wide(n=100, d=3)
    with pytest.raises(Refusal, match="parameters must be finite and of shape"):
        glm.fit(X, y, glm.Logistic(), 0.1, start=np.zeros(7))


def test_a_long_step_is_cut(always_quick):
    """From far away a full step of Newton's method overshoots."""
    X, y = wide(n=400, d=4)
    ours = glm.fit(X, y, glm.Logistic(), 1e-3, start=np.full(4, 4.0))
    same(ours, glm.fit(X, y, glm.Logistic(), 1e-3, engine=LocalEngine()))
