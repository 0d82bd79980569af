"""Every loss with its parameters: the fit's certificate, its Jacobian against refits, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.attacks.attribute_inversion import moves
from dosimeter.glm.attacks.membership import removal

from .problems import DIGITS, FORMULAS, table

ONE = dm.Gaussian(1.0)
every_loss = pytest.mark.parametrize("loss", list(FORMULAS), ids=lambda loss: loss.description)
NOT_CONVEX = [loss for loss in FORMULAS if not loss.convex]


def refit_jacobian(X, y, row, refit, step=1e-5):
    """(p, d + 1) by central differences of whole fits; a class moves inward."""
    columns = []
    for j in range(X.shape[1]):
        ends = []
        for sign in (1, -1):
            moved = X.copy()
            moved[row, j] += sign * step
            ends.append(refit(moved, y))
        columns.append((ends[0] - ends[1]) / (2 * step))
    inward = -1 if y[row] == 1 else 1
    near, far = y.copy(), y.copy()
    near[row] += inward * step
    far[row] += 2 * inward * step
    columns.append(inward * (4 * refit(X, near) - 3 * refit(X, y) - refit(X, far)) / (2 * step))
    return np.column_stack(columns)


def hessian(fit, X):
    """(p, p) Σ ω a x̃x̃ᵀ + diag(nλ), a by differentiating the row of the table of formulas."""
    Xt = np.column_stack([X, np.ones(len(X))]) if fit.intercept else X
    with mp.workdps(40):
        a = [
            float(mp.diff(lambda m, y: FORMULAS[fit.loss](DIGITS, m, y), (mp.mpf(m), mp.mpf(y)), (2, 0)))
            for m, y in zip(fit.margin, fit.y, strict=True)
        ]
    return (Xt * (fit.sample_weight * a)[:, None]).T @ Xt + np.diag(fit.penalty)


@every_loss
@pytest.mark.parametrize("intercept", [False, True])
def test_the_jacobian_is_the_derivative_of_refits(loss, intercept):
    X, y = table(loss)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    fit = glm.fit(X, y, loss, 0.02, intercept=intercept, sample_weight=weight)
    assert fit.gradient_norm < 1e-9 * (1 + np.abs(X).sum())

    def refit(X, y):
        return glm.fit(X, y, loss, 0.02, intercept=intercept, sample_weight=weight, start=fit.w).w

    leak = glm.measure(fit, X, y, ONE)
    # A row at a kink, or within the step of one, has two derivatives.
    rows = [i for i in (0, 4, 9, 17, 30) if fit.kink_distances[i] > 1e-3][:3]
    for row in rows:
        ours, truth = leak.jacobian.dense(np.array([row]))[0], refit_jacobian(X, y, row, refit)
        np.testing.assert_allclose(ours, truth, rtol=1e-6, atol=1e-6 * np.abs(truth).max() + 1e-10)


@every_loss
def test_the_inverse_hessian_is_that_of_the_observed_curvatures_and_positive_definite(loss):
    X, y = table(loss)
    fit = glm.fit(X, y, loss, 0.02, intercept=True)
    H = hessian(fit, X)
    assert np.linalg.eigvalsh(H)[0] > 0
    np.testing.assert_allclose(fit.factor.matrix @ fit.factor.matrix.T @ H, np.eye(4), atol=1e-9)


@every_loss
def test_every_reading_is_a_norm_of_the_written_jacobian(loss):
    X, y = table(loss)
    leak = glm.measure(glm.fit(X, y, loss, 0.02, intercept=True), X, y, ONE)
    J = leak.jacobian.dense(slice(None))
    whole = J.transpose(1, 0, 2).reshape(J.shape[1], -1)
    np.testing.assert_allclose(leak.examples, np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(leak.labels, np.linalg.norm(J[:, :, -1], axis=1), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(leak.cells, np.linalg.norm(J[:, :, :-1], axis=1), rtol=1e-9, atol=1e-15)
    assert leak.dataset == pytest.approx(np.linalg.norm(whole, 2), rel=1e-9)
    columns = [np.linalg.norm(J[:, :, j].T, 2) for j in range(3)]
    np.testing.assert_allclose(leak.attributes, columns, rtol=1e-9)


@every_loss
def test_removing_a_row_is_a_refit_without_it(loss):
    X, y = table(loss)
    fit = glm.fit(X, y, loss, 0.05, intercept=True)
    rows = (0, 11, 30)
    for row, ours in zip(rows, removal(fit, X, y, rows), strict=True):
        weight = np.ones(len(X))
        weight[row] = 0.0
        truth = glm.fit(X, y, loss, 0.05, intercept=True, sample_weight=weight, start=fit.w).w - fit.w
        np.testing.assert_allclose(ours, truth, rtol=1e-6, atol=1e-9)


@every_loss
def test_a_row_that_changes_is_a_refit_with_its_new_value(loss):
    X, y = table(loss)
    fit = glm.fit(X, y, loss, 0.05, intercept=True)
    candidates = glm.Candidates.grid(1, [0.3, 1.2])
    ours = moves(fit, X, y, candidates, [3], exact=True)[0]
    for value, move in zip((0.3, 1.2), ours, strict=True):
        changed = X.copy()
        changed[3, 1] = value
        np.testing.assert_allclose(
            move, glm.fit(changed, y, loss, 0.05, intercept=True, start=fit.w).w - fit.w, rtol=1e-6, atol=1e-9
        )


def test_a_row_that_holds_a_direction_alone_is_refitted_where_others_may_bend_elsewhere():
    """Three rows of the second column: without the only one that bends, the heavier of the others takes over."""
    X = np.column_stack([np.ones(13), np.zeros(13)])
    X[:3, 1] = 1.0
    y = np.array([4.0, 0.0, 9.0, *np.linspace(-0.5, 0.5, 10)])
    weight = np.array([4.0, 1.0, 3.0, *np.ones(10)])
    fit = glm.fit(X, y, glm.Huber(), sample_weight=weight)
    assert (fit.curvature[:3] == [1.0, 0.0, 0.0]).all()
    without = glm.fit(X, y, glm.Huber(), sample_weight=weight * (np.arange(13) > 0))
    assert without.margin[2] == pytest.approx(8.55)
    np.testing.assert_allclose(removal(fit, X, y, [0])[0], without.w - fit.w, rtol=1e-9, atol=1e-12)
    # The first row leaves the column: the same question, with a candidate instead of a removal.
    changed = X.copy()
    changed[0, 1] = 0.0
    ours = moves(fit, X, y, glm.Candidates.grid(1, [0.0]), [0])[0, 0]
    refitted = glm.fit(changed, y, glm.Huber(), sample_weight=weight)
    np.testing.assert_allclose(ours, refitted.w - fit.w, rtol=1e-9, atol=1e-12)


def test_a_candidate_outside_the_link_is_refitted():
    X, y = table(glm.Gamma("inverse"))
    fit = glm.fit(X, y, glm.Gamma("inverse"), 0.05, intercept=True)
    far = float(-2.0 * fit.margin[8] / fit.w[0])
    assert fit.margin[8] + fit.w[0] * (far - X[8, 0]) < 0
    changed = X.copy()
    changed[8, 0] = far
    ours = moves(fit, X, y, glm.Candidates.grid(0, [far]), [8])[0, 0]
    refitted = glm.fit(changed, y, glm.Gamma("inverse"), 0.05, intercept=True)
    np.testing.assert_allclose(ours, refitted.w - fit.w, rtol=1e-7, atol=1e-10)


def outlying(loss, n=80):
    """A table with targets far below their mean, where the curvature of a loss that is not convex is negative."""
    X, y = table(loss, n)
    y = y.copy()
    y[::9] = np.where(loss == glm.Tweedie(0.0), 6.0 * y[::9] + 3.0, 0.1 * y[::9])
    return X, y


@pytest.mark.parametrize("loss", NOT_CONVEX, ids=lambda loss: loss.description)
def test_rows_of_negative_curvature_are_read_with_their_sign(loss):
    """With |a|, or the expected curvature, in the place of a, the same Jacobian would be off by far more."""
    X, y = outlying(loss)
    fit = glm.fit(X, y, loss, 0.01, intercept=True)
    negative = np.flatnonzero(fit.curvature < 0)
    assert len(negative) >= 2
    assert np.linalg.eigvalsh(hessian(fit, X))[0] > 0

    def refit(X, y):
        return glm.fit(X, y, loss, 0.01, intercept=True, start=fit.w).w

    leak = glm.measure(fit, X, y, ONE)
    expected = np.where(fit.curvature < 0, loss.scoring_curvature(fit.margin, y), fit.curvature)
    for row in negative[:2]:
        ours, truth = leak.jacobian.dense(np.array([row]))[0], refit_jacobian(X, y, row, refit)
        np.testing.assert_allclose(ours, truth, rtol=1e-6, atol=1e-6 * np.abs(truth).max())
        Xt = np.column_stack([X, np.ones(len(X))])
        H = (Xt * expected[:, None]).T @ Xt + np.diag(fit.penalty)
        scored = -np.linalg.solve(
            H, np.outer(Xt[row] * expected[row], fit.w[:3]) + fit.residual[row] * np.eye(4)[:, :3]
        )
        assert np.abs(scored - truth[:, :3]).max() > 1e-3 * np.abs(truth).max()
    np.testing.assert_allclose(
        leak.examples, np.linalg.norm(leak.jacobian.dense(slice(None)), 2, axis=(1, 2)), rtol=1e-9
    )


def test_a_point_where_the_hessian_is_indefinite_is_no_minimum():
    X, y = table(glm.InverseGaussian())
    fit = glm.fit(X, y, glm.InverseGaussian(), intercept=True)
    with pytest.raises(Refusal, match="inverse-gaussian loss is not positive definite here"):
        glm.fit_at(X, y, glm.InverseGaussian(), fit.w + np.array([0.0, 0.0, 0.0, 1.5]), intercept=True)


def test_a_start_far_away_ends_at_a_minimum_all_the_same():
    rng = np.random.default_rng(3)
    for loss in NOT_CONVEX:
        X, y = outlying(loss)
        best = glm.fit(X, y, loss, 0.01, intercept=True)
        for _ in range(3):
            fit = glm.fit(X, y, loss, 0.01, intercept=True, start=best.w + rng.normal(size=4))
            assert fit.decrement < 1e-8
            assert np.linalg.eigvalsh(hessian(fit, X))[0] > 0


KINKED = [loss for loss in FORMULAS if loss.has_kinks]


@pytest.mark.parametrize("loss", KINKED, ids=lambda loss: loss.description)
def test_a_kinked_loss_tells_how_far_each_row_is_from_a_kink(loss):
    X, y = table(loss)
    fit = glm.fit(X, y, loss, 0.02)
    distance = glm.measure(fit, X, y, ONE).kink_distances
    np.testing.assert_array_equal(distance, fit.kink_distances)
    assert np.isfinite(distance).all()
    nearest = int(np.argmin(distance))
    # Beyond the kink the row's curvature is another one.
    at = np.array([fit.margin[nearest] + s * 1.0001 * distance[nearest] for s in (-1, 1)])
    jumps = loss.curvature(at, np.repeat(y[nearest], 2)) != fit.curvature[nearest]
    assert jumps.any()
    twice = glm.compose([glm.measure(fit, X, y, ONE)] * 2)
    np.testing.assert_array_equal(twice.kink_distances, distance)


def test_a_row_that_does_not_bend_and_does_not_pull_leaks_nothing():
    X, y = table(glm.SquaredHinge())
    fit = glm.fit(X, y, glm.SquaredHinge(), 0.02)
    leak = glm.measure(fit, X, y, ONE)
    idle = (fit.residual == 0) & (fit.curvature == 0)
    assert 0 < idle.sum() < 60
    assert (leak.cells[idle] == 0).all()
    moved = X.copy()
    moved[idle] *= 1.001
    np.testing.assert_allclose(glm.fit(moved, y, glm.SquaredHinge(), 0.02).w, fit.w, rtol=1e-9)
    assert (leak.labels > 0).all()  # the class still matters: another one would pull


def test_a_smooth_loss_has_no_kink():
    X, y = table(glm.Gamma())
    fit = glm.fit(X, y, glm.Gamma(), 0.02)
    assert np.isinf(fit.kink_distances).all()
    assert np.isinf(glm.measure(fit, X, y, ONE).kink_distances).all()


def test_too_few_rows_that_bend_have_no_unique_minimiser():
    X = np.column_stack([np.ones(8), np.arange(8.0)])
    y = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    with pytest.raises(Refusal, match=r"not unique|separate"):
        glm.fit(X, y, glm.SquaredHinge())
    with pytest.raises(Refusal, match=r"every row has class 1: .* no unique finite minimiser"):
        glm.fit(X[:, :1], np.ones(8), glm.SquaredHinge(), 0.1, intercept=True)
    # Two clusters of outliers, and nobody between them.
    with pytest.raises(Refusal, match="not unique"):
        glm.fit(np.ones((4, 1)), np.array([-50.0, -50.0, 50.0, 50.0]), glm.Huber())


def test_a_link_without_a_feasible_margin_is_refused_and_an_intercept_repairs_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.gamma(5.0, 1.0, 30)
    with pytest.raises(Refusal, match="margin above 0"):
        glm.fit(X, y, glm.Gamma("inverse"), 0.1)
    assert glm.fit(X, y, glm.Gamma("inverse"), 0.1, intercept=True).gradient_norm < 1e-9


def test_a_start_is_found_where_the_least_squares_margins_are_not_feasible():
    """One direction only keeps every margin positive, and targets pull the least-squares start out of it."""
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.uniform(0.9, 1.1, 40), rng.normal(size=40) * 5])
    y = np.where(X[:, 1] > 0, 30.0, 0.05) * rng.gamma(5.0, 0.2, 40)
    for loss in (glm.Gamma("inverse"), glm.InverseGaussian("inverse-squared"), glm.Gamma("identity")):
        fit = glm.fit(X, y, loss, 1e-3)
        assert (fit.margin > 0).all()
        assert fit.decrement < 1e-8


def test_a_row_without_weight_may_lie_outside_the_link():
    X, y = table(glm.Gamma("inverse"))
    X[3] *= -5.0
    weight = np.ones(len(y))
    weight[3] = 0.0
    fit = glm.fit(X, y, glm.Gamma("inverse"), 0.01, sample_weight=weight)
    assert fit.margin[3] < 0
    keep = weight > 0
    alone = glm.fit(X[keep], y[keep], glm.Gamma("inverse"), 0.01 * 60 / 59)
    np.testing.assert_allclose(fit.w, alone.w, rtol=1e-9)
    leak = glm.measure(fit, X, y, ONE)
    assert leak.examples[3] == 0
    np.testing.assert_allclose(removal(fit, X, y)[3], 0.0, atol=1e-12)
    assert np.isfinite(removal(fit, X, y)).all()


PARAMETERS = {
    "power 0.5": (lambda: glm.Tweedie(0.5), "power must be 0, or a finite number >= 1"),
    "negative power": (lambda: glm.Tweedie(-1.0), "power"),
    "Gaussian with the identity": (lambda: glm.Tweedie(0.0, "identity"), r"it is Squared\(\)"),
    "an unknown link": (lambda: glm.Gamma("probit"), "link_function must be one of log, identity"),
    "alpha 0": (lambda: glm.NegativeBinomial(0.0), "alpha must be a finite number > 0"),
    "a negative epsilon": (lambda: glm.SquaredEpsilonInsensitive(-0.1), "epsilon must be a finite number >= 0"),
    "epsilon 0 for Huber": (lambda: glm.Huber(0.0), "epsilon must be a finite number > 0"),
    "an infinite scale": (lambda: glm.Huber(1.35, np.inf), "scale must be a finite number > 0"),
}


@pytest.mark.parametrize("case", list(PARAMETERS))
def test_parameters_out_of_range_are_refused_by_name(case):
    build, message = PARAMETERS[case]
    with pytest.raises(Refusal, match=message):
        build()


TARGETS = {
    "gamma zero": (glm.Gamma(), 0.0, "gamma.* needs targets > 0; row 2 has 0"),
    "tweedie negative": (glm.Tweedie(), -1.0, "needs targets >= 0; row 2 has -1"),
    "count negative": (glm.NegativeBinomial(), -1.0, "needs targets >= 0; row 2 has -1"),
    "probit class 2": (glm.Probit(), 2.0, "Probit needs targets between 0 and 1; row 2 has 2"),
    "hinge class -1": (glm.SquaredHinge(), -1.0, "SquaredHinge needs targets between 0 and 1; row 2 has -1"),
}


@pytest.mark.parametrize("case", list(TARGETS))
def test_targets_without_a_value_are_refused_with_their_row(case):
    loss, value, message = TARGETS[case]
    y = np.ones(10)
    y[2] = value
    with pytest.raises(Refusal, match=message):
        glm.fit(np.arange(10.0)[:, None], y, loss, 0.1)


def test_a_loss_without_defaults_is_not_registered_and_one_with_parameters_is_registered_by_its_class():
    @dataclass(frozen=True)
    class Strict(glm.Squared):
        name = "strict"
        width: float

    with pytest.raises(Refusal, match="lacks a default of width"):
        glm.register(Strict)
    assert {type(loss) for loss in FORMULAS} == set(glm.LOSSES.values())
    assert glm.LOSSES["tweedie"]() == glm.Tweedie(1.5)
    assert repr(glm.fit([[1.0], [2.0]], [1.0, 2.5], glm.Huber(2.0), 0.1)).startswith(
        "<Fit huber(epsilon=2, scale=1), 2 rows"
    )


@pytest.mark.parametrize("loss", [glm.Probit(), glm.SquaredHinge(), glm.ComplementaryLogLog()], ids=lambda k: k.name)
def test_the_label_unit_is_the_step_from_one_class_to_the_other(loss):
    """c is exact for a whole step: the residual is linear in y."""
    m = np.linspace(-3.0, 3.0, 31)
    step = loss.residual(m, np.zeros(31)) - loss.residual(m, np.ones(31))
    np.testing.assert_allclose(loss.target_derivative(m, np.zeros(31)), step, rtol=1e-12)


BOUNDED = {
    glm.Probit(): None,
    glm.ComplementaryLogLog(): None,
    glm.SquaredHinge(): None,
    glm.Huber(): None,
    glm.NegativeBinomial(0.5): 6.0,
    glm.SquaredEpsilonInsensitive(0.25): 3.0,
}


@pytest.mark.parametrize("loss", list(BOUNDED), ids=lambda k: k.name)
def test_no_gradient_at_a_minimiser_is_longer_than_its_bound(loss):
    """Random tables within the bounds; the label of any row may be any other."""
    rng, longest = np.random.default_rng(4), 0.0
    for _ in range(40):
        l2, n = 10.0 ** rng.uniform(-2, 0), int(rng.integers(3, 20))
        X = rng.normal(size=(n, 2))
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
        bound = BOUNDED[loss]
        y = rng.integers(0, 2, n).astype(float) if bound is None else rng.integers(0, 4, n).astype(float)
        if isinstance(loss, glm.SquaredEpsilonInsensitive | glm.Huber):
            y = rng.uniform(-3.0, 3.0, n)
        fit = glm.fit(X, y, loss, l2)
        L = loss.gradient_bound(l2, 1.0, bound)
        gradients = np.abs(fit.residual) * np.linalg.norm(X, axis=1)
        longest = max(longest, float(gradients.max() / L))
    assert 0.02 < longest <= 1.0 + 1e-12


def test_what_has_no_proven_sensitivity_says_so():
    X, y = table(glm.Gamma())
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    with pytest.raises(CannotMeasure, match="gradient of the gamma loss"):
        glm.differential_privacy(glm.fit(X, y, glm.Gamma(), 0.5), X, y, ONE, row_norm=1.0)
    with pytest.raises(CannotMeasure, match="pass target_bound"):
        glm.NegativeBinomial().gradient_bound(0.1, 1.0, None)


@pytest.mark.parametrize("loss", [glm.Gamma(), glm.Tweedie(1.5), glm.InverseGaussian()], ids=lambda k: k.name)
def test_targets_that_float64_cannot_tell_from_their_mean_have_a_score(loss):
    """The deviance of the mean is 0 there, and the share of it that is explained was a division by zero."""
    y = 1000.0 + 1e-6 * np.arange(4.0)
    m = np.full(4, np.log(1000.0))
    assert np.isfinite([loss.score(m, y), loss.expected_score(m, y, np.zeros(4))]).all()
