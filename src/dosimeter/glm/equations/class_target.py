"""A class as the target of estimating equations: indicators e (K,) that move together, because they sum to one.

| classes   | unknowns of the target | de/dz                 | a step between two classes |
| two       | one: the indicator of the second | (-1, 1)     | 1                          |
| K > 2     | K indicators           | 1 - 11ᵀ/K, centred    | √2, as for softmax         |

A person's class steps from a to b, e_b - e_a, which sums to zero; that all indicators grow together is impossible and
is projected out. With the unit √2 (`TargetKind.CLASSES.unit`) the norm over the K indicators is that over the simplex
of `core/category.py`, whose edges have length one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.validation import check_table
from dosimeter.glm.losses.loss import TargetKind
from dosimeter.glm.losses.softmax import Softmax


def class_kind(n_classes: int) -> TargetKind:
    """Two classes or several."""
    return TargetKind.TWO_CLASSES if n_classes == 2 else TargetKind.CLASSES


def indicator_moves(n_classes: int) -> FloatArray:
    """(K, t) de/dz: how the indicators move with the unknowns of the target.

    >>> indicator_moves(2).tolist()
    [[-1.0], [1.0]]
    >>> indicator_moves(4).sum(axis=0).round(12).tolist()
    [0.0, 0.0, 0.0, 0.0]
    """
    if n_classes == 2:
        return np.array([[-1.0], [1.0]])
    return np.eye(n_classes) - 1.0 / n_classes


def check_classes(
    X: Any, y: Any, n_classes: int, sample_weight: Any = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """X (n, d), class numbers (n,), ω (n,); every class must have weight."""
    X, y, weight = check_table(X, y, sample_weight)
    Softmax(n_classes).check(y)
    absent = sorted(set(range(n_classes)) - {int(c) for c in y[weight > 0]})
    if absent:
        raise Refusal(f"no row has class {absent[0]}, so its parameters are not determined: renumber the classes")
    return X, y, weight


def indicators(y: FloatArray, n_classes: int) -> FloatArray:
    """(n, K) of class numbers (n,)."""
    return np.asarray(np.eye(n_classes)[y.astype(np.intp)])
