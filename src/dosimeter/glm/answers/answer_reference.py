"""A public list of queries as a unit for answers: how many answers to such queries say as much.

Let U have UᵀU = the mean of x̃x̃ᵀ over the list. Answers with information RᵀR whose queries lie in the span of the list
have

    ‖R J‖ <= ‖R U⁺‖ ‖U J‖,      amount = ‖R U⁺‖²,

so that everyone's η² is at most the amount times their own ‖U J‖². The amount is a ratio of quadratic forms of queries:
it is the same in any coordinates of the parameters, and so does not depend on the mean and deviation of a scaler that
was fitted on the table. For queries drawn as those of the list both sides are nearly equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Gaussian
from dosimeter.glm.answers.answer_information import INDEPENDENT, Answer, AnswerInformation

_OUTSIDE = 1e-7
"""A query whose part outside the span of the list is a larger share of its length has no amount."""

_ROUNDED = 1e-12
"""Of the longest row of R: columns that depend on each other leave rows of rounding errors in a triangular R."""


@dataclass(frozen=True, eq=False)
class ReferenceQueries:
    """A public list of queries as a unit.

    Parameters
    ----------
    root : array of shape (r, q)
        U, for margins with `Gaussian(1.0)`.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> fit = glm.fit(X, y, glm.Squared())
    >>> reference = ReferenceQueries.of(fit, [[2.0], [2.0]])
    >>> five, far = ([[2.0]] * 5, [[20.0]])
    >>> [round(reference.amount(AnswerInformation.of(fit, rows, Gaussian(1.0))), 9) for rows in (five, far)]
    [5.0, 100.0]
    """

    root: FloatArray

    @classmethod
    def of(cls, fit: Any, queries: Any, count: int | None = None) -> ReferenceQueries:
        """Of queries (k, d) in the columns of the fit; count: what their sum is divided by, k by default."""
        information = AnswerInformation.of(fit, queries, Gaussian(1.0), Answer.MARGINS)
        return cls(information.root / math.sqrt(information.answers if count is None else count))

    @property
    def information(self) -> AnswerInformation:
        """What one answer of the list says on average, with `Gaussian(1.0)` on its margin."""
        return AnswerInformation(self.root, 1)

    @cached_property
    def _inverse(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(sizes of the columns (q,), directions W (q, r), W/S (q, r)) of U with columns of length one."""
        size = np.linalg.norm(self.root, axis=0)
        size = np.where(size > 0, size, 1.0)
        _, S, Wt = np.linalg.svd(self.root / size, full_matrices=False)
        kept = INDEPENDENT * S[0] < S
        W = Wt[kept].T
        return size, W, W / S[kept]

    def amount(self, information: AnswerInformation) -> float:
        """How many average answers of the list say as much about every direction; inf outside its span."""
        size, W, inverse = self._inverse
        with np.errstate(over="ignore", invalid="ignore"):
            R = information.root / size
            length = np.linalg.norm(R, axis=1)
            outside = np.linalg.norm(R - (R @ W) @ W.T, axis=1)
            scaled = R @ inverse
            if not np.isfinite(scaled).all() or not np.all(outside <= _OUTSIDE * length + _ROUNDED * length.max()):
                return math.inf
            return float(np.linalg.norm(scaled, 2) ** 2) if scaled.size else 0.0
