"""A penalty per column and a penalised intercept: scaled columns, a column of ones and refits are the oracles."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.attacks.membership import removal
from dosimeter.glm.releases.noise_choice import expected_loss_increase
from tests.glm.whole_pipeline import information, released

from .problems import LOSSES, table

ONE = dm.Gaussian(1.0)
L2 = np.array([0.3, 0.02, 1.0])
SINGLE = [loss for loss in LOSSES.values() if not isinstance(loss, glm.Softmax)]
single = pytest.mark.parametrize("loss", SINGLE, ids=lambda loss: loss.name)


@single
@pytest.mark.parametrize("intercept", [False, True])
def test_a_penalty_per_column_is_a_change_of_its_unit(loss, intercept):
    """λⱼwⱼ² is the penalty 1 on √λⱼwⱼ, the weight of the column over √λⱼ."""
    X, y = table(loss)
    root = np.sqrt(L2)
    ours = glm.fit(X, y, loss, L2, intercept=intercept)
    scaled = glm.fit(X / root, y, loss, 1.0, intercept=intercept)
    unit = np.append(root, [1.0] * intercept)
    np.testing.assert_allclose(ours.w, scaled.w / unit, rtol=1e-9, atol=1e-12)
    # Released weights in the other unit, and cells in the other unit: J = diag(1/unit) J' diag(1/√λ).
    a, b = (glm.measure(f, Z, y, ONE).jacobian.dense(np.array([4]))[0] for f, Z in ((ours, X), (scaled, X / root)))
    np.testing.assert_allclose(a, b / unit[:, None] / np.append(root, 1.0), rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(removal(ours, X, y), removal(scaled, X / root, y) / unit, rtol=1e-6, atol=1e-10)


@single
def test_a_penalised_intercept_is_a_column_of_ones(loss):
    X, y = table(loss)
    ones = np.column_stack([X, np.ones(60)])
    ours = glm.fit(X, y, loss, 0.05, intercept=True, penalised_intercept=True)
    column = glm.fit(ones, y, loss, 0.05)
    np.testing.assert_allclose(ours.w, column.w, rtol=1e-9, atol=1e-12)
    assert ours.penalises_intercept
    a, b = glm.measure(ours, X, y, ONE), glm.measure(column, ones, y, ONE)
    np.testing.assert_allclose(a.cells, b.cells[:, :3], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(a.labels, b.labels, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(removal(ours, X, y), removal(column, ones, y), rtol=1e-6, atol=1e-10)
    by_entry = glm.fit(X, y, loss, [0.05, 0.05, 0.05, 0.05], intercept=True)
    np.testing.assert_array_equal(by_entry.w, ours.w)


def test_equal_entries_are_one_number():
    X, y = table(glm.Logistic())
    one, each = (glm.fit(X, y, glm.Logistic(), l2, intercept=True) for l2 in (0.1, [0.1] * 3))
    np.testing.assert_array_equal(one.w, each.w)
    assert one.l2 == each.l2 == 0.1
    np.testing.assert_allclose(one.penalty, [6.0, 6.0, 6.0, 0.0])
    assert not one.penalises_intercept


def test_generalised_ridge_is_its_closed_form():
    X, y = table(glm.Squared())
    w = np.linalg.solve(X.T @ X + 60 * np.diag(L2), X.T @ y)
    np.testing.assert_allclose(glm.fit(X, y, glm.Squared(), L2).w, w, rtol=1e-12)


def test_softmax_takes_a_penalty_per_column_too():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 3, 40).astype(float)
    root = np.sqrt(L2)
    ours = glm.fit(X, y, glm.Softmax(3, "mean"), L2, intercept=True)
    scaled = glm.fit(X / root, y, glm.Softmax(3, "mean"), 1.0, intercept=True)
    np.testing.assert_allclose(ours.w, scaled.w / np.append(root, 1.0)[:, None], rtol=1e-8, atol=1e-12)
    every = glm.fit(X, y, glm.Softmax(3), [*L2.tolist(), 0.1], intercept=True)
    assert every.gradient_norm < 1e-10


SEPARATED = np.linspace(-1.0, 1.0, 30)


def test_separation_counts_only_along_columns_without_a_penalty():
    rng = np.random.default_rng(1)
    X = np.column_stack([SEPARATED, rng.normal(size=30)])
    y = (SEPARATED > 0).astype(float)
    with pytest.raises(Refusal, match="separate"):
        glm.fit(X, y, glm.Logistic(), [0.0, 0.1])
    with pytest.raises(Refusal, match="separate"):
        glm.fit(X, y, glm.Logistic(), [0.0, 0.1], intercept=True)
    assert glm.fit(X, y, glm.Logistic(), [0.1, 0.0], intercept=True).gradient_norm < 1e-9


def test_one_class_needs_a_penalty_on_the_intercept():
    X, y = np.random.default_rng(2).normal(size=(20, 2)), np.ones(20)
    with pytest.raises(Refusal, match="an unpenalised intercept"):
        glm.fit(X, y, glm.Logistic(), 0.1, intercept=True)
    assert glm.fit(X, y, glm.Logistic(), 0.1, intercept=True, penalised_intercept=True).gradient_norm < 1e-9


def test_a_column_without_a_penalty_must_be_determined_by_the_rows():
    X = np.random.default_rng(3).normal(size=(3, 5))
    with pytest.raises(Refusal, match="3 rows cannot determine 4 parameters"):
        glm.fit(X, np.arange(3.0), glm.Squared(), [0.0, 0.0, 0.0, 0.0, 1.0])
    assert glm.fit(X, np.arange(3.0), glm.Squared(), [0.0, 0.0, 1.0, 1.0, 1.0]).gradient_norm < 1e-9


def test_a_reweighting_keeps_the_penalties():
    X, y = table(glm.Squared())
    root = np.sqrt(L2)
    options = dict(rounds=2, tolerance=0.0, intercept=True)
    ours = glm.irfil(
        X, y, glm.Squared(), L2, noise=dm.CorrelatedGaussian(np.diag(np.append(1 / L2, 1.0))), input_map=None, **options
    )
    same = glm.irfil(X / root, y, glm.Squared(), 1.0, input_map=np.diag(1 / root), **options)
    np.testing.assert_allclose(ours.weights, same.weights, rtol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "logistic", "poisson"])
def test_a_fitted_scaler_is_read_with_the_penalty_of_each_column(loss):
    """Against refits of the whole pipeline, standardisation included."""
    rng = np.random.default_rng(12)
    raw = rng.normal(size=(16, 3)) * [3.0, 1.0, 0.2] + [10.0, 0.0, 5.0]
    score = (raw[:, 0] - 10) / 4 + raw[:, 1] + rng.normal(size=16)
    y = {"squared": score, "logistic": (score > 0) * 1.0, "poisson": rng.poisson(2.0, 16) * 1.0}[loss]
    s = raw.std(axis=0)
    X = (raw - raw.mean(axis=0)) / s
    fit = glm.fit(X, y, glm.LOSSES[loss](), L2, intercept=True)
    leak = glm.measure(fit, X, y, dm.Gaussian(0.3), scaled=np.ones(3, dtype=bool)).without_target()
    directions = np.zeros((3, 16, 3))
    directions[np.arange(3), 4, np.arange(3)] = s
    I = information(lambda moved: released(raw + moved, y, loss, L2, 0.3), directions)
    np.testing.assert_allclose(leak.matrix(4), I, rtol=1e-6, atol=1e-8 * np.abs(I).max())


def test_the_expected_loss_counts_each_penalty():
    X, y = table(glm.Squared())
    best = glm.fit(X, y, glm.Squared(), [*L2, 0.4], intercept=True)
    planned = glm.plan(X, y, glm.Squared(), [*L2, 0.4], scale=0.3, intercept=True)
    rng = np.random.default_rng(0)

    def objective(w):
        return 0.5 * np.sum((X @ w[:3] + w[3] - y) ** 2) + 30 * np.array([*L2, 0.4]) @ w**2

    rises = np.array([objective(best.w + b) - objective(best.w) for b in 0.3 * rng.normal(size=(20_000, 4))])
    assert abs(60 * expected_loss_increase(planned, best, X) - rises.mean()) < 4 * rises.std() / np.sqrt(20_000)
    assert planned.settings["l2"] == "0.3 0.02 1.0 0.4"


def test_shaped_noise_takes_a_penalty_per_column():
    """The covariance is a function of the rows through H, and the penalty is a constant in it."""
    X, y = table(glm.Squared(), 20)
    shaped = glm.shape_noise(glm.fit(X, y, glm.Squared(), L2), X, y, c=0.5)

    def law(moved):
        H = (X + moved).T @ (X + moved) + 20 * np.diag(L2)
        return np.linalg.solve(H, (X + moved).T @ y), np.sqrt(0.5) * np.linalg.cholesky(np.linalg.inv(H))

    directions = np.zeros((3, 20, 3))
    directions[np.arange(3), 6, np.arange(3)] = 1.0
    I = information(law, directions)
    np.testing.assert_allclose(shaped.leakage.without_target().matrix(6), I, rtol=1e-6, atol=1e-8 * np.abs(I).max())


X0, Y0 = table(glm.Squared())
REFUSED = {
    "negative": (lambda: glm.fit(X0, Y0, glm.Squared(), [0.1, -0.1, 0.1]), Refusal, "entry 1 is -0.1"),
    "not finite": (lambda: glm.fit(X0, Y0, glm.Squared(), [0.1, np.nan, 0.1]), Refusal, "l2 has a value"),
    "too long": (lambda: glm.fit(X0, Y0, glm.Squared(), np.ones(4)), Refusal, "one number or 3 numbers"),
    "too short with an intercept": (
        lambda: glm.fit(X0, Y0, glm.Squared(), np.ones(2), intercept=True),
        Refusal,
        "or 4 with the intercept's last",
    ),
    "no intercept to penalise": (
        lambda: glm.fit(X0, Y0, glm.Squared(), 0.1, penalised_intercept=True),
        Refusal,
        "needs an intercept",
    ),
    "an intercept without its entry": (
        lambda: glm.fit(X0, Y0, glm.Squared(), L2, intercept=True, penalised_intercept=True),
        Refusal,
        "give 4 numbers",
    ),
    "one number of many": (lambda: glm.fit(X0, Y0, glm.Squared(), L2).l2, CannotMeasure, "different penalties"),
    "a sensitivity": (
        lambda: glm.differential_privacy(
            glm.fit(X0, Y0, glm.Squared(), L2), X0, Y0, ONE, row_norm=9.0, target_bound=99.0
        ),
        CannotMeasure,
        "different penalties",
    ),
    "a sensitivity with a penalised intercept": (
        lambda: glm.differential_privacy(
            glm.fit(X0, Y0, glm.Squared(), 0.1, intercept=True, penalised_intercept=True),
            X0, Y0, ONE, row_norm=9.0, target_bound=99.0,
        ),
        CannotMeasure,
        "add a constant column",
    ),
    "a fitted scaler with a penalised intercept": (
        lambda: glm.measure(
            glm.fit(STANDARD, Y0, glm.Squared(), 0.1, intercept=True, penalised_intercept=True), STANDARD, Y0, ONE,
            scaled=np.ones(3, dtype=bool),
        ),
        CannotMeasure,
        "an intercept without a penalty",
    ),
}  # fmt: skip
STANDARD = (X0 - X0.mean(axis=0)) / X0.std(axis=0)


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_a_penalty_per_column_does_not_have_is_refused_by_name(case):
    attempt, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        attempt()


def test_a_fit_shows_the_range_of_its_penalties():
    assert "l2 = 0.02 to 1," in repr(glm.fit(X0, Y0, glm.Squared(), L2))
    assert "l2 = 0.1," in repr(glm.fit(X0, Y0, glm.Squared(), 0.1))
