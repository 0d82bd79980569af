"""Offsets: for the squared loss a change of target, for the others against refits, and where they are refused."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.attacks.attribute_inversion import moves
from dosimeter.glm.attacks.membership import removal

from .problems import table, targets

ONE = dm.Gaussian(1.0)
CURVED = [glm.Logistic(), glm.Poisson(), glm.Gamma(), glm.InverseGaussian(), glm.SquaredHinge(), glm.Huber()]
curved = pytest.mark.parametrize("loss", CURVED, ids=lambda loss: loss.name)


def whole(n=50, d=3, seed=0):
    """A table whose targets less the offset are exact in float64."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.round(64 * (X.sum(axis=1) + rng.normal(size=n))) / 64, np.round(64 * rng.normal(size=n)) / 64


def with_offset(loss):
    X, y = table(loss)
    return X, y, np.random.default_rng(2).uniform(-0.5, 0.5, len(y))


@pytest.mark.parametrize("intercept", [False, True])
def test_for_squares_an_offset_is_a_change_of_target(intercept):
    X, y, offset = whole()
    options = {"intercept": intercept, "sample_weight": np.random.default_rng(1).uniform(0.5, 2.0, 50)}
    ours = glm.fit(X, y, glm.Squared(), 0.01, offset=offset, **options)
    same = glm.fit(X, y - offset, glm.Squared(), 0.01, **options)
    np.testing.assert_allclose(ours.w, same.w, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(ours.margin, same.margin + offset, rtol=1e-12, atol=1e-13)
    a, b = glm.measure(ours, X, y, ONE), glm.measure(same, X, y - offset, ONE)
    np.testing.assert_allclose(a.examples, b.examples, rtol=1e-10)
    np.testing.assert_allclose(a.cells, b.cells, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(removal(ours, X, y), removal(same, X, y - offset), rtol=1e-9, atol=1e-14)


def test_refined_residuals_include_the_offset():
    """Residuals of 1e-9 beside margins of 1, at condition number 1e8: plain ones would have no digit left."""
    rng = np.random.default_rng(4)
    U, _, V = np.linalg.svd(rng.normal(size=(30, 3)), full_matrices=False)
    X = (U * np.logspace(0, -8, 3)) @ V
    offset = np.round(rng.normal(size=30) * 2**20) / 2**20
    y = np.round((X @ np.ones(3) + 1e-9 * rng.normal(size=30)) * 2**45) / 2**45 + offset
    ours = glm.measure(glm.fit(X, y, glm.Squared(), offset=offset), X, y, ONE).examples
    same = glm.measure(glm.fit(X, y - offset, glm.Squared()), X, y - offset, ONE).examples
    np.testing.assert_allclose(ours, same, rtol=1e-9)


@curved
@pytest.mark.parametrize("intercept", [False, True])
def test_the_jacobian_is_the_derivative_of_refits(loss, intercept):
    X, y, offset = with_offset(loss)

    def refit(X, start=None):
        return glm.fit(X, y, loss, 0.02, intercept=intercept, offset=offset, start=start)

    fit = refit(X)
    assert fit.gradient_norm < 1e-10 * (1 + np.abs(X).sum())
    J = glm.measure(fit, X, y, ONE).jacobian.dense(np.array([7]))[0]
    for j in range(3):
        ends = []
        for sign in (1, -1):
            moved = X.copy()
            moved[7, j] += sign * 1e-5
            ends.append(refit(moved, fit.w).w)
        np.testing.assert_allclose(J[:, j], (ends[0] - ends[1]) / 2e-5, rtol=1e-6, atol=1e-8)


@curved
def test_a_constant_offset_is_taken_up_by_the_intercept(loss):
    X, y = table(loss)
    plain = glm.fit(X, y, loss, 0.02, intercept=True)
    moved = glm.fit(X, y, loss, 0.02, intercept=True, offset=np.full(60, 0.7))
    np.testing.assert_allclose(moved.w - plain.w, [0, 0, 0, -0.7], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        glm.measure(moved, X, y, ONE).examples, glm.measure(plain, X, y, ONE).examples, rtol=1e-7
    )


@curved
def test_removing_and_changing_a_row_keeps_the_offset(loss):
    X, y, offset = with_offset(loss)
    fit = glm.fit(X, y, loss, 0.05, offset=offset)
    weight = np.ones(60)
    weight[5] = 0.0
    without = glm.fit(X, y, loss, 0.05, offset=offset, sample_weight=weight, start=fit.w)
    np.testing.assert_allclose(removal(fit, X, y, [5])[0], without.w - fit.w, rtol=1e-6, atol=1e-9)
    changed = X.copy()
    changed[5, 1] = 0.9
    refitted = glm.fit(changed, y, loss, 0.05, offset=offset, start=fit.w)
    move = moves(fit, X, y, glm.Candidates.grid(1, [0.9]), [5], exact=True)[0, 0]
    np.testing.assert_allclose(move, refitted.w - fit.w, rtol=1e-6, atol=1e-9)


def test_a_slow_refit_keeps_it_too():
    """A row that keeps the classes from separating: chord steps fail, and only a full refit finds what is left."""
    X = np.column_stack([np.ones(9), [-3.0, -2, -1, -0.5, 1.5, 1, 2, 3, 0.7]])
    y, offset = np.array([0.0, 0, 0, 0, 0, 1, 1, 1, 1]), np.linspace(-0.2, 0.2, 9)
    fit = glm.fit(X, y, glm.Logistic(), 1e-5, offset=offset)
    weight = np.ones(9)
    weight[4] = 0.0
    without = glm.fit(X, y, glm.Logistic(), 1e-5, offset=offset, sample_weight=weight)
    np.testing.assert_allclose(removal(fit, X, y, [4])[0], without.w - fit.w, rtol=1e-6)


def test_both_attacks_are_those_on_the_changed_target():
    X, y, offset = whole()
    X[:, 0] = X[:, 0] > 0
    draws = np.random.default_rng(3).normal(0.0, 0.05, (4, 3))
    ours = glm.fit(X, y, glm.Squared(), 0.01, offset=offset)
    same = glm.fit(X, y - offset, glm.Squared(), 0.01)
    for attack in (glm.white_box, glm.black_box):
        a, b = attack(ours, X, y, 0, draws), attack(same, X, y - offset, 0, draws)
        np.testing.assert_array_equal(a.guesses, b.guesses)


def test_a_black_box_without_the_offset_would_guess_otherwise():
    X, y, offset = whole()
    X[:, 0] = X[:, 0] > 0
    fit = glm.fit(X, y + 5 * offset, glm.Squared(), 0.01, offset=5 * offset)
    a = glm.black_box(fit, X, y + 5 * offset, 0, np.zeros((1, 3)))
    b = glm.black_box(glm.fit(X, y + 5 * offset, glm.Squared(), 0.01), X, y + 5 * offset, 0, np.zeros((1, 3)))
    assert (a.guesses != b.guesses).any()


def test_reweighting_is_that_of_the_changed_target():
    X, y, offset = whole()
    a = glm.irfil(X, y, glm.Squared(), 0.01, rounds=3, tolerance=0.0, offset=offset)
    b = glm.irfil(X, y - offset, glm.Squared(), 0.01, rounds=3, tolerance=0.0)
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-9)
    total = glm.total_leakage(a, X, y, ONE).examples
    np.testing.assert_allclose(total, glm.total_leakage(b, X, y - offset, ONE).examples, rtol=1e-8)


@pytest.mark.parametrize("loss", [glm.Logistic(), glm.Poisson()], ids=lambda loss: loss.name)
def test_the_total_derivative_through_the_reweighting_holds_with_offset_and_penalties(loss):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(25, 2))
    offset, l2 = rng.uniform(-0.5, 0.5, 25), np.array([0.05, 0.2, 0.1])
    y = targets(loss, X[:, 0], rng)
    options = dict(rounds=2, tolerance=0.0, intercept=True, offset=offset)
    reweighting = glm.irfil(X, y, loss, l2, **options)
    J = glm.total_leakage(reweighting, X, y, ONE).true.jacobian.dense(slice(None))
    h = 1e-4

    def weights(row, j, s):
        moved = X.copy()
        moved[row, j] += s * h
        return glm.irfil(moved, y, loss, l2, **options).fit.w

    for row, j in ((3, 0), (11, 1)):
        slope = (8 * (weights(row, j, 1) - weights(row, j, -1)) - (weights(row, j, 2) - weights(row, j, -2))) / (12 * h)
        np.testing.assert_allclose(J[row, :, j], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["isotropic", "equalised"])
def test_people_left_out_keep_their_offset(kind):
    X, y, offset = whole(60)
    options = dict(kind=kind, rounds=1, intercept=True)
    ours = glm.cross_validate(X, y, glm.Squared(), lambda n: 0.01, offset=offset, **options)
    same = glm.cross_validate(X, y - offset, glm.Squared(), lambda n: 0.01, **options)
    np.testing.assert_allclose(ours.margin, same.margin + offset, rtol=1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"noise_shape": "hessian"}, {"reweighting_rounds": 2}], ids=["isotropic", "shaped", "equalised"]
)
def test_a_plan_is_that_of_the_changed_target(options):
    X, y, offset = whole()
    ours = glm.plan(X, y, glm.Squared(), 0.01, scale=0.5, offset=offset, intercept=True, **options)
    same = glm.plan(X, y - offset, glm.Squared(), 0.01, scale=0.5, intercept=True, **options)
    assert ours.highest == pytest.approx(same.highest, rel=1e-9)
    assert ours.settings["offset"] is True
    assert "offset" not in same.settings
    chosen = glm.choose(X, y, glm.Squared(), 0.01, 0.5, offset=offset)
    assert chosen.plan.fit.offset is not None


def test_a_table_with_other_rows_is_still_refused():
    X, y, offset = whole()
    fit = glm.fit(X, y, glm.Squared(), 0.01, offset=offset)
    moved = X.copy()
    moved[9, 1] += 0.1
    with pytest.raises(Refusal, match="row 9 is not the row"):
        glm.measure(fit, moved, y, ONE)
    with pytest.raises(Refusal, match="row"):
        glm.measure(fit, X, y - offset, ONE)


X0, Y0 = whole()[:2]
REFUSED = {
    "too short": (lambda: glm.fit(X0, Y0, glm.Squared(), offset=np.zeros(3)), "one number for each of the 50 rows"),
    "not finite": (lambda: glm.fit(X0, Y0, glm.Squared(), offset=np.full(50, np.nan)), "offset has a value"),
    "huge": (lambda: glm.fit(X0, Y0, glm.Squared(), offset=np.full(50, 1e70)), "offset reaches"),
    "softmax": (
        lambda: glm.fit(X0, (Y0 > 0) * 1.0, glm.Softmax(2, 0), 0.1, offset=np.zeros(50)),
        "a single margin, not softmax",
    ),
    "cross-validation": (
        lambda: glm.cross_validate(X0, Y0, glm.Squared(), lambda n: 0.1, kind="isotropic", offset=np.zeros(4)),
        "one number for each",
    ),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_an_offset_that_does_not_fit_is_refused_by_name(case):
    attempt, message = REFUSED[case]
    with pytest.raises(Refusal, match=message):
        attempt()


def test_no_sensitivity_is_claimed_with_an_offset():
    X = X0 / np.linalg.norm(X0, axis=1, keepdims=True)
    y = (Y0 > 0) * 1.0
    fit = glm.fit(X, y, glm.Logistic(), 0.5, offset=np.zeros(50))
    with pytest.raises(CannotMeasure, match="without an offset"):
        glm.differential_privacy(fit, X, y, ONE, row_norm=1.0)


def test_an_offset_of_zeros_changes_nothing():
    for loss in CURVED:
        X, y = table(loss)
        a, b = (glm.fit(X, y, loss, 0.02, offset=o) for o in (None, np.zeros(60)))
        np.testing.assert_array_equal(a.w, b.w)
        assert a.offset is None
