"""The minimiser: against other solvers, in multiple precision, and where none exists."""

from __future__ import annotations

from importlib import import_module

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from dosimeter import Refusal, glm
from dosimeter.core.engine import LocalEngine

from .problems import FORMULAS, NUMPY, adversarial, ordinary, targets


def objective(problem, w):
    """Eq. 13, written from the paper with scipy's special functions, for any loss."""
    X = np.column_stack([problem.X, np.ones(len(problem.X))]) if problem.intercept else problem.X
    weight = np.ones(len(X)) if problem.sample_weight is None else problem.sample_weight
    W = w.reshape(X.shape[1], -1)
    m, y = X @ W, problem.y
    if not isinstance(problem.loss, glm.Softmax):
        loss = FORMULAS[problem.loss](NUMPY, m[:, 0], y)
    else:
        logits = m @ problem.loss.contrast.T
        loss = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(y)), y.astype(int)]
    penalised = W[:-1] if problem.intercept else W
    return weight @ loss + len(X) * problem.l2 / 2 * np.sum(penalised**2)


@pytest.mark.parametrize("problem", list(ordinary()), ids=lambda p: p.name)
def test_a_general_optimiser_finds_nothing_lower(problem):
    ours = problem.fit()
    other = minimize(lambda w: objective(problem, w), np.zeros(ours.w.size), method="BFGS", options={"gtol": 1e-9})
    assert objective(problem, ours.w) <= other.fun + 1e-12 * abs(other.fun)
    np.testing.assert_allclose(ours.w.ravel(), other.x, rtol=1e-5, atol=1e-6)
    assert ours.gradient_norm < 1e-10


@pytest.mark.parametrize("intercept", [False, True])
def test_scikit_learn_finds_the_same_weights(intercept):
    rng = np.random.default_rng(3)
    X, w = rng.standard_normal((200, 4)), np.array([1.0, -0.5, 0.2, 0.0])
    n = len(X)
    cases = {
        glm.Squared(): Ridge(alpha=0.02 * n, fit_intercept=intercept, solver="cholesky"),
        glm.Logistic(): LogisticRegression(C=1 / (0.02 * n), fit_intercept=intercept, tol=1e-12, max_iter=10_000),
        glm.Poisson(): PoissonRegressor(alpha=0.02, fit_intercept=intercept, tol=1e-12, max_iter=10_000),
    }
    for loss, model in cases.items():
        y = targets(loss, X @ w, rng)
        model.fit(X, y)
        theirs = np.append(model.coef_.ravel(), [np.ravel(model.intercept_)[0]] * intercept)
        np.testing.assert_allclose(glm.fit(X, y, loss, 0.02, intercept=intercept).w, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("problem", list(adversarial()), ids=lambda p: p.name)
def test_hard_tables_come_with_a_certificate(problem):
    fit = problem.fit()
    assert fit.decrement <= 1e-9 * (1 + np.abs(fit.margin).max() * np.sqrt(fit.n) * np.sqrt(fit.sample_weight.max()))


def test_a_whole_number_weight_is_a_repeated_row():
    rng = np.random.default_rng(5)
    X, times = rng.standard_normal((30, 3)), rng.integers(1, 4, 30)
    y = targets(glm.Logistic(), X[:, 0], rng)
    weighted = glm.fit(X, y, glm.Logistic(), 0.02, sample_weight=times)
    # The penalty is nλ/2 with n the number of rows, so λ is adapted to the longer table.
    repeated = glm.fit(np.repeat(X, times, axis=0), np.repeat(y, times), glm.Logistic(), 0.02 * 30 / times.sum())
    np.testing.assert_allclose(weighted.w, repeated.w, rtol=1e-11)


def test_a_warm_start_ends_at_the_same_place_sooner():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((100, 4))
    y = targets(glm.Logistic(), 2 * X[:, 0], rng)
    cold = glm.fit(X, y, glm.Logistic(), 1e-3, intercept=True)
    warm = glm.fit(X, y, glm.Logistic(), 1e-3, intercept=True, start=cold.w)
    np.testing.assert_allclose(warm.w, cold.w, rtol=1e-12)
    assert warm.iterations < cold.iterations


def test_the_state_at_other_weights_says_how_far_the_minimiser_is():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((50, 2))
    y = X @ np.array([1.0, 2.0]) + rng.standard_normal(50)
    best = glm.fit(X, y, glm.Squared(), 0.1)
    off = glm.fit_at(X, y, glm.Squared(), best.w + np.array([0.1, 0.0]), 0.1)
    H = X.T @ X + 50 * 0.1 * np.eye(2)
    assert off.decrement == pytest.approx(0.1 * np.sqrt(H[0, 0]), rel=1e-9)
    assert best.decrement < 1e-12


def exact_weights(X, y, l2):
    """Ridge weights and H⁻¹ in sixty digits."""
    with mp.workdps(60):
        A, b = mp.matrix(X.tolist()), mp.matrix(y.tolist())
        H = A.T * A + len(X) * mp.mpf(l2) * mp.eye(X.shape[1])
        inverse = H**-1
        w = inverse * (A.T * b)
        return np.array([[float(v) for v in row] for row in inverse.tolist()]), np.array([float(v) for v in w])


@pytest.mark.parametrize(("decades", "tolerance"), [(0, 1e-12), (4, 1e-11), (8, 1e-8), (10, 1e-6), (12, 1e-4)])
def test_the_inverse_hessian_keeps_its_digits_at_high_condition_numbers(decades, tolerance):
    rng = np.random.default_rng(decades)
    for _ in range(5):
        U, _, V = np.linalg.svd(rng.standard_normal((50, 5)), full_matrices=False)
        X = (U * np.logspace(0, -decades, 5)) @ V
        y = rng.standard_normal(50)
        fit = glm.fit(X, y, glm.Squared())
        inverse, w = exact_weights(X, y, 0)
        ours = fit.factor.matrix @ fit.factor.matrix.T
        assert np.linalg.norm(ours - inverse, 2) <= tolerance * np.linalg.norm(inverse, 2)
        assert np.linalg.norm(fit.w - w) <= tolerance * np.linalg.norm(w)


def test_blocks_of_any_size_give_the_same_fit(monkeypatch):
    rng = np.random.default_rng(9)
    X = rng.standard_normal((700, 3))
    y = targets(glm.Poisson(), X[:, 0] / 2, rng)
    whole = glm.fit(X, y, glm.Poisson(), 1e-3)
    # glm.fit is the function; import_module gets the module of the same name.
    monkeypatch.setattr(import_module("dosimeter.glm.fitting.fit"), "rows_per_block", lambda width: 64)
    np.testing.assert_allclose(glm.fit(X, y, glm.Poisson(), 1e-3, engine=LocalEngine()).w, whole.w, rtol=1e-12)


rng = np.random.default_rng(11)
X0 = rng.standard_normal((30, 3))
SEPARATED = (X0[:, 0] > 0).astype(float)
NO_MINIMISER = {
    "perfect separation": (X0, SEPARATED, glm.Logistic(), 0.0, False, "separate"),
    "quasi separation": (
        np.column_stack([np.ones(30), np.arange(30) < 9]).astype(float),
        np.where(np.arange(30) < 9, 1.0, np.arange(30) % 2),
        glm.Logistic(),
        0.0,
        False,
        "separate",
    ),
    "softmax separation": (
        np.column_stack([np.ones(30), np.arange(30.0)]),
        (np.arange(30) // 10).astype(float),
        glm.Softmax(3, 0),
        0.0,
        False,
        "separate",
    ),
    "poisson separation": (
        np.column_stack([np.ones(30), np.arange(30) < 9]).astype(float),
        np.where(np.arange(30) < 9, 0.0, 2.0),
        glm.Poisson(),
        0.0,
        False,
        "separate",
    ),
    "one class": (X0, np.ones(30), glm.Logistic(), 0.0, False, "class 1"),
    "one class and an intercept": (X0, np.zeros(30), glm.Logistic(), 0.1, True, "class 0"),
    "all counts zero": (X0, np.zeros(30), glm.Poisson(), 0.0, False, "every count is zero"),
    "an absent class": (X0, np.arange(30.0) % 2, glm.Softmax(3, 0), 0.1, True, "no row has class 2"),
    "a repeated column": (X0[:, [0, 1, 0]], SEPARATED, glm.Squared(), 0.0, False, "columns 0, 2"),
    "an intercept and a constant column": (
        np.column_stack([X0, np.ones(30)]),
        SEPARATED,
        glm.Squared(),
        0.0,
        True,
        "linearly dependent",
    ),
    "a column of zeros": (
        np.column_stack([X0, np.zeros(30)]),
        SEPARATED,
        glm.Squared(),
        0.0,
        False,
        "column 3 is zero",
    ),
    "fewer rows than columns": (
        X0[:2],
        SEPARATED[:2],
        glm.Squared(),
        0.0,
        False,
        "2 rows cannot determine 3",
    ),
    "softmax without a reference": (X0, SEPARATED, glm.Softmax(2), 0.0, False, "reference"),
    "softmax intercept without a reference": (X0, SEPARATED, glm.Softmax(2), 0.1, True, "reference"),
}


@pytest.mark.parametrize("case", list(NO_MINIMISER.values()), ids=list(NO_MINIMISER))
def test_where_no_minimiser_exists_the_refusal_says_what_to_do(case):
    X, y, loss, l2, intercept, message = case
    with pytest.raises(Refusal, match=message) as caught:
        glm.fit(X, y, loss, l2, intercept=intercept)
    assert "\n" not in str(caught.value)


def test_a_penalty_repairs_separation_and_dependence():
    assert glm.fit(X0, SEPARATED, glm.Logistic(), 1e-6).gradient_norm < 1e-8
    assert glm.fit(X0[:, [0, 1, 0]], SEPARATED, glm.Squared(), 1e-6).gradient_norm < 1e-8


def test_nearly_separated_classes_are_not_called_separated():
    y = SEPARATED.copy()
    order = np.argsort(np.abs(X0[:, 0]))
    y[order[0]] = 1 - y[order[0]]
    overlapping = glm.fit(X0[:, :1], y, glm.Logistic())
    assert np.isfinite(overlapping.w).all()
    assert overlapping.gradient_norm < 1e-9


BAD = {
    "nan in X": (dict(X=np.where(X0 > 2, np.nan, X0 * np.nan)), "row 0, column 0"),
    "infinite y": (dict(y=np.r_[np.inf, SEPARATED[1:]]), "row 0"),
    "text": (dict(X=X0.astype(str)), "real numbers"),
    "one-dimensional X": (dict(X=X0[:, 0]), "rows and columns"),
    "no rows": (dict(X=X0[:0], y=SEPARATED[:0]), "rows and columns"),
    "too few labels": (dict(y=SEPARATED[:5]), "one value for each"),
    "negative weight": (dict(sample_weight=np.r_[-1.0, np.ones(29)]), "negative"),
    "all weights zero": (dict(sample_weight=np.zeros(30)), "nothing to fit"),
    "negative l2": (dict(l2=-1.0), "l2"),
    "nan l2": (dict(l2=float("nan")), "l2"),
    "label 2 for logistic": (dict(y=SEPARATED * 2), "between 0 and 1"),
    "negative count": (dict(y=SEPARATED - 1, loss=glm.Poisson()), ">= 0"),
    "class 5 of 3": (dict(y=SEPARATED * 5, loss=glm.Softmax(3, 0)), "0 to 2"),
    "a column of 1e300": (dict(X=X0 * [1.0, 1.0, 1e300]), "rescale"),
    "a start of the wrong shape": (dict(start=np.zeros(7)), "shape"),
}


@pytest.mark.parametrize(("change", "message"), list(BAD.values()), ids=list(BAD))
def test_bad_arrays_are_refused_with_the_position(change, message):
    call = dict(X=X0, y=SEPARATED, loss=glm.Logistic(), l2=0.1) | change
    with pytest.raises(Refusal, match=message):
        glm.fit(**call)


def test_the_caller_keeps_their_arrays():
    X, y = X0.copy(), SEPARATED.copy()
    glm.fit(X, y, glm.Logistic(), 0.1)
    assert (X == X0).all()
    assert (y == SEPARATED).all()
