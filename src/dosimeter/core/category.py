"""Categories: coordinates in which every real step from one level to another has length one.

A category of k levels has no amounts between them: what a person's cell can do is step from one level to another. Its
levels are put on the vertices V (k, k - 1) of a regular simplex with edges of length one, centred at zero; for two
levels that is -1/2 and 1/2. In these coordinates

* no level is singled out: another order of the levels turns the simplex, and no norm sees that;
* a step from a to b is the direction V_b - V_a of length one, so the norm over a row's or a person's unknowns is never
  below the figure of any real step: a limit on it, a ledger's total and the joint norm of several releases hold for
  every category, too;
* ridge penalties and Gaussian noise on weights of V treat all levels alike.

A column of two values is a category however it is written, and its step is the distance of the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray


def simplex(levels: int) -> FloatArray:
    """(k, k - 1) vertices, one apart and centred at zero; coordinate j sets level j + 1 against those before it.

    >>> simplex(2).tolist()
    [[-0.5], [0.5]]
    >>> V = simplex(4)
    >>> bool(np.allclose(np.linalg.norm(V[:, None] - V[None], axis=2), 1 - np.eye(4)))
    True
    """
    V = np.zeros((levels, levels - 1))
    for j in range(1, levels):  # Helmert's contrasts, of length 1/√2
        V[:j, j - 1], V[j, j - 1] = -1.0, j
        V[:, j - 1] /= np.sqrt(2.0 * j * (j + 1))
    return V


def step_of(values: Any) -> float | None:
    """How far the two values of a column (n,) are apart, missing ones aside; None where it has not just two.

    >>> step_of([0.5, 7.5, 0.5]), step_of([1, 2, 3]), step_of([True, False])
    (7.0, None, 1.0)
    """
    column = np.asarray(values, dtype=np.float64)
    column = column[~np.isnan(column)]
    if not column.size:
        return None
    low, high = float(column.min()), float(column.max())
    return high - low if low < high and bool(((column == low) | (column == high)).all()) else None
