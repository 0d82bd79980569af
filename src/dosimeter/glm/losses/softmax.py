"""The softmax loss: K classes, one margin per contrast.

Margins of a row are C (Vᵀx), with V (p, K') the parameters and C (K, K') the contrast:

| reference   | C               | K'  | the minimiser is unique                          |
| None        | identity        | K   | only if every parameter is penalised             |
| a class     | identity, that row zero | K-1 | unless the classes are separable         |
| "mean"      | orthonormal, columns sum to zero | K-1 | unless the classes are separable |

"mean" is what scikit-learn's multinomial LogisticRegression returns: the classes' weights sum to zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import helmert
from scipy.special import logsumexp, ndtr

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.losses.loss import TargetKind

POINTS = np.linspace(-8.0, 8.0, 64)
"""The trapezoid rule of a Gaussian expectation on these is exact to 1e-13 for ten classes and to 1e-11 for fifty."""


@dataclass(frozen=True)
class Softmax:
    """Multinomial logistic regression with classes 0 .. n_classes-1.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    reference : int, "mean" or None
        The class whose margin is zero; "mean" makes the classes' weights sum to zero, as scikit-learn does; None has
        one parameter vector per class, which is unique only if every parameter is penalised.

    Raises
    ------
    Refusal
        If n_classes or reference is invalid.

    Examples
    --------
    >>> Softmax(n_classes=3, reference=0).contrast.shape
    (3, 2)
    """

    n_classes: int
    reference: int | Literal["mean"] | None = None
    name = "softmax"
    description = "softmax"
    target = TargetKind.CLASSES
    score_name = "accuracy"
    quadratic = False
    has_kinks = False
    convex = True
    uses_target_bound = False
    default_model = "LogisticRegression(C=1.0)"
    penalised_mean = False

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
        """Targets must be whole numbers from 0 to K-1."""
        bad = (y != np.floor(y)) | (y < 0) | (y >= self.n_classes)
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise Refusal(
                f"Softmax needs targets 0 to {self.n_classes - 1}; row {row} has {y[row]:g}: number the classes"
            )

    def no_minimiser(self, y: FloatArray) -> str:
        """Why unpenalised constants have no finite minimum on these targets; else ""."""
        absent = sorted(set(range(self.n_classes)) - {int(c) for c in y})
        return f"no row has class {absent[0]}" if absent else ""

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """|Cᵀ(s - y)| |x| <= √2 |C| R."""
        return math.sqrt(2.0) * float(np.linalg.norm(self.contrast, 2)) * row_norm

    @property
    def has_expected_score(self) -> bool:
        """Whether equal noise on the contrasts is equal noise on the classes, up to a common shift."""
        return self.reference in (None, "mean")

    def score(self, margin: FloatArray, y: FloatArray) -> float:
        """Share of the rows whose class has the largest margin."""
        return float(np.mean((margin @ self.contrast.T).argmax(axis=1) == y))

    def base_score(self, y: FloatArray) -> float:
        """The largest class for everyone."""
        return float(np.bincount(y.astype(int)).max() / len(y))

    def expected_score(self, margin: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """The expected accuracy over Gaussian noise of this variance (n,) on each of a row's margins (n, K').

        P(the row's class has the largest margin) = E Π Φ(Δⱼ/√variance + z) over the other classes j, z ~ N(0, 1), Δⱼ
        how far its margin is above theirs.
        """
        if not np.any(variance):
            return self.score(margin, y)
        if not self.has_expected_score:
            raise CannotMeasure("softmax with a reference class has no formula for the expected score: simulate")
        logits, own, rows = margin @ self.contrast.T, y.astype(int), np.arange(len(y))
        gaps = logits[rows, own][:, None] - logits
        gaps[rows, own] = np.inf
        noised = variance > 0
        correct = (logits.argmax(axis=1) == own).astype(float)
        scaled = gaps[noised] / np.sqrt(variance[noised])[:, None]
        density = np.exp(-0.5 * POINTS**2)
        correct[noised] = sum(
            weight * ndtr(scaled + z).prod(axis=1)
            for z, weight in zip(POINTS.tolist(), (density / density.sum()).tolist(), strict=True)
        )
        return float(correct.mean())

    def score_curve(
        self, margin: FloatArray, y: FloatArray, squares: FloatArray, variance: float
    ) -> Callable[[float], float]:
        """s -> the expected score under noise of scale s and variance s² · variance · squares on each margin."""
        return lambda s: self.expected_score(margin, y, s * s * variance * squares)

    def onehot(self, y: FloatArray) -> FloatArray:
        """(n, K) indicator of each row's class."""
        return np.asarray(np.eye(self.n_classes)[y.astype(int)])

    def probabilities(self, margin: FloatArray) -> FloatArray:
        """(n, K) from margins (n, K')."""
        logits = margin @ self.contrast.T
        return np.asarray(np.exp(logits - logsumexp(logits, axis=1, keepdims=True)))

    def residual(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """(n, K') Cᵀ(s - y). The row's class is minus the sum of the others, which is relatively exact if its
        probability is nearly 1.
        """
        s = self.probabilities(margin)
        own_class = y.astype(int)
        rows = np.arange(len(y))
        s[rows, own_class] = 0.0
        s[rows, own_class] = -s.sum(axis=1)
        return s @ self.contrast

    def curvature(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """(n, K', K') Cᵀ(diag s - ssᵀ)C."""
        s, C = self.probabilities(margin), self.contrast
        # 1 - s as the sum of the other classes: if a class is nearly certain, s - s² would be zero.
        others = s @ (1.0 - np.eye(len(C)))
        S = -s[:, :, None] * s[:, None, :]
        each = np.arange(len(C))
        S[:, each, each] = s * others
        return np.asarray(C.T @ S @ C)

    def value(self, margin: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) log-loss."""
        logits = margin @ self.contrast.T
        own_logit = np.take_along_axis(logits, y.astype(int)[:, None], axis=1)
        return np.asarray(logsumexp(logits - own_logit, axis=1))
