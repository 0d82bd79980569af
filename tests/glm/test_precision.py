"""The limit of the promised precision: sixty and more digits beside float64, on tables designed to break it."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.jacobians.precision import PROMISE

LOSSES = {"squared": glm.Squared(), "logistic": glm.Logistic()}


def figures(X, y, kind, l2, start):
    """η of each row at noise 1, by Newton from `start` in 120 digits and dense Jacobians; no intercept."""
    n, d = X.shape
    with mp.workdps(120):
        A, Y, lam = mp.matrix(X.tolist()), [mp.mpf(float(v)) for v in y], n * mp.mpf(float(l2))
        size = [max(abs(A[i, j]) for i in range(n)) for j in range(d)]
        w = mp.matrix([mp.mpf(float(v)) for v in start])

        def state(w):
            m = A * w
            if kind == "squared":
                return [m[i] - Y[i] for i in range(n)], [mp.mpf(1)] * n
            s = [1 / (1 + mp.exp(-t)) for t in m]
            return [s[i] - Y[i] for i in range(n)], [v * (1 - v) for v in s]

        def inverse(a):
            H = mp.matrix(d, d)
            for j in range(d):
                for k in range(d):
                    H[j, k] = sum(a[i] * A[i, j] * A[i, k] for i in range(n)) + (lam if j == k else 0)
                    H[j, k] /= size[j] * size[k]
            K = mp.inverse(H)
            for j in range(d):
                for k in range(d):
                    K[j, k] /= size[j] * size[k]
            return K

        for _ in range(60):
            r, a = state(w)
            g = mp.matrix([sum(r[i] * A[i, j] for i in range(n)) + lam * w[j] for j in range(d)])
            w = w - inverse(a) * g
        r, a = state(w)
        K, eta = inverse(a), []
        for i in range(n):
            B = mp.matrix(d, d + 1)
            for j in range(d):
                for k in range(d):
                    B[j, k] = a[i] * A[i, j] * w[k] + (r[i] if j == k else 0)
                B[j, d] = A[i, j]
            J = K * B
            eta.append(mp.sqrt(max(mp.eigsy(J * J.T, eigvals_only=True))))
        return eta


def hostile(rng):
    """A small table over many decades, with an outlier, and very large or very soft targets."""
    kind, n, d = str(rng.choice(["squared", "logistic"])), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-20, 20, d)
    X[0] *= 10.0 ** rng.uniform(0, 8)
    y = rng.standard_normal(n) * 10.0 ** rng.choice([0, 20, 40]) if kind == "squared" else rng.random(n)
    return X, y, kind, float(rng.choice([1e-12, 1e-6, 1e-2, 1.0]))


def test_a_fit_that_is_not_refused_keeps_the_promise():
    rng, kept, refused = np.random.default_rng(20), 0, 0
    for _ in range(60):
        X, y, kind, l2 = hostile(rng)
        try:
            fit = glm.fit(X, y, LOSSES[kind], l2)
            eta = glm.measure(fit, X, y, dm.Gaussian(1.0)).examples
        except dm.Refusal:
            refused += 1
            continue
        kept += 1
        for ours, true in zip(eta, figures(X, y, kind, l2, fit.w), strict=True):
            if true > 1e-290:
                assert abs(float(mp.mpf(float(ours)) / true) - 1.0) <= PROMISE
    assert kept >= 20
    assert refused >= 3


def test_targets_of_1e40_that_one_row_fits_are_refused():
    """r = 0 exactly; its rounding error times an inverse of 1e2 would read at least 30 times too high."""
    X, y = np.array([[6e7]]), np.array([1e40])
    fit = glm.fit(X, y, glm.Squared(), 0.01, intercept=True)
    with pytest.raises(dm.Refusal, match="rescale"):
        glm.measure(fit, X, y, dm.Gaussian(1.0))


def test_ordinary_tables_pass_the_quick_check(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) * [1.0, 1e3, 1e-3]
    for kind, y in (("squared", 1e6 * X[:, 0] + rng.normal(size=50)), ("logistic", (X[:, 0] > 0) * 1.0)):
        fit = glm.fit(X, y, LOSSES[kind], 1e-3, intercept=True)
        monkeypatch.setattr("dosimeter.glm.jacobians.precision.relative_errors", None) if kind == "logistic" else None
        assert np.isfinite(glm.measure(fit, X, y, dm.Gaussian(1.0)).examples).all()
