"""A plan keeps its limit by the figure that accounts for weights and covariance, and draws the stated noise."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
SQUARED = X @ [1.0, -1.0, 0.5] + rng.standard_normal(80)
CLASSES = (SQUARED > 0).astype(float)
PEOPLE = np.arange(80) // 2


@pytest.mark.parametrize("loss", [glm.Squared(), glm.Logistic()], ids=lambda k: k.name)
@pytest.mark.parametrize(
    "options", [{}, {"reweighting_rounds": 2}, {"groups": PEOPLE}, {"reweighting_rounds": 2, "groups": PEOPLE}], ids=str
)
@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace])
def test_the_highest_dose_stays_within_the_limit_and_close_to_it(loss, options, law):
    y = SQUARED if loss.name == "squared" else CLASSES
    release_plan = glm.plan(X, y, loss, 0.05, max_dose=0.4, intercept=True, law=law, **options)
    assert 0.4 / 1.5 < release_plan.highest <= 0.4
    doses = release_plan.leakage.group(PEOPLE).values() if "groups" in options else release_plan.leakage.examples
    assert max(doses) == pytest.approx(release_plan.highest, rel=1e-12)
    assert any("chosen from the data" in note for note in release_plan.not_covered)


def test_the_dose_of_a_reweighted_plan_is_that_of_the_whole_pipeline():
    release_plan = glm.plan(X, SQUARED, glm.Squared(), 0.05, scale=0.5, reweighting_rounds=2)

    def weights(table):
        return glm.irfil(table, SQUARED, glm.Squared(), 0.05, rounds=2, tolerance=0.0).fit.w

    step = 1e-5
    for row, column in ((0, 0), (7, 2)):
        ends = []
        for sign in (1, -1):
            moved = X.copy()
            moved[row, column] += sign * step
            ends.append(weights(moved))
        slope = np.linalg.norm(ends[0] - ends[1]) / (2 * step)
        assert release_plan.leakage.cells[row, column] == pytest.approx(slope / 0.5, rel=1e-4)


def test_a_public_scale_leaves_nothing_uncovered():
    release_plan = glm.plan(X, SQUARED, glm.Squared(), 0.05, scale=0.25)
    assert release_plan.not_covered == ()
    eta = glm.measure(glm.fit(X, SQUARED, glm.Squared(), 0.05), X, SQUARED, dm.Gaussian(0.25)).examples
    assert release_plan.highest == pytest.approx(eta.max(), rel=1e-12)


def test_shaped_noise_is_drawn_with_the_covariance_it_says():
    release_plan = glm.plan(X, SQUARED, glm.Squared(), 0.05, scale=0.5, noise_shape="hessian")
    simulation = np.random.default_rng(1)
    draws = np.array([release_plan.draw(simulation).values["coef"] for _ in range(4000)]) - release_plan.fit.coef
    H = X.T @ X + 80 * 0.05 * np.eye(3)
    expected = 0.25 * np.linalg.inv(H)
    # Entries of a sample covariance of 4,000 draws vary by 2-3 %: 12 % is five of them.
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.12 * np.abs(expected).max())


def test_the_covariance_and_its_trace_are_not_released():
    release_plan = glm.plan(X, SQUARED, glm.Squared(), 0.05, max_dose=1.0, noise_shape="hessian")
    release = release_plan.draw()
    trace = f"{np.trace(release_plan.noise.covariance):.6g}"
    assert trace not in release.recipe.noise
    assert trace not in repr(release)
    # The grid follows from √c alone, which is on the public ladder.
    assert release.recipe.settings["grid"] == 2.0 ** (np.floor(np.log2(release.recipe.settings["scale"])) - 30)


def test_the_release_is_on_the_grid_and_differs_each_time():
    release_plan = glm.plan(X, SQUARED, glm.Squared(), 0.05, scale=0.5, intercept=True)
    first, second = release_plan.draw(), release_plan.draw()
    grid = first.recipe.settings["grid"]
    assert all((v / grid == np.round(v / grid)).all() for v in first.values.values())
    assert (first.values["coef"] != second.values["coef"]).all()
    assert not first.recipe.simulation
    assert release_plan.draw(np.random.default_rng(0)).recipe.simulation


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_dose": 1.0, "scale": 1.0},
        {"max_dose": 0.0},
        {"scale": 1.0, "noise_shape": "round"},
        {"scale": 1.0, "noise_shape": "hessian", "reweighting_rounds": 2},
        {"scale": 1.0, "noise_shape": "hessian", "law": dm.Laplace},
        {"max_dose": 1e-6, "noise_shape": "hessian"},
        {"max_dose": 1.0, "law": dm.Exponential},
    ],
    ids=str,
)
def test_impossible_plans_are_refused(options):
    with pytest.raises(dm.Refusal):
        glm.plan(X, SQUARED, glm.Squared(), 0.05, **options)


def test_a_shape_made_from_data_is_refused_for_a_loss_without_a_closed_form():
    with pytest.raises(dm.Refusal):
        glm.plan(X, CLASSES, glm.Logistic(), 0.05, scale=1.0, noise_shape="hessian")


def test_the_membership_figure_is_part_of_the_reading():
    fit = glm.fit(X, SQUARED, glm.Squared(), 0.05)
    leak = glm.measure(fit, X, SQUARED, dm.Gaussian(0.5))
    without = glm.fit(np.delete(X, 4, 0), np.delete(SQUARED, 4), glm.Squared(), 0.05 * 80 / 79)
    assert leak.membership[4] == pytest.approx(np.linalg.norm(without.w - fit.w) / 0.5, rel=1e-9)
    with pytest.raises(dm.CannotMeasure):
        glm.compose([leak, leak]).membership  # noqa: B018
