"""Categories: coordinates in which the step from any level to any other has length one.

A category of k levels has no values between them: a person's cell can only step from one level to another. The levels
are the vertices V (k, k - 1) of a regular simplex with edges of length one, centred at zero; two levels are -1/2 and
1/2. In these coordinates

* no level is special: reordering the levels rotates the simplex, which changes no norm;
* a step from a to b is the direction V_b - V_a of length one, so the norm over a row's or a person's unknowns is at
  least the figure of every possible step. A limit on that norm, a ledger total and the joint norm of several releases
  hold for every category too;
* ridge penalties and Gaussian noise on weights of V treat all levels alike.

A column with two values is a category, however it is written; its step is the distance between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray


def simplex(levels: int) -> FloatArray:
    """(k, k - 1) vertices at mutual distance one, centred at zero; coordinate j sets level j + 1 against those before.

    >>> simplex(2).tolist()
    [[-0.5], [0.5]]
    >>> V = simplex(4)
    >>> bool(np.allclose(np.linalg.norm(V[:, None] - V[None], axis=2), 1 - np.eye(4)))
    True
    """
    j = np.arange(1, levels, dtype=np.float64)
    size = np.sqrt(2.0 * j * (j + 1))  # Helmert's contrasts, of length 1/√2
    V = np.triu(np.broadcast_to(-1.0 / size, (levels, levels - 1)))
    V[np.arange(1, levels), np.arange(levels - 1)] = j / size
    return V


def coordinates(points: FloatArray) -> FloatArray:
    """(..., k - 1) the linear map of a category's coordinates that takes level a to `points[..., a]`, up to a constant.

    points (..., k). It is 2 points V, since V Vᵀ = ½(I - 11ᵀ/k), by running sums: thousands of levels need no V.

    >>> points = np.array([[1.0, 4.0, 2.0]])
    >>> V = simplex(3)
    >>> (coordinates(points) @ (V[1] - V[0])).round(12).tolist()
    [3.0]
    """
    away = points - points[..., :1]
    j = np.arange(1, points.shape[-1], dtype=np.float64)
    return np.asarray(2.0 * (j * away[..., 1:] - np.cumsum(away, axis=-1)[..., :-1]) / np.sqrt(2.0 * j * (j + 1.0)))


def at_levels(x: FloatArray) -> FloatArray:
    """(..., k) V x of coordinates x (..., k - 1), by running sums.

    >>> x = np.array([[0.3, -1.0]])
    >>> bool(np.allclose(at_levels(x), x @ simplex(3).T))
    True
    """
    j = np.arange(1, x.shape[-1] + 1, dtype=np.float64)
    scaled = x / np.sqrt(2.0 * j * (j + 1.0))
    out = np.zeros((*x.shape[:-1], x.shape[-1] + 1))
    out[..., :-1] = -np.cumsum(scaled[..., ::-1], axis=-1)[..., ::-1]
    out[..., 1:] += j * scaled
    return out


def step_of(values: Any) -> float | None:
    """Distance between the two values of a column (n,), ignoring missing cells; None unless it has exactly two.

    >>> step_of([0.5, 7.5, 0.5]), step_of([1, 2, 3]), step_of([True, False])
    (7.0, None, 1.0)
    """
    column = np.asarray(values, dtype=np.float64)
    column = column[~np.isnan(column)]
    if not column.size:
        return None
    low, high = float(column.min()), float(column.max())
    return high - low if low < high and bool(((column == low) | (column == high)).all()) else None
