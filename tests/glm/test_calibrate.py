"""A calibrated release meets its target, the rung below would not, and the figures are those of the release."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.noise import NOISES
from dosimeter.core.scale_ladder import SCALE_NOT_COVERED, rung, rung_above
from dosimeter.glm.releases import shape_calibration as shapes
from dosimeter.glm.releases.shaped_noise import shape_noise

from .problems import LOSSES, targets

choose = import_module("dosimeter.glm.releases.calibrate")  # glm.calibrate is the function of the same name

RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 3))
PERSONS = [f"p{i // 3}" for i in range(40)]
READINGS = {
    "highest": choose.HIGHEST,
    "dataset": choose.DATASET,
    "quantile": choose.quantile_of_examples(0.9),
    "person": choose.highest_group(PERSONS, name="person"),
    "tied person": choose.highest_group(PERSONS, tied=[1]),
    "column": choose.column_over_rows(1),
    "columns": choose.column_over_rows([0, 2]),
    "block": choose.highest_block([1, 2]),
}


def problem(name):
    loss = LOSSES[name]
    y = targets(loss, X @ np.array([1.0, -0.5, 0.2]), np.random.default_rng(1))
    return glm.fit(X, y, loss, 0.01), y


def below(scale):
    return rung(rung_above(scale) - 1)


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS)
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax with a reference"])
def test_the_rung_meets_the_target_and_the_one_below_does_not(loss, reading):
    fit, y = problem(loss)
    for target in (0.013, 0.4, 7.0):
        calibration = choose.calibrate(fit, X, y, target, reading)
        readings = [
            reading(glm.measure(fit, X, y, dm.Gaussian(s))) for s in (calibration.scale, below(calibration.scale))
        ]
        assert calibration.reached == readings[0] <= target < readings[1]
        assert below(calibration.scale) < calibration.exact_scale <= calibration.scale
        assert reading(glm.measure(fit, X, y, dm.Gaussian(calibration.exact_scale))) == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize("law", [law for law in NOISES.values() if law.regular])
def test_every_regular_noise_can_be_calibrated(law):
    fit, y = problem("logistic")
    calibration = choose.calibrate(fit, X, y, 0.3, law=law)
    etas = [glm.measure(fit, X, y, law(s)).examples.max() for s in (calibration.scale, below(calibration.scale))]
    assert etas[0] <= 0.3 < etas[1]


def test_a_public_covariance_is_scaled_as_a_whole():
    fit, y = problem("poisson")
    shape = dm.CorrelatedGaussian([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])
    calibration = choose.calibrate(fit, X, y, 0.2, law=shape)
    eta = [
        glm.measure(fit, X, y, dm.CorrelatedGaussian(s**2 * shape.covariance)).examples.max()
        for s in (calibration.scale, below(calibration.scale))
    ]
    assert calibration.reached == eta[0] <= 0.2 < eta[1]


def test_a_noise_without_fisher_information_is_refused_with_the_reason():
    fit, y = problem("squared")
    with pytest.raises(dm.CannotMeasure, match="jumps at 0"):
        choose.calibrate(fit, X, y, 0.1, law=dm.Exponential)


def test_the_result_says_that_the_choice_is_not_covered_and_so_does_its_dose():
    fit, y = problem("squared")
    calibration = choose.calibrate(fit, X, y, 0.1)
    assert calibration.not_covered == (SCALE_NOT_COVERED,)
    assert SCALE_NOT_COVERED in repr(calibration)
    dose = calibration.dose(PERSONS)
    assert (dose.standing.value, dose.not_covered, dose.unit) == ("unaccounted", (SCALE_NOT_COVERED,), "person")
    assert dose.highest[1] == max(calibration.leakage.group(PERSONS).values())


def test_tables_that_differ_a_little_get_the_same_scale():
    """The purpose of the ladder: a change of one cell in the sixth digit does not show in the scale."""
    fit, y = problem("squared")
    scales = set()
    for cell in range(20):
        moved = X.copy()
        moved[cell, 0] *= 1 + 1e-6
        scales.add(choose.calibrate(glm.fit(moved, y, glm.Squared(), 0.01), moved, y, 0.1).scale)
    assert scales == {choose.calibrate(fit, X, y, 0.1).scale}


@pytest.mark.parametrize("target", [0.0, -1.0, np.nan, np.inf, True])
def test_a_target_that_no_scale_reaches_is_refused(target):
    fit, y = problem("squared")
    with pytest.raises(dm.Refusal, match="target"):
        choose.calibrate(fit, X, y, target)


def test_a_reading_that_is_zero_at_every_scale_determines_none():
    flat = np.column_stack([X[:, 0], np.zeros(40)])
    fit = glm.fit(flat, np.zeros(40), glm.Squared(), 0.1)
    with pytest.raises(dm.Refusal, match="nothing leaks"):
        choose.calibrate(fit, flat, np.zeros(40), 0.1, choose.highest_block(0))


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5])
@pytest.mark.parametrize("reading", [READINGS[k] for k in ("highest", "person", "column")], ids=lambda r: r.name)
def test_shaped_noise_meets_its_target_above_the_floor(p, reading):
    fit, y = problem("squared")
    floor = reading(shape_noise(fit, X, y, c=1.0, p=p).floor)
    for target in (1.05 * floor, 3 * floor, 100.0):
        calibration = shapes.calibrate_shape(fit, X, y, target, reading, p=p)
        readings = [
            reading(shape_noise(fit, X, y, c=s**2, p=p).leakage) for s in (calibration.scale, below(calibration.scale))
        ]
        assert calibration.reached == readings[0] <= target < readings[1]
        assert reading(shape_noise(fit, X, y, c=calibration.exact_scale**2, p=p).leakage) == pytest.approx(
            target, rel=1e-6
        )
        assert calibration.not_covered == (SCALE_NOT_COVERED,)


def test_a_target_below_the_floor_is_refused_with_the_floor():
    fit, y = problem("squared")
    floor = shape_noise(fit, X, y, c=1.0).floor.examples.max()
    assert shape_noise(fit, X, y, c=1e12).leakage.examples.max() == pytest.approx(floor, rel=1e-6)
    with pytest.raises(dm.Refusal, match=f"{floor:.4g}"):
        shapes.calibrate_shape(fit, X, y, 0.999 * floor)


def test_the_best_exponent_is_the_one_an_exhaustive_search_finds():
    fit, y = problem("squared")
    for loss in (0.5, 1e4):
        every = {p: shape_noise(fit, X, y, excess_loss=loss, p=p).leakage.examples.max() for p in shapes.EXPONENTS}
        best = shapes.best_exponent(fit, X, y, excess_loss=loss)
        assert best.p == min(every, key=every.__getitem__)
        assert best.not_covered == (shapes.EXPONENT_CHOSEN,)
        assert best.dose().standing.value == "unaccounted"


def test_the_frontier_falls_with_the_loss_and_never_below_its_floor():
    fit, y = problem("squared")
    losses = (0.5, 5.0, 500.0, 5e5)
    points = shapes.frontier(fit, X, y, losses)
    assert [(p.excess_loss, p.shape) for p in points] == [(l, s) for l in losses for s in shapes.SHAPES]
    for shape in ("isotropic", "inverse Hessian"):
        line = [p for p in points if p.shape == shape]
        assert all(a.highest > b.highest >= b.floor for a, b in pairwise(line))
    for k in range(0, len(points), 3):
        assert points[k + 2].highest <= min(points[k].highest, points[k + 1].highest)
    assert all(p.frozen <= p.highest and p.typical <= p.highest for p in points)
