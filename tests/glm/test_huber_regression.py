"""Huber regression with a scale against refits by scikit-learn, and against another way to its minimum."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq, root
from sklearn.linear_model import HuberRegressor

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.equations.estimating_equations import newton

from .refits import assert_nested, cell_slope, close

ONE = dm.Gaussian(1.0)
RNG = np.random.default_rng(12)
N = 30
X = RNG.standard_normal((N, 2)) * [1.0, 2.0]
Y = X @ [1.0, -0.5] + 0.4 + RNG.standard_t(2, N)
WEIGHT = RNG.uniform(0.3, 3.0, N)


def refit(X, y, weight=None, **settings):
    """scikit-learn's own fit, restarted from where it stopped until it stands still."""
    intercept = settings.get("fit_intercept", True)
    model = HuberRegressor(tol=1e-14, max_iter=10_000, warm_start=True, **settings).fit(X, y, sample_weight=weight)
    for _ in range(40 * intercept):  # without an intercept it cannot restart
        try:
            model.fit(X, y, sample_weight=weight)
        except ValueError:  # no step lowers the objective visibly any more
            break
    return np.concatenate([model.coef_, [model.intercept_] * intercept, [model.scale_]])


def flat_point(X, y, start, weight, alpha, epsilon=1.35):
    """Where the slope of the documented objective is zero, by a method that does not know its curvature."""

    def slope(theta):
        w, b, s = theta[:-2], theta[-2], theta[-1]
        z = (X @ w + b - y) / s
        inside = np.abs(z) < epsilon
        H = np.where(inside, z**2, 2 * epsilon * np.abs(z) - epsilon**2)
        dH = weight * np.where(inside, 2 * z, 2 * epsilon * np.sign(z))
        return np.concatenate([X.T @ dH + 2 * alpha * w, [dH.sum()], [np.sum(weight + weight * H - dH * z)]])

    result = root(slope, start, method="hybr", tol=1e-14)
    assert np.abs(slope(result.x)).max() < 1e-11
    return result.x


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("alpha", [1e-4, 3.0])
def test_the_parameters_are_scikit_learns_and_move_as_its_refit_shows(alpha, weight):
    solution = glm.HuberRegression(X, Y, 1.5, alpha, weight).solve()
    np.testing.assert_allclose(solution.theta, refit(X, Y, weight, epsilon=1.5, alpha=alpha), rtol=0, atol=1e-7)
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    for row, column in [(0, 0), (11, 1)]:
        slope = cell_slope(lambda Z: refit(Z, Y, weight, epsilon=1.5, alpha=alpha), X, row, column, 0.01)
        close(J[row, :, column], slope, 1e-4)  # refits stop 1e-8 away, over 0.01; the next test has more digits


@pytest.mark.parametrize("weight", [np.ones(N), WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("alpha", [1e-4, 3.0])
def test_cells_and_targets_move_as_an_independent_root_finder_shows(alpha, weight):
    solution = glm.HuberRegression(X, Y, alpha=alpha, sample_weight=weight).solve()
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    z = (X @ solution.theta[:2] + solution.theta[2] - Y) / solution.theta[3]
    outside, inside = int(np.abs(z).argmax()), int(np.abs(z).argmin())

    def refit(X, y):
        return flat_point(X, y, solution.theta, weight, alpha)

    for row in (outside, inside):
        for column in range(2):
            close(J[row, :, column], cell_slope(lambda Z: refit(Z, Y), X, row, column, 2e-4))
    close(J[inside, :, 2], cell_slope(lambda y: refit(X, y[:, 0]), Y[:, None], inside, 0, 2e-4))
    assert not J[outside, :, 2].any()  # a target far out does not move the fit at all


def test_without_an_intercept():
    solution = glm.HuberRegression(X, Y, intercept=False).solve()
    theirs = refit(X, Y, fit_intercept=False)
    np.testing.assert_allclose(solution.theta, theirs, rtol=0, atol=1e-4)
    (H,) = solution.equations.derivative(solution.theta)
    assert np.linalg.eigvalsh(H)[0] > 0
    assert solution.gradient_norm < 1e-10


def test_the_weights_alone_leak_less_than_with_the_scale():
    equations = glm.HuberRegression(X, Y)
    solution = equations.solve()
    both, alone = (glm.measure_solution(solution, ONE, released=R) for R in (equations.released, equations.weights_map))
    assert (alone.examples <= both.examples * (1 + 1e-12)).all()
    assert alone.jacobian.dense(slice(0, 1)).shape[1] == 3
    np.testing.assert_allclose(equations.weights_map.value(solution.theta), solution.theta[:-1])


def test_the_nearest_kink_is_reported_with_its_row():
    equations = glm.HuberRegression(X, Y)
    solution = equations.solve()
    residual = np.abs(X @ solution.theta[:2] + solution.theta[2] - Y)
    distances = np.abs(residual - 1.35 * solution.theta[-1])
    row = int(distances.argmin())
    assert solution.kinks[0].what.startswith(f"row {row} ")
    assert solution.kinks[0].distance == pytest.approx(distances[row] / (1.35 * solution.theta[-1]))
    np.testing.assert_allclose(equations.distances(solution.theta), distances, rtol=1e-9)
    assert any("outliers_" in note for note in solution.not_covered)


def test_a_row_at_the_kink_is_refused():
    """The target of the nearest row is moved until its residual is εσ: bisection on the fit."""
    equations = glm.HuberRegression(X, Y)
    theta = equations.solve().theta
    row = int(equations.distances(theta).argmin())

    def table(move):
        y = Y.copy()
        y[row] += move
        return y

    def gap(move):
        y = table(move)
        fitted, _ = newton(glm.HuberRegression(X, y), theta)
        return abs(X[row] @ fitted[:2] + fitted[2] - y[row]) - 1.35 * fitted[-1]

    reach = 3.0 * float(equations.distances(theta)[row])
    crossing = next(move for move in (reach, -reach) if np.sign(gap(move)) != np.sign(gap(0.0)))
    move = brentq(gap, *sorted((0.0, crossing)), xtol=1e-15)
    with pytest.raises(dm.CannotMeasure, match=f"row {row} is at the end"):
        glm.HuberRegression(X, table(move)).solve()


def test_newton_reaches_the_same_root_from_afar():
    equations = glm.HuberRegression(X, Y)
    near, far = equations.solve(), equations.solve([5.0, -5.0, 3.0, 8.0])
    np.testing.assert_allclose(far.theta, near.theta, rtol=1e-11)


def test_more_unknowns_never_lower_the_figure():
    assert_nested(glm.measure_solution(glm.HuberRegression(X, Y).solve(), ONE))


def test_what_has_no_solution_is_refused():
    with pytest.raises(dm.Refusal, match="epsilon"):
        glm.HuberRegression(X, Y, epsilon=1.0)
    with pytest.raises(dm.Refusal, match="alpha"):
        glm.HuberRegression(X, Y, alpha=-1.0)
    with pytest.raises(dm.Refusal, match="not defined"):
        glm.HuberRegression(X, Y).solve([1.0, 1.0, 0.0, -1.0])
    with pytest.raises(dm.Refusal):  # a perfect fit has the scale zero
        glm.HuberRegression(X, X @ [1.0, 2.0], alpha=0.0).solve()
