"""Class weights: a label that changes brings its own weight with it. The oracle refits with part of a row relabelled.

A row of weight ω is split into one of weight (1 - t)ω with its own class and one of weight tω with another. Both have
the class weight of their class, so t is the soft label between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

import dosimeter as dm
from dosimeter import glm
from dosimeter.glm.losses.label_weights import LabelWeights

N = 40
_RNG = np.random.default_rng(5)
X = _RNG.normal(size=(N, 2)).round(3)
_SCORE = X @ [1.0, -0.5] + 0.7 * _RNG.normal(size=N)
TWO = (_SCORE > 0.4).astype(int)
THREE = np.digitize(_SCORE, [-0.5, 0.7])
OMEGA = _RNG.uniform(0.5, 2.0, N).round(2)
UNIT = dm.Gaussian(1.0)
HEAVY, HEAVY_3 = {0: 1.0, 1: 20.0}, {0: 3.0, 1: 1.0, 2: 10.0}
EXACT = {"solver": "newton-cholesky", "tol": 1e-13, "max_iter": 500}


def _weights(model: Any) -> np.ndarray:
    parts = getattr(model, "estimators_", [model])
    return np.concatenate([np.append(part.coef_, part.intercept_) for part in parts])


def _refit(model: Any) -> Callable[..., np.ndarray]:
    def fit(rows: np.ndarray, y: np.ndarray, omega: np.ndarray) -> np.ndarray:
        again = clone(model)
        with np.errstate(all="ignore"):
            return _weights(again.fit(rows, y, sample_weight=omega))

    return fit


def _balanced(model: Any, y: np.ndarray) -> Any:
    """The same with the weights that were counted from the labels as public numbers."""
    classes = np.unique(y)
    shares = {k: np.sum(OMEGA) / (len(classes) * np.sum(OMEGA[y == k])) for k in classes}
    return clone(model).set_params(class_weight={int(k): float(v) for k, v in shares.items()})


def _forward(f: Callable[[float], np.ndarray], h: float = 4e-4) -> np.ndarray:
    """f'(0) from one side, exact for a polynomial of degree four."""
    parts = (-25.0, 48.0, -36.0, 16.0, -3.0)
    return sum(c * f(k * h) for k, c in enumerate(parts)) / (12.0 * h)


def _relabelled(fit: Callable[..., np.ndarray], y: np.ndarray, row: int) -> np.ndarray:
    """(p, K) dw/dt towards each class, forward, because weights are not negative."""
    K = len(np.unique(y))
    rows, columns = np.vstack([X, X[row]]), []

    def at(t: float, other: int) -> np.ndarray:
        omega = np.append(OMEGA, t * OMEGA[row])
        omega[row] *= 1.0 - t
        return fit(rows, np.append(y, other), omega)

    for other in range(K):
        columns.append(0.0 * at(0.0, other) if other == y[row] else _forward(lambda t, k=other: at(t, k)))
    return np.column_stack(columns)


def _moved(fit: Callable[..., np.ndarray], y: np.ndarray, row: int) -> np.ndarray:
    """(p, 2) dw/dx."""

    def at(column: int, step: float) -> np.ndarray:
        table = X.copy()
        table[row, column] += step
        return fit(table, y, OMEGA)

    slopes = []
    for column in range(2):
        wide, narrow = ((at(column, h) - at(column, -h)) / (2 * h) for h in (2e-3, 1e-3))
        slopes.append((4 * narrow - wide) / 3)
    return np.column_stack(slopes)


MODELS = {
    "logistic": (LogisticRegression(class_weight=HEAVY, **EXACT), TWO),
    "logistic, balanced": (LogisticRegression(class_weight="balanced", **EXACT), TWO),
    "softmax": (LogisticRegression(class_weight=HEAVY_3, **EXACT), THREE),
    "softmax, balanced": (LogisticRegression(class_weight="balanced", **EXACT), THREE),
    "ridge": (RidgeClassifier(class_weight=HEAVY, solver="cholesky"), TWO),
    "ridge, three classes": (RidgeClassifier(class_weight=HEAVY_3, solver="cholesky"), THREE),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_label_moves_the_weights_with_the_weight_of_its_class(name):
    model, y = MODELS[name]
    leak = dm.measure(clone(model).fit(X, y, sample_weight=OMEGA), X, y, noise=UNIT, sample_weight=OMEGA)
    public = _balanced(model, y) if model.class_weight == "balanced" else model
    fit = _refit(public)
    for row in (0, 19):
        moves, cells = _relabelled(fit, y, row), _moved(fit, y, row)
        step = max(np.linalg.norm(a - b) for a in moves.T for b in moves.T)
        corners = np.sqrt(2.0) * (moves - moves.mean(axis=1, keepdims=True))
        assert leak.labels[row] == pytest.approx(step, rel=1e-6)
        assert leak.examples[row] == pytest.approx(np.linalg.norm(np.hstack([cells, corners]), 2), rel=1e-6)


def test_a_heavy_class_is_not_hidden_by_a_light_label():
    """Two rows at the same place with different labels have one weight with each label, so one figure."""
    rows = np.vstack([X, X[:1], X[:1]])
    y = np.concatenate([TWO, [0, 1]])
    model = LogisticRegression(class_weight=HEAVY, **EXACT).fit(rows, y)
    light, heavy = dm.measure(model, rows, y, noise=UNIT).labels[-2:]
    assert light == pytest.approx(heavy, rel=1e-9)


def test_what_fix_books_counts_the_weight_of_the_other_class():
    """The doses of a release are those that `measure` finds for the weights under its noise."""
    table = {"a": X[:, 0], "b": X[:, 1]}
    for y, weights in ((TWO, HEAVY), (THREE, HEAVY_3)):
        model = LogisticRegression(class_weight=weights, **EXACT).fit(np.column_stack(list(table.values())), y)
        leak = dm.measure(model, X, y, noise=dm.Gaussian(4.0), unit="sd")
        made = dm.fix({"x0": X[:, 0], "x1": X[:, 1], "y": y}, target="y", model=model, scale=4.0, even_if_useless=True)
        assert made.result.dose.highest == pytest.approx(leak.examples.max(), rel=1e-9)
        assert dm.fix(
            {"x0": X[:, 0], "x1": X[:, 1], "y": y}, target="y", model=model, max_dose=1.0, even_if_useless=True
        ).result.dose.highest <= 1.0  # fmt: skip


def _hinge(rows, signs, omega):
    """liblinear's problem, C = 1: Σ ω max(0, 1 - s m)² + ½ |w|², the intercept penalised, by Newton's method."""
    A, w = np.column_stack([rows, np.ones(len(rows))]), np.zeros(3)
    for _ in range(60):
        slack = np.maximum(0.0, 1.0 - signs * (A @ w))
        H = 2.0 * (A.T * (omega * (slack > 0))) @ A + np.eye(3)
        w = w - np.linalg.solve(H, w - 2.0 * A.T @ (omega * signs * slack))
    return w


@pytest.mark.parametrize("weights", [HEAVY, HEAVY_3])
def test_liblinear_weighs_a_class_against_the_rest(weights):
    y = TWO if weights is HEAVY else THREE
    model = LinearSVC(class_weight=weights, dual=False, tol=1e-10).fit(X, y, sample_weight=OMEGA)
    leak = dm.measure(model, X, y, noise=UNIT, sample_weight=OMEGA)

    def fit(rows, labels, omega):
        if len(weights) == 2:
            return _hinge(rows, np.where(labels == 1, 1.0, -1.0), omega * np.where(labels == 1, weights[1], weights[0]))
        outputs = [
            _hinge(rows, np.where(labels == k, 1.0, -1.0), omega * np.where(labels == k, weights[k], 1.0))
            for k in weights
        ]
        return np.concatenate(outputs)

    assert fit(X, y, OMEGA) == pytest.approx(_weights(model)[np.r_[: 3 * 1]] if len(weights) == 2 else np.column_stack(
        [model.coef_, model.intercept_]).ravel(), rel=1e-6)  # fmt: skip
    for row in (0, 7, 19):
        moves = _relabelled(fit, y, row)
        assert leak.labels[row] == pytest.approx(max(np.linalg.norm(a - b) for a in moves.T for b in moves.T), rel=1e-6)


def test_weights_counted_for_each_output():
    model = OneVsRestClassifier(LogisticRegression(class_weight="balanced", **EXACT)).fit(X, THREE)
    leak = dm.measure(model, X, THREE, noise=UNIT)
    parts = []
    for k in range(3):
        label = np.equal(THREE, k).astype(int)
        shares = {c: N / (2 * np.sum(label == c)) for c in (0, 1)}
        parts.append((k, LogisticRegression(class_weight=shares, **EXACT)))

    def fit(rows, labels, omega):
        return np.concatenate([_refit(part)(rows, (labels == k).astype(int), omega) for k, part in parts])

    ones = np.ones(N)
    for row in (0, 7):
        rows, columns = np.vstack([X, X[row]]), []
        for other in range(3):

            def at(t, other=other, row=row, rows=rows):
                omega = np.append(ones, t)
                omega[row] -= t
                return fit(rows, np.append(THREE, other), omega)

            columns.append(_forward(at))
        step = max(np.linalg.norm(a - b) for a in columns for b in columns)
        assert leak.labels[row] == pytest.approx(step, rel=1e-6)


def test_sparse_tables_read_the_same_labels():
    counts = np.random.default_rng(1).poisson(1.0, size=(N, 6)).astype(float)
    for y, weights in ((TWO, HEAVY), (THREE, HEAVY_3)):
        model = LogisticRegression(class_weight=weights, **EXACT).fit(counts, y)
        dense, thin = (dm.measure(model, table, y, noise=UNIT) for table in (counts, sparse.csr_array(counts)))
        assert np.allclose(dense.labels, thin.labels, rtol=1e-8)
        assert np.allclose(dense.examples, thin.examples, rtol=1e-8)


def test_the_readings_of_large_softmax_models_agree_with_written_out_jacobians(monkeypatch):
    """Every reading of `SoftmaxJacobian` with class weights, against the same one of Jacobians that are written out."""
    weights = OMEGA[:, None] * np.array([3.0, 1.0, 10.0])
    loss, y = glm.Softmax(3, "mean"), THREE.astype(float)
    fit = glm.fit(X, y, loss, 0.05, sample_weight=weights[np.arange(N), THREE], intercept=True)
    fit = replace(fit, label_weights=LabelWeights(weights, np.arange(3.0)))
    mask = np.random.default_rng(1).random((N, 3)) < 0.5
    groups = [k % 7 for k in range(N)]

    def readings():
        leak = glm.measure(fit, X, y, UNIT, target_unit=np.sqrt(2.0))
        J = leak.jacobian
        together = J.together(np.arange(5), np.array([0]), False, np.arange(1, 5))
        vertices = np.eye(3)
        return [
            leak.examples, J.target_norms(), list(leak.group(groups).values()), [together, J.together_mask(mask)],
            leak.category(np.arange(2, 5), vertices), J.outer_mask(mask), J.outer(np.arange(9), np.array([1]), False,
            np.arange(2, 5)), J.outer(np.arange(9), np.array([1]), True, np.array([0])),
        ]  # fmt: skip

    written = readings()
    monkeypatch.setattr("dosimeter.glm.jacobians.softmax_jacobian.SMALL", 0)
    for ours, dense in zip(readings(), written, strict=True):
        assert np.allclose(ours, dense, rtol=1e-8, atol=1e-12)


def test_bounds_of_very_large_softmax_models_hold():
    weights = OMEGA[:, None] * np.array([3.0, 1.0, 10.0])
    loss, y = glm.Softmax(3, "mean"), THREE.astype(float)
    options = {"sample_weight": weights[np.arange(N), THREE], "intercept": True}
    counts = sparse.csr_array(np.random.default_rng(1).poisson(1.0, size=(N, 6)).astype(float))
    known = LabelWeights(weights, np.arange(3.0))
    exact, bounds = (
        glm.measure(
            replace(glm.fit(counts, y, loss, 0.05, route=route, **options), label_weights=known), counts, y, UNIT
        )
        for route in (None, "iterative")
    )
    low, high = bounds.jacobian.row_bracket(np.empty(0, dtype=np.intp), True)
    labels = exact.jacobian.target_norms()
    assert (low <= labels).all()
    assert (labels <= high).all()
