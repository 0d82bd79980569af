"""The route is a function of the shape, and can be forced."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.fitting.route import DIRECT, PRIMAL


@pytest.mark.parametrize(
    ("n", "d", "is_sparse", "route"),
    [
        (100, 20, False, "primal"),
        (20, 100, False, "primal"),
        (10, PRIMAL, False, "primal"),
        (10, PRIMAL + 1, False, "dual"),
        (10**6, 10**5, False, "primal"),
        (DIRECT, 10**6, False, "dual"),
        (DIRECT + 1, 10**6, False, "iterative"),
        (100, 20, True, "primal"),
        (20, 100, True, "dual"),
        (10**6, DIRECT, True, "primal"),
        (10**6, DIRECT + 1, True, "iterative"),
        (20_000, 100_000, True, "iterative"),
    ],
)
def test_the_rule(n, d, is_sparse, route):
    assert glm.choose_route(n, d, sparse=is_sparse) == route


def test_a_fit_follows_the_rule_and_states_its_route():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 15)), rng.standard_normal(10)
    assert glm.fit(sparse.csr_array(X), y, glm.Squared(), 0.1).route == "dual"
    assert glm.fit(sparse.csr_array(X.T), np.arange(15.0), glm.Squared(), 0.1).route == "primal"
    assert not isinstance(glm.fit(X, y, glm.Squared(), 0.1), glm.WideFit)
    wide = rng.standard_normal((3, PRIMAL + 1))
    assert glm.fit(wide, np.arange(3.0), glm.Squared(), 0.1).route == "dual"
    assert not isinstance(glm.fit(X, y, glm.Squared(), 0.1, route="primal"), glm.WideFit)


@pytest.mark.parametrize("route", ["primal", "dual", "iterative"])
def test_a_route_is_forced(route):
    rng = np.random.default_rng(0)
    X, y = sparse.csr_array(rng.standard_normal((10, 15))), rng.standard_normal(10)
    assert glm.fit(X, y, glm.Squared(), 0.1, route=route).route == route
    assert glm.fit_at(X, y, glm.Squared(), np.zeros(15), 0.1, route=route).route == route


def test_an_unknown_route_is_refused():
    for X in (np.eye(3), sparse.eye_array(3)):
        with pytest.raises(dm.Refusal, match='route="dual"'):
            glm.fit(X, np.arange(3.0), glm.Squared(), 0.1, route="diagonal")
