"""The softmax loss: K classes, one margin per contrast.

Margins of a row are C (Vᵀx), with V (p, K') the parameters and C (K, K') the contrast:

| reference   | C               | K'  | the minimiser is unique                          |
| None        | identity        | K   | only if every parameter is penalised             |
| a class     | identity, that row zero | K-1 | unless the classes are separable         |
| "mean"      | orthonormal, columns sum to zero | K-1 | unless the classes are separable |

"mean" is what scikit-learn's multinomial LogisticRegression returns: the classes' weights sum to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import helmert
from scipy.special import logsumexp

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal


@dataclass(frozen=True)
class Softmax:
    """Multinomial logistic regression with labels 0 .. n_classes-1.

    >>> Softmax(n_classes=3, reference=0).contrast.shape
    (3, 2)
    """

    n_classes: int
    reference: int | Literal["mean"] | None = None
    name = "softmax"

    def __post_init__(self) -> None:
        if isinstance(self.n_classes, bool) or not isinstance(self.n_classes, int | np.integer) or self.n_classes < 2:
            raise Refusal(f"Softmax needs a whole number of classes, at least two, not {self.n_classes!r}")
        whole = isinstance(self.reference, int | np.integer) and not isinstance(self.reference, bool)
        named = whole and 0 <= self.reference < self.n_classes  # type: ignore[operator]
        if not (self.reference is None or self.reference == "mean" or named):
            raise Refusal(f"reference {self.reference!r} is not None, 'mean' or a class from 0 to {self.n_classes - 1}")

    @property
    def contrast(self) -> FloatArray:
        """C, (K, K')."""
        identity = np.eye(self.n_classes)
        if self.reference is None:
            return identity
        if self.reference == "mean":
            return np.asarray(helmert(self.n_classes).T, dtype=np.float64)
        return np.delete(identity, self.reference, axis=1)

    def check(self, y: FloatArray) -> None:
        """Labels are whole numbers from 0 to K-1."""
        bad = (y != np.floor(y)) | (y < 0) | (y >= self.n_classes)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise Refusal(
                f"Softmax needs labels 0 to {self.n_classes - 1}; row {row} has {y[row]:g}: number the classes"
            )

    def onehot(self, y: FloatArray) -> FloatArray:
        """(n, K) indicator of each row's class."""
        return np.asarray(np.eye(self.n_classes)[y.astype(int)])

    def probabilities(self, margin: FloatArray) -> FloatArray:
        """(n, K) from margins (n, K')."""
        logits = margin @ self.contrast.T
        return np.asarray(np.exp(logits - logsumexp(logits, axis=1, keepdims=True)))

    def residual(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """(n, K') Cᵀ(s - y). The class of the row is reached as minus the sum of the others,
        which is relatively exact where its probability is next to 1."""
        s = self.probabilities(margin)
        label = y.astype(int)
        rows = np.arange(len(y))
        s[rows, label] = 0.0
        s[rows, label] = -s.sum(axis=1)
        return s @ self.contrast

    def curvature(self, margin: FloatArray) -> FloatArray:
        """(n, K', K') Cᵀ(diag s - ssᵀ)C."""
        s, C = self.probabilities(margin), self.contrast
        # 1 - s as the sum of the other classes: where a class is all but certain, s - s² would be zero.
        others = s @ (1.0 - np.eye(len(C)))
        S = -s[:, :, None] * s[:, None, :]
        each = np.arange(len(C))
        S[:, each, each] = s * others
        return np.asarray(C.T @ S @ C)

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) log-loss."""
        logits = margin @ self.contrast.T
        own = np.take_along_axis(logits, y.astype(int)[:, None], axis=1)
        return np.asarray(logsumexp(logits - own, axis=1))
