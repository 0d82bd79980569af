"""Oracles for estimators that are not one loss: refits by the library itself, and laws that every reading obeys."""

from __future__ import annotations

import numpy as np


def cell_slope(refit, X, row, column, step):
    """(r,) d released / d X[row, column], by central differences of refits; the error is of fourth order."""

    def moved(k):
        Z = X.copy()
        Z[row, column] += k * step
        return refit(Z)

    return (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * step)


def forward_slope(at, step):
    """(r,) the derivative of `at` at 0 from its values at 0, 1, ... 4 steps: exact up to the fourth power."""
    weights = np.array([-25.0, 48.0, -36.0, 16.0, -3.0]) / 12.0
    return sum(w * at(k * step) for k, w in enumerate(weights)) / step


def label_slope(refit, X, y, row, other, copies=200):
    """(r,) the derivative along the step of one row from its class to another.

    Every row is copied, which changes no moment and no minimum; then a few copies of the row get the other class.
    """
    Z, labels = np.repeat(X, copies, axis=0), np.repeat(y, copies)

    def at(share):
        moved = labels.copy()
        moved[row * copies : row * copies + round(share * copies)] = other
        return refit(Z, moved)

    return forward_slope(at, 1.0 / copies)


def class_step(y, row, other, n_classes):
    """(t,) the step of one row's class in the unknowns of the target."""
    if n_classes == 2:
        return np.array([other - y[row]])
    step = np.zeros(n_classes)
    step[int(other)] += 1.0
    step[int(y[row])] -= 1.0
    return step


def assert_nested(leak):
    """More unknowns never lower the figure: cell <= attribute <= row <= group <= table."""
    slack = 1 + 1e-9
    assert (leak.cells.max(axis=1) <= leak.without_target().examples * slack).all()
    assert (leak.attribute([0, 1]) >= leak.cells[:, :2].max(axis=1) / slack).all()
    assert (leak.without_target().examples <= leak.examples * slack).all()
    assert (leak.labels <= leak.examples * slack).all()
    groups = leak.group(np.arange(leak.n) % 3)
    assert max(groups.values()) <= leak.dataset * slack
    assert leak.examples.max() <= leak.dataset * slack
    assert leak.subset([1, 2, 3]) <= leak.subset([1, 2, 3, 4]) * slack
    assert (leak.attributes <= leak.dataset * slack).all()


def close(ours, slope, tolerance=1e-6):
    """Equal up to a share of the largest entry."""
    assert np.abs(slope).max() > 0
    np.testing.assert_allclose(ours, slope, rtol=0, atol=tolerance * np.abs(slope).max())
