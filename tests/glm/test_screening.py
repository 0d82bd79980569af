"""Bounds around rows and groups hold for each of them, and the highest is the highest of all."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian
from dosimeter.glm.releases.shaped_jacobian import ShapedJacobian
from dosimeter.glm.releases.shaped_noise import shape_noise

rng = np.random.default_rng(4)
N, D = 400, 4
RAW = rng.standard_t(4, (N, D)) @ (np.eye(D) + 0.4 * rng.standard_normal((D, D)))
X = (RAW - RAW.mean(axis=0)) / RAW.std(axis=0)
Y = X @ [1.0, -0.5, 0.0, 0.2] + rng.standard_normal(N)
SCALED = np.array([True, True, True, False])
OWNERS = [f"p{k}" for k in rng.integers(0, 150, N)]


def leakages():
    for l2 in (0.0, 0.1):
        fit = glm.fit(X, Y, glm.Squared(), l2, intercept=True)
        for noise in (dm.Gaussian(0.1), dm.Gaussian(100.0), dm.Gumbel(0.3), CorrelatedGaussian(np.eye(5) + 0.2)):
            yield f"scaler, {noise}, {l2}", glm.measure(fit, X, Y, noise, scaled=SCALED)
        for options in ({"c": 0.5}, {"c": 1e6}, {"c": 0.5, "p": 0.5}, {"excess_loss": 3.0, "p": 1.5}):
            for scaled in (None, SCALED):
                shaped = shape_noise(fit, X, Y, scaled=scaled, **options)
                for form in ("leakage", "floor"):
                    yield f"{form} of {options}, {scaled}, {l2}", getattr(shaped, form)


LEAKAGES = dict(leakages())


@pytest.mark.parametrize("name", LEAKAGES)
def test_every_row_lies_between_its_bounds(name):
    leak = LEAKAGES[name]
    for columns in (np.arange(D, dtype=np.intp), np.array([3], dtype=np.intp), np.array([1, 3], dtype=np.intp)):
        near = leak.jacobian.near(columns)
        for target in (False, True):
            lower, upper = near.rows(np.arange(N, dtype=np.intp), columns, target)
            norms = leak.jacobian.row_norms(columns, target)
            assert (lower <= norms * (1 + 1e-9)).all()
            assert (norms <= upper * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", LEAKAGES)
def test_the_highest_row_and_the_highest_person_are_those_of_all(name):
    leak = LEAKAGES[name]
    assert leak.highest == pytest.approx(leak.jacobian.row_norms(np.arange(D), True).max(), rel=1e-12)
    for options in ({}, {"tied": [1]}, {"tied": [0, 3], "tied_target": True}):
        every = leak.group(OWNERS, **options)
        assert leak.highest_group(OWNERS, **options) == pytest.approx(max(every.values()), rel=1e-12)
    assert leak.highest_group(list(range(N))) == pytest.approx(leak.highest, rel=1e-12)


def test_large_groups_and_releases_without_bounds_are_computed():
    leak = LEAKAGES["scaler, Gaussian(sigma=0.1), 0.1"]
    half = ["a"] * 200 + ["b"] * 200
    assert leak.highest_group(half) == pytest.approx(max(leak.group(half).values()), rel=1e-12)
    plain = glm.measure(glm.fit(X, Y, glm.Squared(), 0.1), X, Y, dm.Gaussian(0.3))
    assert plain.highest_group(OWNERS) == max(plain.group(OWNERS).values())
    exact = glm.measure(glm.fit(X, Y, glm.Squared(), 0.1, intercept=True), X, Y, dm.no_noise, scaled=SCALED)
    assert exact.highest_group(OWNERS) == np.inf


def test_few_rows_are_written_out(monkeypatch):
    """At an ordinary noise the highest rows stand out; the others are never written out."""
    many = rng.standard_normal((20_000, 6))
    many = (many - many.mean(axis=0)) / many.std(axis=0)
    y = many @ np.ones(6) + rng.standard_normal(20_000)
    fit = glm.fit(many, y, glm.Squared(), 1e-3, intercept=True)
    leak = shape_noise(fit, many, y, c=1.0, scaled=np.ones(6, dtype=bool)).leakage
    written = []
    plain = ShapedJacobian.norms_of

    def counted(self, rows, columns, include_target):
        written.append(len(rows))
        return plain(self, rows, columns, include_target)

    monkeypatch.setattr(ShapedJacobian, "norms_of", counted)
    highest = leak.highest
    assert sum(written) <= 2000
    monkeypatch.undo()
    assert highest == pytest.approx(leak.jacobian.row_norms(np.arange(6), True).max(), rel=1e-12)


@pytest.mark.parametrize("scaled", [None, SCALED])
@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("k", [2, 3])
def test_groups_under_shaped_noise_are_those_of_jacobians_that_are_written_out(scaled, l2, k):
    fit = glm.fit(X, Y, glm.Squared(), l2, intercept=True)
    none, every = np.empty(0, dtype=np.intp), np.arange(D, dtype=np.intp)
    rows = np.arange(60, dtype=np.intp).reshape(-1, k)
    for form in ("leakage", "floor"):
        jacobian = getattr(shape_noise(fit, X, Y, c=0.5, scaled=scaled), form).jacobian
        for free, include, tied in (
            (every, True, none),
            (every[2:], True, every[:2]),
            (every[:1], False, np.array([1, 3, 4])),
            (every[:2], False, none),
        ):
            np.testing.assert_allclose(
                jacobian.norms_together(rows, free, include, tied),
                DenseJacobian.norms_together(jacobian, rows, free, include, tied),
                rtol=1e-12,
            )
