"""How each row moves the constants of a scaler x = k u + t that was fitted on these rows.

Folded into raw units the weights hold k and t. With M = A^-1 A' as in docs/explanation/scaler.md, one unknown moves

    M_ff = k'/k,   M_0f = t' - t k'/k.

Both are returned for one unit of x, with the scaler held fixed: divided by k. At an extreme the derivative is that
of a move outwards; all rows that share an order statistic count as the one that holds it.
"""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray

Moves = tuple[FloatArray, FloatArray]


def moments_moves(u: FloatArray, with_mean: bool, with_scale: bool, weights: FloatArray | None = None) -> Moves:
    """(u - mean) / deviation, or one of the two; of weighted rows with weights (n,).

    >>> moments_moves(np.array([1.0, 3.0]), with_mean=True, with_scale=False)
    (array([0., 0.]), array([-0.5, -0.5]))
    >>> moments_moves(np.array([1.0, 3.0]), True, False, weights=np.array([1.0, 3.0]))
    (array([0., 0.]), array([-0.25, -0.75]))
    """
    share = np.full(len(u), 1.0 / len(u)) if weights is None else weights / weights.sum()
    mean, zero = float(share @ u), np.zeros(len(u))
    deviation = float(np.sqrt(share @ (u - mean) ** 2))
    return -share * (u - mean) / deviation if with_scale else zero, -share if with_mean else zero


def range_moves(u: FloatArray, low: float, high: float) -> Moves:
    """MinMaxScaler with its range of values: k = (high - low) / (max - min), t = low - k min.

    >>> range_moves(np.array([1.0, 2.0, 3.0]), 0.0, 1.0)
    (array([ 1.,  0., -1.]), array([-1.,  0.,  0.]))
    """
    unit = 1.0 / (high - low)  # (1/range) / k
    least, most = (u == u.min()) * unit, (u == u.max()) * unit
    return least - most, low * most - high * least


def magnitude_moves(u: FloatArray) -> Moves:
    """MaxAbsScaler: k = 1 / max |u|.

    >>> magnitude_moves(np.array([-1.0, -4.0]))
    (array([0., 1.]), array([0., 0.]))
    """
    return -np.sign(u) * (np.abs(u) == np.abs(u).max()), np.zeros(len(u))


def quantile_moves(u: FloatArray, low: float, high: float, centred: bool, scaled: bool, width: float) -> Moves:
    """RobustScaler: t = -k median, k = width / (quantile range), or 1.

    >>> quantile_moves(np.array([0.0, 1.0, 4.0]), 0.0, 100.0, True, True, 1.0)
    (array([ 1.,  0., -1.]), array([-0., -1., -0.]))
    """
    spread = float(np.subtract(*np.percentile(u, [high, low])))
    k = width / spread if scaled else 1.0
    by_scale = (_weights(u, low) - _weights(u, high)) / (spread * k) if scaled else np.zeros(len(u))
    return by_scale, -_weights(u, 50.0) if centred else np.zeros(len(u))


def _weights(u: FloatArray, percent: float) -> FloatArray:
    """(n,) the derivative of a percentile, interpolated linearly, by each value."""
    order = np.sort(u)
    at = percent / 100 * (len(u) - 1)
    below = int(np.floor(at))
    share = at - below
    out: FloatArray = (1.0 - share) * (u == order[below])
    return out if share == 0.0 else np.asarray(out + share * (u == order[below + 1]), dtype=np.float64)
