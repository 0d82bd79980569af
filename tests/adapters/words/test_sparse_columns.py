"""Columns of a large sparse table: values that never change within a person, and columns of two values.

The oracle is the same table written out as an array, whose figures are compared with refits elsewhere, and one refit.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge

import dosimeter as dm

PEOPLE, ROWS, WIDTH = 20, 3, 260
IDS = np.repeat(np.arange(PEOPLE), ROWS)


def visits(seed: int = 0) -> np.ndarray:
    """Column 0: a tied yes or no; 1: yes or no; 2: a tied number; 3: 0 or 5; then counts."""
    rng = np.random.default_rng(seed)
    n = PEOPLE * ROWS
    X = (rng.random((n, WIDTH)) < 0.05) * rng.poisson(2, (n, WIDTH)).astype(float)
    X[:, 0] = (rng.random(PEOPLE) < 0.4)[IDS]
    X[:, 1] = rng.random(n) < 0.2
    X[:, 2] = rng.integers(0, 4, PEOPLE)[IDS]
    X[:, 3] = 5.0 * (rng.random(n) < 0.2)
    return X


def target(kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    return {
        "number": 30 * rng.normal(size=PEOPLE)[IDS],
        "class": (np.arange(PEOPLE) % 2)[IDS],
        "several": (np.arange(PEOPLE) % 3)[IDS],
    }[kind]


MODELS = {"number": Ridge(1.0), "class": LogisticRegression(tol=1e-10, max_iter=5000)}


@pytest.mark.parametrize("unit", ["raw", "sd"])
@pytest.mark.parametrize("kind", MODELS)
def test_a_sparse_table_has_the_doses_of_the_same_table_written_out(kind, unit):
    X, y = visits(), target(kind)
    model = MODELS[kind].fit(X, y)
    options = {"person": IDS, "noise": dm.Gaussian(1.0), "unit": unit}
    whole, thin = dm.measure(model, X, y, **options), dm.measure(model, sparse.csr_array(X), y, **options)
    np.testing.assert_allclose(list(thin.persons.values()), list(whole.persons.values()), rtol=1e-9)
    assert thin.standing == whole.standing
    assert thin.result(limit=1.0).verdict == whole.result(limit=1.0).verdict


def test_a_tied_column_of_a_sparse_table_is_one_unknown_by_a_refit():
    X, y, h = visits(), target("number"), 1e-4
    rows = IDS == 3

    def weights(change: float) -> np.ndarray:
        moved = X.copy()
        moved[rows, 2] += change
        model = Ridge(1.0, solver="cholesky").fit(moved, y)
        return np.append(model.coef_, model.intercept_)

    alone = float(np.linalg.norm(weights(h) - weights(-h)) / (2 * h))
    model = Ridge(1.0).fit(X, y)
    leak = dm.measure(model, sparse.csr_array(X), y, person=IDS, noise=dm.Gaussian(1.0), known_target=True)
    together = leak.leak.group(IDS, tied=leak._tied, columns=[2])[3]
    assert 2 in leak._tied
    assert together == pytest.approx(alone, rel=1e-5)
    untied = dm.measure(
        model, sparse.csr_array(X), y, person=IDS, noise=dm.Gaussian(1.0), known_target=True, not_tied=["x0", "x2"]
    )
    assert 2 not in untied._tied


def test_a_route_that_reads_no_tied_column_gives_an_upper_bound():
    """Several classes on a wide table of yes and no: sums of Jacobians are bounded, and the figure says so."""
    X = np.minimum(np.hstack([visits(), visits(3)]), 1.0)
    X[:, 2] = (np.arange(PEOPLE) % 5 < 2)[IDS]
    y = target("several")
    model = LogisticRegression(tol=1e-10, max_iter=5000).fit(X, y)
    options = {"person": IDS, "noise": dm.Gaussian(1.0)}
    leak = dm.measure(model, sparse.csr_array(X), y, **options)
    stacked = leak.leak.group(IDS, tied_target=True)
    assert not leak.leak.reads_tied(leak._tied)
    np.testing.assert_allclose(list(leak.persons.values()), np.sqrt(ROWS) * np.array(list(stacked.values())))
    assert leak.standing.value == "upper bound"
    assert leak.result(limit=1.0).dose.highest == pytest.approx(max(leak.persons.values()))


def test_a_name_that_is_not_constant_cannot_be_tied():
    X, y = visits(), target("number")
    with pytest.raises(dm.Refusal, match="x3 is tied but not constant within a person"):
        dm.measure(Ridge().fit(X, y), sparse.csr_array(X), y, person=IDS, noise=dm.Gaussian(1.0), tied=["x3"])
