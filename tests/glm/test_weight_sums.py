"""The released weights of each class: contrasts with noise, summed exactly and rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.releases.weight_sums import class_rows, draw_sums, exact_sums
from dosimeter.noise_addition import noisy_linear_map
from dosimeter.noise_addition.linear_map import SIGNIFICANT, identity_rows, significant_bits
from dosimeter.noise_addition.simulation import seeded_bits

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 4))
Y = np.digitize(X @ [1.0, -0.5, 0.0, 0.3] + RNG.standard_normal(60), [-0.7, 0.6]).astype(float)


def planned(loss, intercept=True, scale=0.5, law=dm.Gaussian):
    return glm.plan(X, Y, loss, 0.05, scale=scale, law=law, intercept=intercept)


@pytest.mark.parametrize("loss", [glm.Softmax(3, "mean"), glm.Softmax(3, 1)], ids=["mean", "reference"])
@pytest.mark.parametrize("law", [dm.Gaussian, dm.Laplace], ids=lambda law: law.__name__)
def test_a_class_is_its_sum_over_the_contrasts_as_they_were_drawn(loss, law):
    """The same bits once more, contrast by contrast: C times them, in float64 of numbers with forty bits."""
    plan = planned(loss, law=law)
    released = plan.draw(np.random.default_rng(1)).values
    noised = noisy_linear_map(
        plan.fit.w.T.ravel(), plan.noise, identity_rows(10), bits=seeded_bits(np.random.default_rng(1))
    )
    by_class = loss.contrast @ noised.reshape(2, 5)
    np.testing.assert_allclose(released["coef"], by_class[:, :4], rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(released["intercept"], by_class[:, 4], rtol=1e-10, atol=1e-11)
    numbers = np.append(released["coef"], released["intercept"])
    assert significant_bits(numbers).max() <= SIGNIFICANT


def test_the_reference_class_is_zero_for_every_table():
    released = planned(glm.Softmax(3, 1)).draw(np.random.default_rng(1)).values
    assert not released["coef"][1].any()
    assert released["intercept"][1] == 0.0
    assert released["coef"][[0, 2]].all()


def test_the_noise_on_the_rows_is_equal_and_sums_to_zero():
    """Covariance σ²(I - 11ᵀ/K) over the classes: the contrasts are orthonormal."""
    plan = planned(glm.Softmax(3, "mean"), intercept=False)
    exact = plan.fit.coef @ glm.Softmax(3, "mean").contrast.T
    drawn = np.array([plan.draw(np.random.default_rng(k)).values["coef"] for k in range(100)])
    noise = drawn - exact.T
    np.testing.assert_allclose(noise.sum(axis=1), 0.0, atol=1e-10)
    covariance = np.einsum("tcj,tkj->ck", noise, noise) / (100 * 4)
    np.testing.assert_allclose(covariance, 0.25 * (np.eye(3) - 1 / 3), atol=5 * 0.25 * np.sqrt(2 / 400))


def test_sums_over_one_margin_are_taken_for_each_class():
    plan = planned(glm.Softmax(3, "mean"))
    rows = [{0: Fraction(1, 3)}, {}, {1: Fraction(2), 4: Fraction(-1, 7)}]
    W = plan.fit.w @ glm.Softmax(3, "mean").contrast.T
    wanted = np.array([W[0] / 3, np.zeros(3), 2 * W[1] - W[4] / 7]).T
    np.testing.assert_allclose(exact_sums(plan.fit, rows).reshape(3, 3), wanted, rtol=1e-12)
    little = draw_sums(plan.fit, dm.Gaussian(1e-9), rows, intercept=True, bits=None)
    np.testing.assert_allclose(little["coef"], wanted[:, :2], atol=1e-7)
    np.testing.assert_allclose(little["intercept"], wanted[:, 2], atol=1e-7)
    assert class_rows(glm.fit(X, Y, glm.Squared(), 0.1), rows) == [rows]


def test_equalised_and_shaped_noise_are_refused_before_anything_is_reweighted(monkeypatch):
    from importlib import import_module

    monkeypatch.setattr(import_module("dosimeter.glm.releases.release_planning"), "irfil", None)
    with pytest.raises(dm.CannotMeasure, match="one margin, not softmax: use the same noise"):
        glm.plan(X, Y, glm.Softmax(3, "mean"), 0.05, scale=1.0, reweighting_rounds=2)
    with pytest.raises(dm.CannotMeasure, match="canonical losses, and gamma is not"):
        glm.plan(X, Y + 1, glm.Gamma(), 0.05, scale=1.0, reweighting_rounds=2)
    with pytest.raises(dm.CannotMeasure, match="Hessian of the softmax loss"):
        glm.plan(X, Y, glm.Softmax(3, "mean"), 0.05, scale=1.0, noise_shape="hessian")
