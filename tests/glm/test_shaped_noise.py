"""Shaped noise against the second derivative of the KL divergence of refits, and the score of drawn releases."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.releases.shaped_noise import EXPONENTS, design, expected_excess_loss, shape_noise

from .problems import targets


class Small:
    """A table small enough to get the information about all its cells at once by differences."""

    def __init__(self, n=6, d=2, intercept=False, weighted=False, seed=0):
        rng = np.random.default_rng(seed)
        self.X = rng.standard_normal((n, d)) * np.array([1.0, 3.0, 0.4])[:d] + 0.3
        self.y = self.X @ rng.standard_normal(d) + rng.standard_normal(n)
        self.omega = rng.uniform(0.3, 2.0, n) if weighted else np.ones(n)
        self.intercept, self.l2 = intercept, 0.05

    @property
    def fit(self):
        return glm.fit(self.X, self.y, glm.Squared(), self.l2, sample_weight=self.omega, intercept=self.intercept)

    def law(self, table, p, c, loss):
        """Mean and covariance of the release of a table (n, d + 1), by plain linear algebra."""
        X, y = table[:, :-1], table[:, -1]
        d, n = X.shape[1], len(X)
        X = np.column_stack([X, np.ones(n)]) if self.intercept else X
        penalty = np.append(np.full(d, n * self.l2), [0.0] * self.intercept)
        H = (X * self.omega[:, None]).T @ X + np.diag(penalty)
        values, U = np.linalg.eigh(H)
        power = (U * values**-p) @ U.T
        scale = c if loss is None else 2 * loss / np.trace(H @ power)
        return np.linalg.solve(H, X.T @ (self.omega * y)), scale * power

    def information(self, p, c=None, loss=None, h=1e-4):
        """(n(d + 1), n(d + 1)) second derivative of KL(now || moved) by every pair of cells, targets included."""
        table = np.column_stack([self.X, self.y])
        w, Sigma = self.law(table, p, c, loss)

        def kl(step):
            moved, other = self.law(table + step.reshape(table.shape), p, c, loss)
            gap = moved - w
            # log det of 1 + E by log1p of its eigenvalues: KL is of order h², far below the digits of a plain log.
            E = np.linalg.eigvals(np.linalg.solve(other, Sigma - other)).real
            return 0.5 * (np.sum(E - np.log1p(E)) + gap @ np.linalg.solve(other, gap))

        k = table.size
        unit = h * np.eye(k)

        def bend(step):
            return (kl(step) + kl(-step)) / h**2

        diagonal = np.array([bend(unit[j]) for j in range(k)])
        out = np.diag(diagonal)
        for i in range(k):
            for j in range(i):
                out[i, j] = out[j, i] = (bend(unit[i] + unit[j]) - diagonal[i] - diagonal[j]) / 2
        return out


def top(information, cells):
    cells = np.asarray(cells).ravel()
    return float(np.sqrt(np.linalg.eigvalsh(information[np.ix_(cells, cells)])[-1]))


CASES = [
    (p, by, intercept, weighted)
    for p, by in [(1.0, "c"), (0.5, "c"), (1.5, "loss"), (0.0, "loss"), (2.0, "c"), (1.0, "loss")]
    for intercept, weighted in [(False, False), (True, True)]
]


@pytest.mark.parametrize(("p", "by", "intercept", "weighted"), CASES)
def test_every_reading_is_the_curvature_of_the_kl_divergence(p, by, intercept, weighted):
    small = Small(intercept=intercept, weighted=weighted)
    options = {"c": 3.0} if by == "c" else {"excess_loss": 2.0}
    truth = small.information(p, c=options.get("c"), loss=options.get("excess_loss"))
    leak = shape_noise(small.fit, small.X, small.y, p=p, **options).leakage
    n, d = small.X.shape
    cell = np.arange(n * (d + 1)).reshape(n, d + 1)
    close = dict(rtol=2e-5, atol=1e-5)  # differences of a KL divergence of 1e-8
    np.testing.assert_allclose(leak.cells, np.sqrt(np.diag(truth)).reshape(n, d + 1)[:, :d], **close)
    np.testing.assert_allclose(leak.labels, np.sqrt(np.diag(truth)).reshape(n, d + 1)[:, d], **close)
    np.testing.assert_allclose(leak.examples, [top(truth, cell[i]) for i in range(n)], **close)
    np.testing.assert_allclose(leak.attribute([0, 1]), [top(truth, cell[i, :2]) for i in range(n)], **close)
    np.testing.assert_allclose(leak.without_target().examples, leak.attribute([0, 1]), **close)
    np.testing.assert_allclose(leak.attributes, [top(truth, cell[:, j]) for j in range(d)], **close)
    np.testing.assert_allclose(leak.dataset, top(truth, cell), **close)
    np.testing.assert_allclose(leak.matrix(3), truth[np.ix_(cell[3], cell[3])], rtol=1e-4, atol=1e-5)
    assert leak.subset([1, 4], [1], include_target=True) == pytest.approx(top(truth, cell[[1, 4]][:, [1, 2]]), rel=2e-5)
    mask = np.random.default_rng(3).random((n, d + 1)) < 0.5
    assert leak.mask(mask) == pytest.approx(top(truth, cell[mask]), rel=2e-5)
    # A tied column is one unknown on every row of its group: the sum of its cells' directions.
    tie = np.zeros((n * (d + 1), 3 * d + 1))
    tie[cell[:3, 0], 0] = 1.0
    tie[cell[:3, 1:].ravel(), np.arange(1, 3 * d + 1)] = 1.0
    tied = leak.group(["a"] * 3 + ["b"] * 3, tied=[0])["a"]
    assert tied == pytest.approx(np.sqrt(np.linalg.eigvalsh(tie.T @ truth @ tie)[-1]), rel=2e-5)


def test_the_score_of_drawn_releases_has_the_information_as_its_covariance():
    """Monte Carlo: releases drawn from N(w, Σ), the score by differences of the log density through refits."""
    small, p, c = Small(n=12, d=3, seed=4), 1.0, 40.0
    table = np.column_stack([small.X, small.y])
    noise = shape_noise(small.fit, small.X, small.y, p=p, c=c)
    w, Sigma = small.law(table, p, c, None)
    draws = w + np.random.default_rng(8).standard_normal((400_000, 3)) @ np.linalg.cholesky(Sigma).T

    def log_density(step):
        mean, cov = small.law(table + step, p, c, None)
        white = np.linalg.solve(np.linalg.cholesky(cov), (draws - mean).T)
        return -0.5 * np.einsum("ij,ij->j", white, white) - 0.5 * np.linalg.slogdet(cov)[1]

    row, h, score = 5, 1e-4, []
    for j in range(4):
        step = np.zeros_like(table)
        step[row, j] = h
        score.append((log_density(step) - log_density(-step)) / (2 * h))
    drawn = np.cov(np.array(score))
    ours, without = noise.leakage.matrix(row), noise.frozen.matrix(row)
    error = 5 * np.sqrt(
        12 * np.outer(np.diag(ours), np.diag(ours)) / 400_000
    )  # a score with χ² tails has kurtosis <= 15
    assert (np.abs(drawn - ours) < error).all()
    assert (np.abs(drawn - without) > error)[:3, :3].any(), "the test must be able to see the extra term"


def test_for_the_inverse_hessian_the_extra_term_is_the_one_in_print():
    """h H⁻¹ + uuᵀ, times ω², from an explicit inverse."""
    small = Small(n=9, d=3, weighted=True)
    H = np.linalg.inv(small.law(np.column_stack([small.X, small.y]), 1.0, 1.0, None)[1])
    noise = shape_noise(small.fit, small.X, small.y, c=0.7)
    for i, x in enumerate(small.X):
        u = np.linalg.solve(H, x)
        truth = small.omega[i] ** 2 * (x @ u * np.linalg.inv(H) + np.outer(u, u))
        np.testing.assert_allclose(noise.floor.without_target().matrix(i), truth, rtol=1e-9, atol=1e-12)
        assert noise.floor.labels[i] == 0.0


@pytest.mark.parametrize("p", [0.0, 0.7, 1.0, 2.0])
def test_a_stated_loss_is_the_loss_of_drawn_noise(p):
    small = Small(n=30, d=3)
    noise = shape_noise(small.fit, small.X, small.y, excess_loss=4.0, p=p)
    assert noise.excess_loss == pytest.approx(4.0, rel=1e-12)
    w = small.fit.w
    drawn = w + np.random.default_rng(2).multivariate_normal(np.zeros(3), noise.covariance, 100_000)

    def objective(w):
        return 0.5 * np.sum((w @ small.X.T - small.y) ** 2, axis=-1) + 0.5 * 30 * small.l2 * np.sum(w * w, axis=-1)

    excess = objective(drawn) - objective(w)
    assert excess.mean() == pytest.approx(4.0, abs=5 * excess.std() / np.sqrt(100_000))
    assert expected_excess_loss(small.fit, dm.CorrelatedGaussian(noise.covariance)) == pytest.approx(4.0, rel=1e-9)


def test_the_second_order_loss_of_other_noises_and_models():
    small = Small(n=30, d=3)
    H = np.linalg.inv(shape_noise(small.fit, small.X, small.y, c=1.0).covariance)
    assert expected_excess_loss(small.fit, dm.Laplace(0.5)) == pytest.approx(0.25 * np.trace(H), rel=1e-9)
    with pytest.raises(dm.Refusal, match="not centred"):
        expected_excess_loss(small.fit, dm.Gumbel(1.0))
    y = (small.y > np.median(small.y)).astype(float)
    fit = glm.fit(small.X, y, glm.Softmax(2, 0), 0.1)
    logistic = glm.fit(small.X, y, glm.Logistic(), 0.1)
    assert expected_excess_loss(fit, dm.Gaussian(0.3)) == pytest.approx(
        expected_excess_loss(logistic, dm.Gaussian(0.3))
    )


def test_without_a_shape_and_with_a_public_scale_it_is_ordinary_gaussian_noise():
    small = Small(n=20, d=3, intercept=True, weighted=True)
    noise = shape_noise(small.fit, small.X, small.y, c=0.25, p=0.0)
    plain = glm.measure(small.fit, small.X, small.y, dm.Gaussian(0.5))
    np.testing.assert_allclose(noise.leakage.examples, plain.examples, rtol=1e-9)
    np.testing.assert_allclose(noise.leakage.cells, plain.cells, rtol=1e-9)
    assert noise.floor.examples.max() == 0.0


def test_the_floor_is_the_same_at_every_scale_and_bounds_every_reading():
    small = Small(n=20, d=3)
    floors, leaks = [], []
    for c in (1e-3, 1.0, 1e6):
        noise = shape_noise(small.fit, small.X, small.y, c=c, p=1.25)
        floors.append(noise.floor.examples)
        leaks.append(noise.leakage)
        assert (noise.leakage.examples >= noise.frozen.examples * (1 - 1e-12)).all()
        assert (noise.leakage.cells >= noise.floor.cells * (1 - 1e-12)).all()
        assert noise.leakage.dataset >= noise.floor.dataset
    np.testing.assert_allclose(floors[0], floors[2], rtol=1e-12)
    assert all((a.examples > b.examples).all() for a, b in pairwise(leaks))


def test_a_change_of_unit_before_the_shape_moves_the_figures_by_that_unit():
    small, scale = Small(n=20, d=3), np.diag([10.0, 0.1, 2.0])
    raw = shape_noise(small.fit, small.X, small.y, c=1.0).leakage
    other = shape_noise(small.fit, small.X, small.y, c=1.0, input_map=scale, target_unit=4.0).leakage
    np.testing.assert_allclose(other.cells, raw.cells * np.diag(scale), rtol=1e-10)
    np.testing.assert_allclose(other.labels, 4 * raw.labels, rtol=1e-10)


def test_nearly_equal_eigenvalues_lose_no_digits():
    """Q orthonormal: H is a multiple of the identity, where a divided difference would be 0/0."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((40, 5)))[0]
    y = rng.standard_normal(40)
    exact = None
    for spread in (0.0, 1e-13, 1e-9):
        X = Q * (1 + spread * np.arange(5))
        eta = shape_noise(glm.fit(X, y, glm.Squared()), X, y, c=1.0, p=1.7).leakage.examples
        exact = eta if exact is None else exact
        np.testing.assert_allclose(eta, exact, rtol=1e-7)


@pytest.mark.parametrize("loss", [glm.Logistic(), glm.Poisson(), glm.Softmax(2, 0)])
def test_a_shape_from_a_hessian_that_moves_with_the_weights_is_refused_and_a_public_one_offered(loss):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 2))
    y = (rng.random(30) < 0.5).astype(float)
    fit = glm.fit(X, y, loss, 0.1)
    with pytest.raises(dm.CannotMeasure, match="public shape"):
        shape_noise(fit, X, y, c=1.0)
    assert np.isfinite(glm.measure(fit, X, y, dm.CorrelatedGaussian(np.diag([1.0, 2.0]))).examples).all()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"c": 1.0, "excess_loss": 1.0},
        {"c": 0.0},
        {"excess_loss": np.nan},
        {"c": 1.0, "p": 2.5},
        {"c": 1.0, "p": -1},
    ],
)
def test_arguments_that_do_not_determine_a_covariance_are_refused(options):
    small = Small()
    with pytest.raises(dm.Refusal):
        shape_noise(small.fit, small.X, small.y, **options)


def test_readings_that_would_take_too_long_are_refused_before_they_start():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4000, 90)), rng.standard_normal(4000)
    leak = shape_noise(glm.fit(X, y, glm.Squared(), 0.1), X, y, c=1.0).leakage
    for read in (lambda: leak.attributes, lambda: leak.dataset, lambda: leak.mask(np.ones((4000, 90)))):
        with pytest.raises(dm.CannotMeasure, match="too long"):
            read()


@pytest.fixture(scope="module")
def designed():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200, 4)) * np.array([1.0, 0.2, 0.05, 2.0])
    loss = glm.Logistic()
    y = targets(loss, X @ np.array([1.0, 2.0, -3.0, 0.3]), rng)
    fit = glm.fit(X, y, loss, 1e-3)
    return fit, X, y, design(fit, X, y, excess_loss=1.5, tolerance=5e-3)


def test_the_design_keeps_its_loss_and_its_certificate(designed):
    fit, X, y, noise_design = designed
    assert expected_excess_loss(fit, noise_design.noise) == pytest.approx(1.5, rel=1e-9)
    assert glm.measure(fit, X, y, noise_design.noise).examples.max() == pytest.approx(noise_design.highest, rel=1e-9)
    assert noise_design.bound <= noise_design.highest <= 1.005 * noise_design.bound
    assert "another table" in noise_design.not_covered[0]


def test_no_other_covariance_of_that_loss_beats_the_certificate(designed):
    fit, X, y, noise_design = designed
    rng = np.random.default_rng(0)
    A = fit.factor.matrix
    for scale in (0.01, 0.1, 0.5, 2.0):
        for _ in range(25):
            T = np.linalg.cholesky(noise_design.noise.covariance) @ (np.eye(4) + scale * rng.standard_normal((4, 4)))
            Sigma = T @ T.T
            Sigma *= 1.5 / expected_excess_loss(fit, dm.CorrelatedGaussian(Sigma))
            assert glm.measure(fit, X, y, dm.CorrelatedGaussian(Sigma)).examples.max() >= noise_design.bound * (
                1 - 1e-9
            )
    H, U = np.linalg.eigh(np.linalg.inv(A @ A.T))
    for p in EXPONENTS:
        Sigma = (U * H**-p) @ U.T
        Sigma *= 1.5 / expected_excess_loss(fit, dm.CorrelatedGaussian(Sigma))
        assert glm.measure(fit, X, y, dm.CorrelatedGaussian(Sigma)).examples.max() >= noise_design.highest * (1 - 1e-9)


def test_a_design_on_one_half_serves_the_other_half(designed):
    """Its purpose: the first half is public, and the second is released with the first one's covariance."""
    _, X, y, _ = designed
    public, private = slice(0, 100), slice(100, 200)
    fits = [glm.fit(X[s], y[s], glm.Logistic(), 1e-3) for s in (public, private)]
    S = design(fits[0], X[public], y[public], excess_loss=1.0, tolerance=0.02).noise.covariance
    S = S / expected_excess_loss(fits[1], dm.CorrelatedGaussian(S))
    shaped_, plain = (
        glm.measure(fits[1], X[private], y[private], k).examples.max()
        for k in (
            dm.CorrelatedGaussian(S),
            dm.Gaussian(1 / np.sqrt(expected_excess_loss(fits[1], dm.Gaussian(1.0)))),
        )
    )
    assert shaped_ < 0.7 * plain
