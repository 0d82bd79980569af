"""The short forms of the scaler's Jacobian against the same readings from Jacobians that are written out."""

from __future__ import annotations

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian
from dosimeter.glm.scalers.scaled_jacobian import ScaledJacobian

from .problems import targets

rng = np.random.default_rng(8)
N = 120


def table(loss, spread=1.0):
    numbers = rng.standard_normal((N, 4)) @ np.diag([1.0, 1.0, 1.0, spread])
    numbers[:, 3] += numbers[:, 0]  # nearly the same column, if the spread is small
    levels = (rng.integers(0, 3, N)[:, None] == [0, 1]).astype(float)
    X = np.column_stack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), levels])
    return X, targets(loss, 0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.3 * X[:, 4], rng)


SCALED = np.array([True, True, True, True, False, False])
MIXED = np.eye(6)
MIXED[0, 1] = 0.5
"""Two unknowns move one feature: nothing is separate."""
CASES = {
    "squared": (glm.Squared(), 0.1, dm.Gaussian(0.3), {}),
    "no penalty": (glm.Squared(), 0.0, dm.Gaussian(0.3), {}),
    "much noise": (glm.Squared(), 0.1, dm.Gaussian(300.0), {}),
    "logistic": (glm.Logistic(), 0.05, dm.Laplace(0.3), {}),
    "poisson": (glm.Poisson(), 0.05, dm.LogisticNoise(0.3), {}),
    "gumbel": (glm.Squared(), 0.1, dm.Gumbel(0.3), {}),
    "other units": (glm.Squared(), 0.1, dm.Gaussian(0.3), {"input_map": np.diag([2.0, 0.1, 1.0, 30.0, 1.0, 1.0])}),
    "fewer unknowns": (glm.Squared(), 0.1, dm.Gaussian(0.3), {"input_map": np.eye(6)[:, [5, 2, 0]]}),
    "coupled unknowns": (glm.Squared(), 0.1, dm.Gaussian(0.3), {"input_map": MIXED}),
    "nearly dependent": (glm.Squared(), 1e-9, dm.Gaussian(0.3), {"spread": 1e-4}),
    "a public covariance": (glm.Squared(), 0.1, CorrelatedGaussian(np.eye(7) + 0.1), {}),
    "softmax": (glm.Softmax(3, reference="mean"), 0.1, dm.Gaussian(0.3), {}),
}


@pytest.fixture(params=CASES)
def jacobian(request):
    loss, l2, noise, more = CASES[request.param]
    options = {name: value for name, value in more.items() if name != "spread"}
    X, y = table(loss, more.get("spread", 1.0))
    fit = glm.fit(X, y, loss, l2, intercept=True)
    leak = glm.measure(fit, X, y, noise, scaled=SCALED, **options)
    assert isinstance(leak.jacobian, ScaledJacobian)
    separate = request.param not in ("coupled unknowns", "a public covariance")
    assert (leak.jacobian.separate is not None) == separate
    assert (leak.jacobian.floor.separate is not None) == (separate and request.param != "gumbel")
    return leak.jacobian


def close(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)


def test_every_reading_is_that_of_jacobians_that_are_written_out(jacobian):
    some = np.array([2, 0], dtype=np.intp)
    for form in (jacobian, jacobian.floor):
        every = np.arange(form.m, dtype=np.intp)
        for columns in (every, some):
            close(form.cell_norms(columns), DenseJacobian.cell_norms(form, columns))
            for target in (False, True):
                close(form.row_norms(columns, target), DenseJacobian.row_norms(form, columns, target))
        close(form.column_norms(), DenseJacobian.column_norms(form))


def test_groups_are_those_of_jacobians_that_are_written_out(jacobian):
    none = np.empty(0, dtype=np.intp)
    for form in (jacobian, jacobian.floor):
        every = np.arange(form.m, dtype=np.intp)
        target = np.arange(form.m, form.m + form.target_width, dtype=np.intp)
        for k in (2, 3, 12):
            rows = np.arange(48, dtype=np.intp).reshape(-1, k)
            for free, tied, include in (
                (every, none, True),
                (every[1:], every[:1], True),
                (every[:1], np.concatenate([every[1:], target]), False),
            ):
                close(
                    form.norms_together(rows, free, include, tied),
                    DenseJacobian.norms_together(form, rows, free, include, tied),
                )
                close(
                    form.together(rows[0], free, include, tied),
                    DenseJacobian.together(form, rows[0], free, include, tied),
                )


def test_a_column_whose_sums_cancel_is_computed_from_its_jacobians(jacobian, monkeypatch):
    quick = jacobian.column_norms()
    monkeypatch.setattr("dosimeter.glm.scalers.scaled_jacobian.CANCELLED", np.inf)
    np.testing.assert_allclose(quick, jacobian.column_norms(), rtol=1e-12)


def test_a_base_that_keeps_its_jacobian_is_not_changed():
    X, y = table(glm.Squared())
    planned = glm.plan(X, y, glm.Squared(), 0.1, scale=0.5, reweighting_rounds=2, intercept=True, scaled=SCALED)
    jacobian = planned.leakage.jacobian
    before = jacobian.base.dense(slice(0, 5)).copy()
    first, again = jacobian.dense(slice(0, 5)), jacobian.dense(slice(0, 5))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(jacobian.base.dense(slice(0, 5)), before)
