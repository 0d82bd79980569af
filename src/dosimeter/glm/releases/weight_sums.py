"""Released numbers as exact sums over the noised weights of a fit, for each class of softmax.

The noise is on the parameters as they are fitted: on the weights of a single margin, or on those of each contrast of
softmax. Class c is Σₖ C[c, k] times contrast k, and nothing is rounded before the whole sum (`noise_addition`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.noise_addition import noisy_linear_map
from dosimeter.noise_addition.bits import Bits
from dosimeter.noise_addition.linear_map import Row


def draw_sums(
    fit: Fit, noise: object, rows: Sequence[Row], *, intercept: bool, bits: Bits | None
) -> dict[str, FloatArray]:
    """coef (rows,) or (K, rows), and intercept (1,) or (K,) if the last row is one; an empty row is 0.

    rows: sums over the parameters of one margin, the same for every class. bits: None for the operating system's.
    """
    by_class = class_rows(fit, rows)
    flat = [row for of_class in by_class for row in of_class]
    drawn = np.zeros(len(flat))
    drawn[[k for k, row in enumerate(flat) if row]] = noisy_linear_map(
        fit.w.T.ravel(), noise, [row for row in flat if row], bits=bits
    )
    noised = drawn.reshape(len(by_class), len(rows))
    coef = noised[:, :-1] if intercept else noised
    values = {"coef": coef if fit.w.ndim > 1 else coef[0]}
    return {**values, "intercept": noised[:, -1]} if intercept else values


def class_rows(fit: Fit, rows: Sequence[Row]) -> list[list[Row]]:
    """For each class of softmax, else once: the rows as sums over all weights, the contrasts one after another.

    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0], [4.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    >>> fit = glm.fit(X, y, glm.Softmax(2, reference=0), 0.1, intercept=True)
    >>> class_rows(fit, [{0: Fraction(1, 2)}, {1: Fraction(1)}])
    [[{}, {}], [{0: Fraction(1, 2)}, {1: Fraction(1, 1)}]]
    """
    if not isinstance(fit.loss, Softmax):
        return [list(rows)]
    p = len(fit.w)
    contrast = [{k: Fraction(a) for k, a in enumerate(line) if a} for line in fit.loss.contrast.tolist()]
    return [[{k * p + j: a * b for k, b in line.items() for j, a in row.items()} for row in rows] for line in contrast]


def exact_sums(fit: Fit, rows: Sequence[Row]) -> FloatArray:
    """(K rows,) or (rows,) the same sums without noise, class after class. Internal."""
    w = fit.w.T.ravel()
    return np.array([sum(float(a) * w[j] for j, a in row.items()) for each in class_rows(fit, rows) for row in each])
