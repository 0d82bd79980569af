"""Figures with a scaler that was fitted on the table, against refits of the whole pipeline at nearby tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.scale_ladder import rung
from dosimeter.glm.releases.calibrate import HIGHEST, highest_group
from dosimeter.glm.releases.release_planning import plan
from dosimeter.glm.scalers.fitted_scaler import MOMENTS, floor_of
from tests.glm.whole_pipeline import fold, information, minimiser, norm, released, residual_and_curvature

LOSSES = {"squared": glm.Squared(), "logistic": glm.Logistic(), "poisson": glm.Poisson()}
RNG = np.random.default_rng(12)
N, D = 16, 3
RAW = RNG.normal(size=(N, D)) * [3.0, 1.0, 0.2] + [10.0, 0.0, 5.0]
RAW[0, 0] = 30.0  # one row far out
SCORE = (RAW[:, 0] - 10) / 4 + RAW[:, 1] + RNG.normal(size=N)
TARGETS = {
    "squared": SCORE,
    "logistic": (SCORE + RNG.normal(size=N) > 0).astype(float),
    "poisson": RNG.poisson(2.0, N).astype(float),
}
ALL = np.ones(D, dtype=bool)
SOME = np.array([True, False, True])


def standardised(U, scaled=ALL):
    m, s = np.where(scaled, U.mean(axis=0), 0.0), np.where(scaled, U.std(axis=0), 1.0)
    return (U - m) / s, m, s


def case(loss, l2, sigma, scaled=ALL, **options):
    X, _, s = standardised(RAW, scaled)
    y = TARGETS[loss]
    fit = glm.fit(X, y, LOSSES[loss], l2, intercept=True)
    return glm.measure(fit, X, y, dm.Gaussian(sigma), scaled=scaled, **options), fit, X, y, s


def one_at_a_time(rows, columns, s):
    out = np.zeros((len(rows) * len(columns), N, D))
    for k, (i, j) in enumerate((i, j) for i in rows for j in columns):
        out[k, i, j] = s[j]
    return out


def refit(loss, l2, sigma, scaled=ALL):
    return lambda moved: released(RAW + moved, TARGETS[loss], loss, l2, sigma, fitted=scaled)


@pytest.mark.parametrize("sigma", [0.1, 200.0])
@pytest.mark.parametrize("l2", [1e-3, 0.5])
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_and_cells_are_those_of_the_refitted_pipeline(loss, l2, sigma):
    leak, _, _, _, s = case(loss, l2, sigma)
    for row in (0, 4):
        I = information(refit(loss, l2, sigma), one_at_a_time([row], range(D), s))
        np.testing.assert_allclose(leak.without_target().matrix(row), I, rtol=1e-6, atol=1e-8 * np.abs(I).max())
        assert leak.attribute([0, 1, 2])[row] == pytest.approx(norm(I), rel=1e-7)
        np.testing.assert_allclose(leak.cells[row], np.sqrt(np.diag(I)), rtol=1e-7)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_person_of_several_rows_with_a_tied_column(loss):
    leak, _, _, _, s = case(loss, 0.05, 1.0)
    person = np.arange(N)
    person[[3, 8]] = 0
    separate = one_at_a_time([0, 3, 8], [0, 2], s)
    tied = one_at_a_time([0, 3, 8], [1], s).sum(axis=0, keepdims=True)
    I = information(refit(loss, 0.05, 1.0), np.concatenate([separate, tied]))
    figure = leak.without_target().group(person.tolist(), tied=[1])[0]
    assert figure == pytest.approx(norm(I), rel=1e-7)


def test_only_the_standardised_columns_have_a_scaler():
    leak, fit, X, y, s = case("squared", 0.05, 3.0, SOME)
    frozen = glm.measure(fit, X, y, dm.Gaussian(3.0))
    I = information(refit("squared", 0.05, 3.0, SOME), one_at_a_time([4], range(D), s))
    np.testing.assert_allclose(leak.cells[4], np.sqrt(np.diag(I)), rtol=1e-7)
    np.testing.assert_allclose(leak.cells[:, 1], frozen.cells[:, 1], rtol=1e-12)
    np.testing.assert_allclose(leak.labels, frozen.labels, rtol=1e-12)


def test_without_a_penalty_the_mean_moves_as_if_the_scaler_were_fixed():
    leak, fit, X, y, _ = case("logistic", 0.0, 1.0)
    frozen = glm.measure(fit, X, y, dm.Gaussian(1.0))
    J = leak.jacobian.dense(slice(None))
    np.testing.assert_allclose(J[:, : D + 1], frozen.jacobian.dense(slice(None)), atol=1e-14)


def test_at_a_large_scale_a_cell_keeps_its_floor():
    leak, _, X, _, _ = case("squared", 0.1, 1e9)
    np.testing.assert_allclose(leak.cells, np.sqrt(2 * X**2 + 1) / N, rtol=1e-9)
    np.testing.assert_allclose(floor_of(leak).cells, np.sqrt(2 * X**2 + 1) / N, rtol=1e-12)


def test_every_reading_is_that_of_the_stacked_jacobian():
    leak, _, _, _, _ = case("poisson", 0.2, 0.7, SOME)
    J = leak.jacobian.dense(slice(None))
    q = J.shape[1]

    def largest(columns):
        return np.linalg.norm(columns.transpose(1, 0, 2).reshape(q, -1), 2)

    np.testing.assert_allclose(leak.examples, [np.linalg.norm(j, 2) for j in J], rtol=1e-10)
    np.testing.assert_allclose(leak.attributes, [largest(J[:, :, [k]]) for k in range(D)], rtol=1e-10)
    assert leak.dataset == pytest.approx(largest(J), rel=1e-10)
    assert leak.highest == pytest.approx(leak.examples.max(), rel=1e-12)
    mask = RNG.random((N, D + 1)) < 0.3
    assert leak.mask(mask) == pytest.approx(largest(J * mask[:, None, :]), rel=1e-10)
    groups = RNG.integers(0, 5, N)
    for name, figure in leak.group(groups.tolist()).items():
        assert figure == pytest.approx(largest(J[groups == name]), rel=1e-10)
    rows, none = np.array([1, 5, 6]), np.empty(0, dtype=np.intp)
    for columns, tied in (([1], none), ([0, 1], [2]), ([1], [0, 3]), ([2], none)):
        chosen, shared = (np.array(k, dtype=np.intp) for k in (columns, tied))
        apart = J[rows][:, :, chosen].transpose(1, 0, 2).reshape(q, -1)
        wanted = apart @ apart.T + J[rows][:, :, shared].sum(axis=0) @ J[rows][:, :, shared].sum(axis=0).T
        np.testing.assert_allclose(leak.jacobian.outer(rows, chosen, False, shared), wanted, atol=1e-12)


def test_the_highest_row_needs_few_rows_and_is_the_highest():
    rng = np.random.default_rng(3)
    raw = rng.standard_t(3, size=(400, 4))
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    y = X @ [1.0, -1.0, 0.5, 0.0] + rng.normal(size=400)
    for l2 in (0.0, 0.3):
        fit = glm.fit(X, y, glm.Squared(), l2, intercept=True)
        for sigma in (0.01, 1.0, 1e3):
            leak = glm.measure(fit, X, y, dm.Gaussian(sigma), scaled=np.ones(4, dtype=bool))
            assert leak.highest == pytest.approx(leak.examples.max(), rel=1e-12)


def softmax_case(X):
    return glm.fit(X, np.arange(N) % 3 * 1.0, glm.Softmax(3, "mean"), 0.05, intercept=True)


def test_softmax():
    X, _, s = standardised(RAW)
    leak = glm.measure(softmax_case(X), X, np.arange(N) % 3 * 1.0, dm.Gaussian(2.0), scaled=ALL)

    def law(moved):
        X, m, s = standardised(RAW + moved)
        A = np.kron(np.eye(2), fold(m, s))
        return A @ softmax_case(X).w.T.ravel(), 2.0 * A

    I = information(law, one_at_a_time([4], range(D), s))
    np.testing.assert_allclose(leak.cells[4], np.sqrt(np.diag(I)), rtol=1e-6)
    assert leak.attribute([0, 1, 2])[4] == pytest.approx(norm(I), rel=1e-6)


def test_a_public_covariance():
    X, _, s = standardised(RAW)
    y, root = TARGETS["squared"], RNG.normal(size=(D + 1, D + 1))
    fit = glm.fit(X, y, glm.Squared(), 0.1, intercept=True)
    leak = glm.measure(fit, X, y, dm.CorrelatedGaussian(root @ root.T), scaled=ALL)

    def law(moved):
        X, m, s = standardised(RAW + moved)
        A = fold(m, s)
        return A @ minimiser(X, y, "squared", 0.1), A @ root

    I = information(law, one_at_a_time([4], range(D), s))
    np.testing.assert_allclose(leak.cells[4], np.sqrt(np.diag(I)), rtol=1e-6)


@pytest.mark.parametrize("law", MOMENTS)
def test_moments_of_a_law_are_its_integrals(law):
    noise = law(1.0)
    p, s = (lambda x: np.exp(noise.logpdf(x))), noise.score
    ends = {"points": [0.0], "limit": 400}

    def mean(f):
        return integrate.quad(lambda x: float(f(x) * p(x)), -60, 60, **ends)[0]

    moments = MOMENTS[law]
    centre = mean(lambda x: x)
    integrals = [
        mean(lambda x: s(x) ** 2),
        centre,
        mean(lambda x: (x - centre) ** 2),
        mean(lambda x: s(x) ** 2 * x),
        mean(lambda x: (1 + s(x) * x) ** 2),
    ]
    wanted = [moments.information, moments.mean, moments.variance, moments.cross, moments.scale]
    np.testing.assert_allclose(integrals, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("law", MOMENTS)
def test_the_score_of_other_laws_has_the_stated_variance(law):
    """Two released numbers: the density at neighbouring tables, its score by differences, averaged over the noise."""
    u, y, scale, l2, row = RAW[:, :1], TARGETS["squared"], 0.4, 0.3, 0
    noise = law(scale)
    X, _, s = standardised(u, ALL[:1])
    fit = glm.fit(X, y, glm.Squared(), l2, intercept=True)
    leak = glm.measure(fit, X, y, noise, scaled=ALL[:1])

    def parts(t):
        moved = u.copy()
        moved[row] += t * s
        X, m_t, s_t = standardised(moved, ALL[:1])
        return fold(m_t, s_t), minimiser(X, y, "squared", l2)

    k = (np.arange(1500) + 0.5) / 1500
    e = np.stack(np.meshgrid(noise.quantile(k), noise.quantile(k), indexing="ij")).reshape(2, -1)
    A, w = parts(0.0)
    R = A @ (w[:, None] + e)

    def log_density(t):
        A, w = parts(t)
        return noise.logpdf(np.linalg.solve(A, R) - w[:, None]).sum(axis=0) - np.log(np.abs(np.linalg.det(A)))

    h = 1e-5
    score = (log_density(h) - log_density(-h)) / (2 * h)
    assert leak.cells[row, 0] ** 2 == pytest.approx(np.mean(score**2), rel=0.01)
    assert abs(score.mean()) < 0.01 * score.std()


@pytest.mark.parametrize("options", [{"c": 0.04}, {"excess_loss": 0.7}])
@pytest.mark.parametrize("p", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_shaped_noise(l2, p, options):
    y = TARGETS["squared"]
    X, _, s = standardised(RAW, SOME)
    fit = glm.fit(X, y, glm.Squared(), l2, intercept=True)
    leak = glm.shape_noise(fit, X, y, p=p, scaled=SOME, **options).leakage

    def law(moved):
        X, m, s = standardised(RAW + moved, SOME)
        Xt = np.column_stack([X, np.ones(N)])
        values, V = np.linalg.eigh(Xt.T @ Xt + np.diag([N * l2] * D + [0.0]))
        c = options.get("c") or 2 * options["excess_loss"] / np.sum(values ** (1 - p))
        A = fold(m, s)
        return A @ minimiser(X, y, "squared", l2), A @ (V * np.sqrt(c * values**-p)) @ V.T

    I = information(law, one_at_a_time([0, 4], range(D), s))
    for k, row in enumerate((0, 4)):
        part = I[k * D : (k + 1) * D, k * D : (k + 1) * D]
        np.testing.assert_allclose(leak.cells[row], np.sqrt(np.diag(part)), rtol=1e-6)
        assert leak.attribute([0, 1, 2])[row] == pytest.approx(norm(part), rel=1e-6)
    assert leak.subset([0, 4]) == pytest.approx(norm(I), rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_reweighted_fit(loss):
    X, _, s = standardised(RAW)
    y, l2 = TARGETS[loss], 0.1
    planned = plan(X, y, LOSSES[loss], l2, scale=0.5, reweighting_rounds=2, intercept=True, scaled=ALL)

    def law(moved):
        X, m, s = standardised(RAW + moved)
        reweighting = glm.irfil(X, y, LOSSES[loss], l2, rounds=2, tolerance=0.0, intercept=True)
        A = fold(m, s)
        return A @ reweighting.fit.w, 0.5 * A

    I = information(law, one_at_a_time([4], range(D), s))
    np.testing.assert_allclose(planned.leakage.cells[4], np.sqrt(np.diag(I)), rtol=1e-5)
    held = plan(
        X, y, LOSSES[loss], l2, scale=0.5, reweighting_rounds=2, intercept=True, scaled=ALL, scaler_is_public=True
    )
    assert not np.allclose(held.leakage.cells[4], planned.leakage.cells[4], rtol=1e-3)


def test_the_worst_cell_of_diabetes_is_199_times_higher_than_with_a_frozen_scaler():
    from sklearn.datasets import load_diabetes

    raw, y = load_diabetes(return_X_y=True, scaled=False)
    X = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    fit = glm.fit(X, y, glm.Squared(), 0.01, intercept=True)
    every = np.ones(10, dtype=bool)
    total, frozen = (glm.measure(fit, X, y, dm.Gaussian(200.0), **options).cells for options in ({"scaled": every}, {}))
    row, column = np.unravel_index(np.argmax(total / frozen), total.shape)
    assert total[row, column] / frozen[row, column] > 150
    direction = np.zeros((1, *raw.shape))
    direction[0, row, column] = raw[:, column].std()
    I = information(lambda moved: released(raw + moved, y, "squared", 0.01, 200.0), direction, step=1e-2)
    assert total[row, column] == pytest.approx(np.sqrt(I[0, 0]), rel=1e-4)


def test_no_attack_beats_the_figure_and_one_beats_the_frozen_figure():
    """The most likely value of a cell given many releases of the same weights: at the bound, below the frozen one."""
    loss, l2, sigma, row = "squared", 0.05, 5.0, 0
    leak, fit, X, y, s = case(loss, l2, sigma)
    frozen = glm.measure(fit, X, y, dm.Gaussian(sigma))
    releases, trials = 2000, 300
    grid = np.linspace(-0.5, 0.5, 2001)
    laws = []
    for t in grid:
        moved = np.zeros_like(RAW)
        moved[row, 0] = t * s[0]
        laws.append(refit(loss, l2, sigma)(moved))
    mean, root = laws[len(grid) // 2]
    rng = np.random.default_rng(8)
    guesses = []
    for _ in range(trials):
        R = mean + rng.standard_normal((releases, D + 1)) @ root.T
        average, second = R.mean(axis=0), R.T @ R / releases

        def log_likelihood(mu, L, average=average, second=second):
            W = np.linalg.inv(L)
            S = second - np.outer(average, mu) - np.outer(mu, average) + np.outer(mu, mu)
            return -np.trace(W @ S @ W.T) / 2 - np.log(np.abs(np.diag(np.linalg.qr(L)[1]))).sum()

        guesses.append(grid[np.argmax([log_likelihood(*law) for law in laws[::20]]) * 20])
    error = float(np.sqrt(np.mean(np.square(guesses))))
    bound, claimed = (1 / (k.cells[row, 0] * np.sqrt(releases)) for k in (leak, frozen))
    assert error > 0.85 * bound
    assert error < 0.8 * claimed


@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace, dm.Gumbel])
def test_calibration_takes_the_least_rung_above_the_floor(law):
    X, _, _ = standardised(RAW)
    y = TARGETS["squared"]
    fit = glm.fit(X, y, glm.Squared(), 0.05, intercept=True)

    def at(scale):
        return glm.measure(fit, X, y, law(scale), scaled=ALL)

    people = [i // 2 for i in range(N)]
    for reading in (HIGHEST, highest_group(people, tied=[1], name="person")):
        floor = reading(floor_of(at(1.0)))
        for target in (1.05 * floor, 2 * floor, 30 * floor):
            calibration = glm.calibrate(fit, X, y, target, reading, law=law, scaled=ALL)
            assert reading(at(calibration.scale)) == pytest.approx(calibration.reached)
            assert calibration.reached <= target
            assert reading(at(calibration.scale * (1 - 1e-9) / np.sqrt(2))) > target
            assert calibration.exact_scale <= calibration.scale
            assert calibration.scale in [rung(k) for k in range(-60, 60)]
        with pytest.raises(dm.Refusal, match=r"at any scale.*bounds="):
            glm.calibrate(fit, X, y, 0.99 * floor, reading, law=law, scaled=ALL)


@pytest.mark.parametrize("options", [{}, {"noise_shape": "hessian"}, {"reweighting_rounds": 2}])
@pytest.mark.parametrize("held", [False, True])
def test_a_plan_refuses_a_limit_below_the_floor_for_any_noise(options, held):
    X, _, _ = standardised(RAW)
    y = TARGETS["squared"]
    loose = plan(X, y, glm.Squared(), 0.05, scale=1e6, intercept=True, scaled=ALL, scaler_is_public=held, **options)
    assert loose.floor > 0
    if not held:
        assert loose.highest == pytest.approx(loose.floor, rel=1e-4)
    with pytest.raises(dm.Refusal, match="at any scale"):
        plan(
            X,
            y,
            glm.Squared(),
            0.05,
            max_dose=0.9 * loose.floor,
            intercept=True,
            scaled=ALL,
            scaler_is_public=held,
            **options,
        )
    kept = plan(
        X,
        y,
        glm.Squared(),
        0.05,
        max_dose=1.5 * loose.floor,
        intercept=True,
        scaled=ALL,
        scaler_is_public=held,
        **options,
    )
    assert kept.highest <= 1.5 * loose.floor


def test_a_column_that_is_not_standardised_is_refused():
    X, _, _ = standardised(RAW)
    y = TARGETS["squared"]
    fit = glm.fit(RAW, y, glm.Squared(), 0.1, intercept=True)
    with pytest.raises(dm.Refusal, match="marked as standardised"):
        glm.measure(fit, RAW, y, dm.Gaussian(1.0), scaled=ALL)
    bare = glm.fit(X, y, glm.Squared(), 0.1)
    with pytest.raises(dm.CannotMeasure, match="intercept"):
        glm.measure(bare, X, y, dm.Gaussian(1.0), scaled=ALL)
    whole = glm.fit(X, y, glm.Squared(), 0.1, intercept=True)
    with pytest.raises(dm.Refusal, match="one boolean"):
        glm.measure(whole, X, y, dm.Gaussian(1.0), scaled=[0, 1, 2])
    with pytest.raises(dm.Refusal, match=r"glm\.calibrate"):
        glm.measure(whole, X, y, dm.Gaussian(1.0), scaled=ALL).scale_for(1.0)


def test_the_oracle_itself_finds_the_minimum():
    X, _, _ = standardised(RAW)
    Xt = np.column_stack([X, np.ones(N)])
    for loss, y in TARGETS.items():
        w = minimiser(X, y, loss, 0.1)
        gradient = Xt.T @ residual_and_curvature(loss, Xt @ w, y)[0] + np.append(np.full(D, N * 0.1), 0.0) * w
        assert np.abs(gradient).max() < 1e-12 * N
