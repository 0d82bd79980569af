"""IRFIL and its total derivative; the oracle is a second pipeline (dense SVD, fresh fits) and its differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.reweighting.irfil import irfil, reweight, unevenness
from dosimeter.glm.reweighting.reweighted_leakage import equalise, total_leakage
from dosimeter.glm.reweighting.reweighting_gradient import total_jacobian

from .reweighting import derivative, final_weights

ONE = dm.Gaussian(1.0)
L2 = 0.01
LOSSES = {"squared": glm.Squared(), "logistic": glm.Logistic(), "poisson": glm.Poisson()}
SHAPE = np.array([[2.0, 0.3, 0.0], [0.0, 1.0, -0.5], [0.0, 0.0, 0.7]])
UNITS = np.array([[1.0, 0.5], [0.0, 2.0], [0.3, 0.0]])
PERSONS = np.r_[np.repeat(np.arange(12), 2), 100 + np.arange(10), np.repeat([200, 300], 3)]


@pytest.fixture(scope="module", params=list(LOSSES))
def problem(request):
    """40 rows, 3 columns, and targets that stay valid when they are moved a little."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 3))
    margin = X @ np.array([1.0, -0.5, 0.3])
    y = {
        "squared": margin + rng.standard_normal(40),
        "logistic": 0.05 + 0.9 * (rng.random(40) < 1 / (1 + np.exp(-margin))),
        "poisson": rng.poisson(np.exp(0.5 * margin)) + 0.5,
    }[request.param]
    return request.param, X, y


def squared_problem(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(n)


# --- Algorithm 1 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"columns": [0, 2]}, {"groups": PERSONS}, {"intercept": True}, {"include_target": False}]
)
def test_the_weights_sum_to_the_rows_in_every_round_and_make_the_figures_equal(problem, options):
    name, X, y = problem
    reweighting = irfil(X, y, LOSSES[name], L2, rounds=400, tolerance=1e-7, **options)
    assert all(stage.fit.sample_weight.sum() == pytest.approx(40, rel=1e-14) for stage in reweighting.path)
    assert reweighting.converged
    assert reweighting.unevenness <= 1e-7 < irfil(X, y, LOSSES[name], L2, rounds=1, **options).unevenness
    leak = glm.measure(reweighting.fit, X, y, dm.Gaussian(2.0), include_target=options.get("include_target", True))
    if "groups" in options:
        figures = np.array(list(leak.group(PERSONS).values()))
    else:
        figures = leak.attribute([0, 2]) if "columns" in options else leak.examples
    assert np.ptp(figures) <= 2e-7 * figures.max()


def test_equal_figures_are_a_fixed_point():
    X, y = squared_problem()
    reweighting = irfil(X, y, glm.Squared(), L2, rounds=500, tolerance=1e-12)
    np.testing.assert_allclose(reweight(reweighting.weights, reweighting.eta), reweighting.weights, rtol=1e-11)
    again = irfil(X, y, glm.Squared(), L2, sample_weight=reweighting.weights, rounds=3, tolerance=0.0)
    np.testing.assert_allclose(again.weights, reweighting.weights, rtol=1e-10)
    draws = np.random.default_rng(1).random(40)
    draws *= 40 / draws.sum()
    np.testing.assert_allclose(reweight(draws, np.full(40, 0.3)), draws, rtol=1e-15)


@pytest.mark.parametrize("loss", [glm.Squared(), glm.Logistic()])
def test_without_a_penalty_the_scale_of_the_weights_does_not_matter(loss):
    X, y = squared_problem()
    y = y if loss == glm.Squared() else (y > np.median(y) + X[:, 0]).astype(float)
    omega = np.random.default_rng(2).uniform(0.2, 3.0, 40)
    small, large = (
        glm.measure(glm.fit(X, y, loss, 0.0, sample_weight=s * omega), X, y, ONE).examples for s in (1e-3, 1e3)
    )
    np.testing.assert_allclose(small, large, rtol=1e-10)
    a, b = (irfil(X, y, loss, 0.0, sample_weight=s * omega, rounds=5) for s in (1e-3, 1e3))
    np.testing.assert_allclose(a.weights, b.weights, rtol=1e-10)


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_the_rounds_are_those_of_a_second_implementation(problem, rounds):
    name, X, y = problem
    reweighting = irfil(X, y, LOSSES[name], L2, rounds=rounds, tolerance=0.0)
    np.testing.assert_allclose(reweighting.fit.w, final_weights(X, y, name, L2, rounds), rtol=1e-9)
    assert reweighting.rounds == rounds
    assert reweighting.history.shape == (rounds + 1, 4)
    eta = glm.measure(reweighting.fit, X, y, ONE).examples
    np.testing.assert_allclose(reweighting.history[-1], [eta.mean(), eta.std(ddof=1), eta.max(), eta.min()], rtol=1e-12)


def test_it_stops_as_soon_as_the_figures_are_equal_to_the_tolerance():
    X, y = squared_problem()
    reweighting = irfil(X, y, glm.Squared(), L2, rounds=1000, tolerance=1e-3)
    assert reweighting.rounds < 100
    assert reweighting.converged
    assert unevenness(reweighting.path[-2].eta) > 1e-3
    short = irfil(X, y, glm.Squared(), L2, rounds=1, tolerance=1e-3)
    assert not short.converged
    assert "constants" in repr(short)


def test_a_fit_starts_at_the_last_one():
    X, y = squared_problem()
    y = (y > X[:, 0]).astype(float)
    reweighting = irfil(X, y, glm.Logistic(), L2, rounds=40)
    assert reweighting.path[-1].fit.iterations < reweighting.path[0].fit.iterations


def test_progress_sees_every_round():
    X, y = squared_problem()
    rounds_seen = []
    reweighting = irfil(
        X, y, glm.Squared(), L2, rounds=3, tolerance=0.0, progress=lambda t, stage: rounds_seen.append((t, stage))
    )
    assert [t for t, _ in rounds_seen] == [0, 1, 2, 3]
    assert rounds_seen[-1][1] is reweighting.path[-1]


def test_rows_of_one_person_share_their_weight():
    X, y = squared_problem()
    reweighting = irfil(X, y, glm.Squared(), L2, groups=[f"p{k}" for k in PERSONS], tied=[1], rounds=300)
    assert reweighting.converged
    assert len(reweighting.eta) == len(np.unique(PERSONS)) == 24
    for person in np.unique(PERSONS):
        assert np.ptp(reweighting.weights[person == PERSONS]) <= 1e-12
    eta = glm.measure(reweighting.fit, X, y, ONE).group(PERSONS, tied=[1])
    assert np.ptp(list(eta.values())) < 1e-6


def test_targets_are_kept_in_proportion():
    X, y = squared_problem()
    proportions = np.where(np.arange(40) < 5, 0.25, 1.0)
    reweighting = irfil(X, y, glm.Squared(), L2, targets=proportions, rounds=600, tolerance=1e-9)
    np.testing.assert_allclose(reweighting.eta[:5] / reweighting.eta[5:10], 0.25, rtol=1e-8)


def test_softmax_is_equalised_too():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 3, 60).astype(float)
    reweighting = irfil(X, y, glm.Softmax(3, "mean"), 0.05, rounds=200, tolerance=1e-6)
    assert reweighting.converged
    with pytest.raises(CannotMeasure, match="one margin"):
        total_leakage(reweighting, X, y, ONE)


def test_the_table_is_left_as_it_was():
    X, y = squared_problem()
    kept = X.copy(), y.copy()
    total_leakage(irfil(X, y, glm.Squared(), L2, rounds=2), X, y, ONE)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


def test_a_figure_of_zero_is_refused_by_name():
    X, y = squared_problem(12)
    X[7], y[7] = 0.0, 0.0  # this row does not affect the weights: no residual, no direction
    with pytest.raises(Refusal, match="row 7 leaks nothing"):
        irfil(X, y, glm.Squared(), L2)
    with pytest.raises(Refusal, match=r"group number 7 .* leaks nothing"):
        irfil(X, y, glm.Squared(), L2, groups=list("abcdefghijkl"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": -1}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"tolerance": float("nan")}, "tolerance"),
        ({"sample_weight": np.r_[0.0, np.ones(39)]}, "weight 0 would keep it"),
        ({"targets": np.zeros(40)}, "targets"),
        ({"groups": [1, 2]}, "one group each"),
        ({"tied": [1]}, "pass groups"),
        ({"tied_target": True}, "pass groups"),
        ({"columns": [7]}, "positions from 0"),
        ({"columns": []}, "no column"),
        ({"noise": dm.no_noise}, "without bound"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    X, y = squared_problem()
    with pytest.raises(Refusal, match=message):
        irfil(X, y, glm.Squared(), L2, **options)


# --- the total derivative -----------------------------------------------------------------------------------------

CASES = {
    "the whole row": {},
    "the row without its label": {"include_target": False},
    "two columns": {"columns": [0, 2]},
    "one column": {"columns": [1]},
    "an intercept": {"intercept": True},
    "an intercept, two columns": {"intercept": True, "columns": [0, 2]},
    "a weighted start": {"start": np.random.default_rng(8).uniform(0.3, 3.0, 40)},
    "persons": {"groups": PERSONS},
    "persons, a tied column": {"groups": PERSONS, "tied": (1,)},
    "persons, a tied label": {"groups": PERSONS, "tied_target": True},
    "persons, a tied column and label": {"groups": PERSONS, "tied": (1,), "tied_target": True},
    "persons, two columns, one tied": {"groups": PERSONS, "tied": (1,), "columns": [0, 1]},
    "shaped noise": {"W": SHAPE},
    "other units": {"P": UNITS, "target_unit": 0.4},
    "targets": {"targets": np.random.default_rng(9).uniform(0.5, 2.0, 40)},
}


def ours(name, X, y, rounds, start=None, W=None, P=None, **options):
    noise = ONE if W is None else CorrelatedGaussian(np.linalg.inv(W.T @ W))
    options = {k: v.tolist() if k == "groups" else v for k, v in options.items()}
    return irfil(
        X, y, LOSSES[name], L2, rounds=rounds, tolerance=0.0, sample_weight=start, noise=noise, input_map=P, **options
    )


def agrees(jacobian, X, y, name, rounds, rows, options):
    J = total_leakage(jacobian, X, y, ONE).true.jacobian.dense(rows)
    known = derivative(X, y, name, L2, rounds, rows, **options)
    scale = np.abs(known).max(axis=(1, 2), keepdims=True)
    assert np.max(np.abs(J - known) / scale) < 1e-6


@pytest.mark.parametrize(("case", "rounds"), [*((case, 2) for case in CASES), ("the whole row", 1), ("two columns", 1)])
def test_the_total_derivative_is_that_of_the_whole_pipeline(problem, case, rounds):
    name, X, y = problem
    rows = np.array([0, 28, 36])  # a pair, one alone, one of three
    agrees(ours(name, X, y, rounds, **CASES[case]), X, y, name, rounds, rows, CASES[case])


@pytest.mark.parametrize("case", ["the whole row", "two columns", "persons"])
def test_the_total_derivative_holds_through_five_rounds(problem, case):
    name, X, y = problem
    rows = np.arange(40) if (name, case) == ("squared", "the whole row") else np.arange(0, 40, 7)
    agrees(ours(name, X, y, 5, **CASES[case]), X, y, name, 5, rows, CASES[case])


@pytest.mark.parametrize("intercept", [False, True])
def test_without_a_round_the_total_figure_is_the_plain_one(problem, intercept):
    name, X, y = problem
    leak = total_leakage(irfil(X, y, LOSSES[name], L2, rounds=0, intercept=intercept), X, y, dm.Laplace(0.3))
    plain = glm.measure(glm.fit(X, y, LOSSES[name], L2, intercept=intercept), X, y, dm.Laplace(0.3))
    np.testing.assert_allclose(leak.examples, plain.examples, rtol=1e-10)
    np.testing.assert_allclose(leak.attribute([0, 1]), plain.attribute([0, 1]), rtol=1e-10)
    np.testing.assert_allclose(leak.ratio, 1.0, rtol=1e-10)
    np.testing.assert_allclose(leak.reported.examples, plain.examples, rtol=1e-10)


def test_every_reading_works_on_the_total_derivative():
    X, y = squared_problem()
    leak = total_leakage(irfil(X, y, glm.Squared(), L2, rounds=2), X, y, dm.Gaussian(0.5)).true
    J = derivative(X, y, "squared", L2, 2, np.arange(40)) / 0.5
    np.testing.assert_allclose(leak.examples, np.linalg.norm(J, 2, axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(leak.cells, np.linalg.norm(J[:, :, :3], axis=1), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(leak.labels, np.linalg.norm(J[:, :, 3], axis=1), rtol=1e-6, atol=1e-9)
    flat = J.transpose(1, 0, 2).reshape(3, -1)
    assert leak.dataset == pytest.approx(np.linalg.norm(flat, 2), rel=1e-6)
    pair = leak.group(np.arange(40) // 2)
    assert pair[3] == pytest.approx(np.linalg.norm(np.hstack([J[6], J[7]]), 2), rel=1e-6)
    assert len(leak.dose().amounts) == 40
    assert "through their reweighting" in repr(leak)


def test_equal_figures_are_not_equal_once_the_weights_may_move():
    X, y = squared_problem(200)
    leak = total_leakage(irfil(X, y, glm.Squared(), L2, rounds=200), X, y, ONE)
    assert np.ptp(leak.reported.examples) < 1e-6
    assert unevenness(leak.units) > 0.5
    assert "true/reported" in repr(leak)


def test_an_exact_release_leaks_without_bound_and_still_has_its_ratio():
    X, y = squared_problem()
    reweighting = irfil(X, y, glm.Squared(), L2, rounds=2)
    exact, noised = total_leakage(reweighting, X, y, dm.no_noise), total_leakage(reweighting, X, y, ONE)
    assert np.isinf(exact.examples).all()
    np.testing.assert_allclose(exact.ratio, noised.ratio, rtol=1e-12)


def test_two_equal_singular_values_are_refused():
    X = np.vstack([2 * np.eye(3), -2 * np.eye(3), np.zeros((1, 3))])
    y = np.array([1.0, 2.0, 0.5, -1.0, 1.0, 0.3, 1.5])  # the last row: J = -r K, and K is a multiple of the identity
    reweighting = irfil(X, y, glm.Squared(), L2, rounds=1)
    with pytest.raises(CannotMeasure, match="row 6 has two equal largest singular values"):
        total_leakage(reweighting, X, y, ONE)
    X[-1, 0] = 1e-3
    reweighting = total_leakage(irfil(X, y, glm.Squared(), L2, rounds=1), X, y, ONE)
    assert 1e-9 < reweighting.gap < 1e-2


def test_another_table_is_refused():
    X, y = squared_problem()
    with pytest.raises(Refusal, match="not the row"):
        total_leakage(irfil(X, y, glm.Squared(), L2, rounds=2), X[::-1], y, ONE)


def test_the_derivative_of_a_part_of_the_weights_is_that_part_of_the_derivative():
    X, y = squared_problem()
    reweighting = irfil(X, y, glm.Squared(), L2, rounds=3)
    W = np.array([[1.0, -2.0, 0.5]])
    whole = total_jacobian(reweighting, X, y, np.eye(3)).J
    np.testing.assert_allclose(total_jacobian(reweighting, X, y, W).J, W @ whole, rtol=1e-9, atol=1e-12)


# --- making the total figure equal --------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"columns": [0, 1]}, {"groups": np.arange(120) // 2}])
def test_the_total_figure_can_be_made_equal(options):
    X, y = squared_problem(120)
    options = {k: v.tolist() if k == "groups" else v for k, v in options.items()}
    etas = []
    equalised = equalise(X, y, glm.Squared(), L2, progress=lambda step, eta: etas.append(eta), **options)
    assert equalised.converged
    assert equalised.unevenness < 1e-3
    assert len(etas) == len(equalised.history) <= 41
    before = total_leakage(irfil(X, y, glm.Squared(), L2, rounds=200, **options), X, y, ONE).units
    assert unevenness(before) > 0.3
    assert equalised.eta.max() < before.max()
    again = total_leakage(equalised.reweighting, X, y, ONE)
    np.testing.assert_allclose(again.units, equalised.eta, rtol=1e-12)
    assert "targets as constants" in repr(equalised)


def test_a_search_that_does_not_converge_says_so():
    X, y = squared_problem(120)
    equalised = equalise(X, y, glm.Squared(), L2, steps=1)
    assert not equalised.converged
    assert equalised.unevenness == pytest.approx(min(top / low - 1 for _, _, top, low in equalised.history), rel=1e-12)
    for bad in ({"damping": 0.0}, {"steps": -1}, {"targets": np.ones(120)}):
        with pytest.raises(Refusal):
            equalise(X, y, glm.Squared(), L2, **bad)


def test_a_weighting_of_one_row_alone_is_its_own_answer():
    reweighting = irfil(np.ones((1, 1)), np.ones(1), glm.Squared(), 1.0)
    assert reweighting.history.shape == (1, 4)
    assert replace(reweighting, tolerance=0.0).converged
