"""The implicit function theorem, its solver and its Jacobian: laws, maps, noises, and the simulated score."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.noise import NOISES
from dosimeter.glm.linalg.inverse_blocks import invert

from .refits import assert_nested, cell_slope, close

ONE = dm.Gaussian(1.0)
RNG = np.random.default_rng(4)
N = 30
X = RNG.standard_normal((N, 3))
Y = X @ [1.0, -1.0, 0.5] + RNG.standard_t(3, N)
CLASSES = np.concatenate([np.arange(3), RNG.integers(0, 3, N - 3)]).astype(float)
SHIFTED = X + CLASSES[:, None] * [0.5, -0.4, 0.1] + np.outer(CLASSES == 1, [0.0, 0.7, 0.0])


def every_problem():
    lasso = glm.SparseWeights(X, Y - 0.5 * X[:, 2], glm.Squared(), [0.9, -0.8, 0.0], 8.0)
    return {
        "ridge": glm.ridge_outputs(X, np.column_stack([Y, X[:, 0] + Y**2]), 1.0),
        "one versus rest": glm.one_versus_rest(X, CLASSES, 3, glm.Logistic(), 1.0, intercept=True),
        "huber": glm.HuberRegression(X, Y),
        "discriminant": glm.LinearDiscriminant(SHIFTED, CLASSES, 3),
        "naive bayes": glm.GaussianNaiveBayes(SHIFTED, CLASSES, 3),
        "lasso": lasso,
    }


@dataclass(frozen=True, eq=False)
class Median(glm.EstimatingEquations):
    """A smoothed median, Σ tanh(x - θ) + Σ y tanh(θ) = 0: written here to show what a new estimator needs."""

    X: np.ndarray
    y: np.ndarray
    target = glm.TargetKind.NUMBER
    parameter_names = ("centre",)

    def value(self, theta):
        return np.array([np.sum(np.tanh(theta - self.X[:, 0])) + self.y.sum() * np.tanh(theta[0])])

    def derivative(self, theta):
        slope = np.sum(np.cosh(theta - self.X[:, 0]) ** -2) + self.y.sum() * np.cosh(theta[0]) ** -2
        return (np.array([[slope]]),)

    def row_derivative(self, theta, rows):
        x = self.X[rows]
        return np.stack([-(np.cosh(theta - x) ** -2), np.full_like(x, np.tanh(theta[0]))], axis=2)

    def start(self):
        return np.zeros(1)


def test_a_new_estimator_needs_four_methods():
    centres, pull = RNG.standard_normal((12, 1)) + 0.5, np.abs(RNG.standard_normal(12)) / 10

    def refit(x, y=pull):
        return Median(x, y).solve().theta

    solution = Median(centres, pull).solve()
    J = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    close(J[3, :, 0], cell_slope(refit, centres, 3, 0, 1e-3), 1e-9)
    close(J[3, :, 1], cell_slope(lambda y: refit(centres, y[:, 0]), pull[:, None], 3, 0, 1e-3), 1e-9)
    assert solution.gradient_norm < 1e-13
    assert solution.condition == 1.0
    assert repr(solution).startswith("<Solution of Median, 12 rows, 1 parameters")


@pytest.mark.parametrize("name", every_problem())
def test_the_root_has_a_certificate(name):
    solution = every_problem()[name].solve()
    assert solution.gradient_norm <= 1e-9 * (1 + np.abs(solution.theta).max())
    assert solution.decrement <= 1e-9
    assert 1.0 <= solution.condition < 1e6
    assert len(solution.theta) == len(solution.equations.parameter_names)
    assert len(solution.released) == len(solution.equations.released.names)
    G = solution.equations.value(solution.theta)
    assert np.linalg.norm(G) <= 1e-9 * (1 + np.abs(solution.theta).max())
    assert "rows" in repr(solution)


@pytest.mark.parametrize("name", every_problem())
def test_dg_dtheta_and_the_row_derivatives_are_those_of_g(name):
    """Finite differences of G itself, away from the root too."""
    problem = every_problem()[name]
    theta = problem.solve().theta
    if name in ("ridge", "one versus rest", "lasso"):
        theta = theta + 0.05
    q, h = len(theta), 1e-5
    inverse = invert(problem.derivative(theta), q)
    D = np.column_stack([(problem.value(theta + h * e) - problem.value(theta - h * e)) / (2 * h) for e in np.eye(q)])
    np.testing.assert_allclose(inverse.times(D), np.eye(q), atol=1e-7)
    rows = problem.row_derivative(theta, np.array([2, 11]))
    for k, row in enumerate((2, 11)):
        for j in range(3):
            slope = cell_slope(lambda Z: replace(problem, X=Z).value(theta), problem.X, row, j, 1e-3)
            np.testing.assert_allclose(rows[k, :, j], slope, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", every_problem())
@pytest.mark.parametrize("include_target", [True, False])
def test_more_unknowns_never_lower_the_figure(name, include_target):
    leak = glm.measure_solution(every_problem()[name].solve(), ONE, include_target=include_target)
    assert_nested(glm.Leakage(leak.jacobian, ONE))
    J = leak.jacobian.dense(slice(None))
    pick = slice(None) if include_target else slice(0, 3)
    np.testing.assert_allclose(leak.examples, np.linalg.norm(J[:, :, pick], 2, axis=(1, 2)), rtol=1e-9)
    flat = J[:, :, pick].transpose(1, 0, 2).reshape(J.shape[1], -1)
    assert leak.dataset == pytest.approx(np.linalg.norm(flat, 2), rel=1e-9)


@pytest.mark.parametrize("name", every_problem())
def test_rows_come_alone_in_blocks_and_in_any_order(name, monkeypatch):
    import dosimeter.glm.equations.estimating_jacobian as module

    jacobian = glm.measure_solution(every_problem()[name].solve(), ONE).jacobian
    whole = jacobian.dense(slice(None))
    monkeypatch.setattr(module, "BLOCK", 1)
    np.testing.assert_allclose(jacobian.dense(slice(None)), whole, rtol=1e-12, atol=1e-15)
    some = np.array([7, 2, 2, 19])
    np.testing.assert_allclose(jacobian.dense(some), whole[some], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("noise", [law(0.3) for law in NOISES.values() if law.regular], ids=str)
@pytest.mark.parametrize("name", every_problem())
def test_a_noise_enters_by_its_location_information_alone(name, noise):
    solution = every_problem()[name].solve()
    expected = glm.measure_solution(solution, ONE).examples * np.sqrt(noise.fisher_information)
    np.testing.assert_allclose(glm.measure_solution(solution, noise).examples, expected, rtol=1e-10)


@pytest.mark.parametrize("name", every_problem())
def test_correlated_noise_whitens_the_released_values(name):
    solution = every_problem()[name].solve()
    r = len(solution.released)
    root = np.random.default_rng(3).standard_normal((r, r))
    noise = dm.CorrelatedGaussian(root @ root.T + np.eye(r))
    R = solution.equations.released
    dense = glm.ReleasedMap(R.of, R.names, R.value, R.push)  # the same map as a new object takes the dense path
    J = glm.measure_solution(solution, ONE, released=dense).jacobian.dense(slice(None))
    information = J.transpose(0, 2, 1) @ np.linalg.inv(noise.covariance) @ J
    expected = np.sqrt(np.linalg.eigvalsh(information)[:, -1])
    np.testing.assert_allclose(glm.measure_solution(solution, noise).examples, expected, rtol=1e-8)


@pytest.mark.parametrize("name", every_problem())
def test_an_exact_release_is_unbounded_and_still_ranks(name):
    solution = every_problem()[name].solve()
    exact, noised = (glm.measure_solution(solution, k) for k in (dm.no_noise, ONE))
    assert np.isinf(exact.examples).all()
    np.testing.assert_allclose(exact.unscaled_examples, noised.examples, rtol=1e-12)


@pytest.mark.parametrize("noise", [dm.Gaussian(0.4), dm.Laplace(0.4)], ids=str)
def test_the_information_is_that_of_the_simulated_score(noise):
    """Monte Carlo of E[(d/dx log p)²] for one cell of a Huber fit: only the density and refits are used."""
    equations = glm.HuberRegression(X, Y)
    solution = equations.solve()
    leak = glm.measure_solution(solution, noise)
    slope = cell_slope(lambda Z: glm.HuberRegression(Z, Y).solve(solution.theta).theta, X, 3, 1, 1e-5)
    rng = np.random.default_rng(1)
    score = -(noise.score(noise.draw(rng, (400_000, 5))) @ slope)
    allowed = 5 * (score**2).std() / np.sqrt(len(score))
    assert abs(np.mean(score**2) - leak.cells[3, 1] ** 2) < allowed
    assert abs(np.mean(score**2) - (1.03 * leak.cells[3, 1]) ** 2) > allowed


@pytest.mark.parametrize("name", every_problem())
def test_a_linear_map_of_the_parameters_is_the_product(name):
    problem = every_problem()[name]
    solution = problem.solve()
    A = np.random.default_rng(2).standard_normal((2, len(solution.theta)))
    R = glm.ReleasedMap.linear(A, "two numbers")
    leak = glm.measure_solution(solution, ONE, released=R)
    identity = glm.ReleasedMap.identity(problem.parameter_names)
    J = glm.measure_solution(solution, ONE, released=identity).jacobian.dense(slice(None))
    np.testing.assert_allclose(leak.jacobian.dense(slice(None)), A @ J, rtol=1e-9, atol=1e-12 * np.abs(A @ J).max())
    np.testing.assert_allclose(R.value(solution.theta), A @ solution.theta)
    assert leak.of == "two numbers"


@pytest.mark.parametrize("name", every_problem())
def test_maps_of_rows_may_be_one_or_one_for_each_row(name):
    solution = every_problem()[name].solve()
    P = np.random.default_rng(6).standard_normal((3, 2))
    one = glm.measure_solution(solution, ONE, input_map=P)
    each = glm.measure_solution(solution, ONE, input_map=lambda rows: np.broadcast_to(P, (len(rows), 3, 2)))
    np.testing.assert_allclose(each.examples, one.examples, rtol=1e-9)
    np.testing.assert_allclose(each.cells, one.cells, rtol=1e-9, atol=1e-14)
    assert each.m == one.m == 2


def test_a_square_and_a_product_of_columns_are_maps_for_each_row():
    """x = (z₁, z₁², z₁z₂): dx/dz differs from row to row; the oracle refits through the expansion."""
    z = np.random.default_rng(9).standard_normal((N, 2))

    def expand(z):
        return np.column_stack([z[:, 0], z[:, 0] ** 2, z[:, 0] * z[:, 1]])

    def maps(rows):
        a, b = z[rows].T
        zero = np.zeros_like(a)
        return np.stack(
            [np.stack([np.ones_like(a), zero], axis=1), np.stack([2 * a, zero], axis=1), np.stack([b, a], axis=1)],
            axis=1,
        )

    for make in (lambda X: glm.HuberRegression(X, Y), lambda X: glm.ridge_outputs(X, np.column_stack([Y, Y**2]), 0.5)):
        solution = make(expand(z)).solve()
        J = glm.measure_solution(solution, ONE, input_map=maps).jacobian.dense(slice(None))
        for row, column in [(0, 0), (5, 1)]:
            close(
                J[row, :, column], cell_slope(lambda v, make=make: make(expand(v)).solve().theta, z, row, column, 1e-4)
            )


def test_several_targets_have_a_unit_each():
    solution = every_problem()["ridge"].solve()
    plain = glm.measure_solution(solution, ONE).jacobian.dense(slice(None))
    scaled = glm.measure_solution(solution, ONE, target_unit=[2.0, 5.0]).jacobian.dense(slice(None))
    np.testing.assert_allclose(scaled[:, :, 3:], plain[:, :, 3:] * [2.0, 5.0])
    np.testing.assert_array_equal(scaled[:, :, :3], plain[:, :, :3])


def test_newton_damps_its_steps():
    """tanh has no Newton step of its own far out: undamped it would diverge."""
    centres = np.array([[0.0], [0.1], [-0.1]])
    assert Median(centres, np.zeros(3)).solve([1.3]).theta == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(dm.Refusal, match="condition number"):
        Median(centres, np.zeros(3)).solve([400.0])


def test_blocks_are_inverted_one_by_one():
    blocks = tuple(B @ B.T + np.eye(3) for B in RNG.standard_normal((4, 3, 3)))
    inverse = invert(blocks, 12)
    whole = np.zeros((12, 12))
    for k, block in enumerate(blocks):
        whole[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = block
    B = RNG.standard_normal((5, 12, 2))
    np.testing.assert_allclose(inverse.times(B), np.linalg.solve(whole, B), rtol=1e-10)
    assert all(block.shape == (3, 3) for block in inverse.blocks)
    np.testing.assert_array_equal(invert((), 2).times(B[:, :2]), B[:, :2])
    with pytest.raises(dm.Refusal, match="block 1"):
        invert((np.eye(2), np.ones((2, 2))), 4)
    with pytest.raises(dm.Refusal, match="block 0"):
        invert((np.diag([1.0, 0.0]),), 2)


def test_wrong_arguments_are_refused():
    solution = every_problem()["huber"].solve()
    with pytest.raises(dm.CannotMeasure, match=r"eq\. 6"):
        glm.measure_solution(solution, dm.Exponential(1.0))
    with pytest.raises(dm.Refusal, match="noise must be"):
        glm.measure_solution(solution, 0.1)
    with pytest.raises(dm.Refusal, match=r"not \(5, 1\)"):
        glm.measure_solution(solution, dm.CorrelatedGaussian(np.eye(3)))
    with pytest.raises(dm.Refusal, match="input_map"):
        glm.measure_solution(solution, ONE, input_map=np.eye(4))
    with pytest.raises(dm.Refusal, match="input_map"):
        glm.measure_solution(solution, ONE, input_map=lambda rows: np.ones((len(rows), 2, 2)))
    with pytest.raises(dm.Refusal, match="target_unit"):
        glm.measure_solution(solution, ONE, target_unit=[1.0, 2.0])
    with pytest.raises(dm.Refusal, match="target_unit"):
        glm.measure_solution(solution, ONE, target_unit=0.0)
    with pytest.raises(dm.Refusal, match="5 finite numbers"):
        solution.equations.at(np.zeros(4))
