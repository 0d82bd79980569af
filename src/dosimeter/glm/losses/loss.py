"""The losses of a linear model with one margin m = w·x, one class each, and their registry.

| loss     | value                 | residual r = dl/dm | curvature a = d²l/dm² | target c = -d²l/dm dy |
| Squared  | (m - y)²/2    (eq. 20)| m - y              | 1                     | 1                     |
| Logistic | log(1+eᵐ) - ym (eq. 23)| s(m) - y          | s(m) s(-m)            | 1                     |
| Poisson  | eᵐ - ym               | eᵐ - y             | eᵐ                    | 1                     |

These three are canonical, so c = 1: the target enters the gradient as -y x (eq. 22 and 27 of [Hannun21]). The others
have tables of their own:

| module               | losses                                                             |
| `positive_losses.py` | Gamma, InverseGaussian, Tweedie: variance μᵖ, five links           |
| `count_losses.py`    | NegativeBinomial                                                   |
| `binary_losses.py`   | Probit, ComplementaryLogLog                                        |
| `margin_losses.py`   | SquaredHinge, SquaredEpsilonInsensitive, Huber: smooth up to kinks |

A class holds everything that depends on the loss; a new one is written and registered in one file (CONTRIBUTING.md).
All derivatives are those of the loss as it was observed, not their expectation: the implicit function theorem needs the
observed curvature. It is negative on some rows of a loss that is not `convex`, and zero on some rows of one that
`has_kinks`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.losses.scalar_loss import (
    LOSSES,
    ScalarLoss,
    TargetKind,
    TwoClassLoss,
    first_row,
    is_registered,
    register,
)

__all__ = ["LOSSES", "Logistic", "Poisson", "ScalarLoss", "Squared", "TargetKind", "is_registered", "register"]


@register
@dataclass(frozen=True)
class Squared(ScalarLoss):
    """Linear regression, (m - y)²/2, eq. 20 of [Hannun21].

    Examples
    --------
    >>> Squared().residual(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name = "squared"
    target = TargetKind.NUMBER
    score_name = "R²"
    canonical = True
    quadratic = True
    has_expected_score = True
    uses_target_bound = True
    default_model = "Ridge(alpha=1.0)"
    steepest_prediction = 1.0

    def check(self, y: FloatArray) -> None:
        """Accepts any finite target."""

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) eq. 20."""
        return 0.5 * (m - y) ** 2

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) dl/dm."""
        return m - y

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) d²l/dm²."""
        return np.ones_like(m)

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.zeros_like(m)

    def residual_change(self, m: FloatArray, t: FloatArray, y: FloatArray) -> FloatArray:
        return (m + t) - m

    def link(self, y: FloatArray) -> FloatArray:
        return y

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        return m, np.ones_like(m)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A square is bounded along no direction that moves a margin: every row is fixed."""
        return np.zeros_like(y), np.ones_like(y)

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """|w| <= Y max s/(s² + λ) over s in [0, R], and so |w·x - y| |x| <= R (R |w| + Y)."""
        if target_bound is None:
            raise CannotMeasure(
                "the squared loss has no bounded gradient unless the targets are bounded too: pass target_bound, "
                "chosen without looking at the table"
            )
        root = min(row_norm, math.sqrt(l2))
        return row_norm * (row_norm * target_bound * root / (root * root + l2) + target_bound)

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the variance explained."""
        return 1.0 - float(np.sum((y - m) ** 2) / np.sum((y - y.mean()) ** 2))

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """From E (y - m - b)² = (y - m)² + variance: any law with mean zero."""
        return float(1.0 - np.sum((y - m) ** 2 + variance) / np.sum((y - y.mean()) ** 2))

    def score_curve(
        self, m: FloatArray, y: FloatArray, squares: FloatArray, variance: float
    ) -> Callable[[float], float]:
        noise_variance, total, unexplained = variance * squares.sum(), np.sum((y - y.mean()) ** 2), np.sum((y - m) ** 2)
        return lambda s: float(1 - (unexplained + s * s * noise_variance) / total)


@register
@dataclass(frozen=True)
class Logistic(TwoClassLoss):
    """Logistic regression with y in {0, 1} (soft targets between them are allowed), eq. 23 of [Hannun21].

    Examples
    --------
    >>> Logistic().residual(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    name = "logistic"
    canonical = True
    default_model = "LogisticRegression(C=1.0)"
    steepest_prediction = 0.25

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) eq. 23, without cancellation at large margins of the correct sign."""
        return (1 - y) * np.logaddexp(0.0, m) + y * np.logaddexp(0.0, -m)

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) s(m) - y, as (1-y) s(m) - y s(-m): relatively exact if s(m) is nearly 1."""
        return np.asarray((1 - y) * expit(m) - y * expit(-m))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) s(m) s(-m), eq. 25."""
        return np.asarray(expit(m) * expit(-m))

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return -np.tanh(0.5 * m) * self.curvature(m, y)

    def residual_change(self, m: FloatArray, t: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(expit(m + t) - expit(m))

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.asarray(expit(m)), np.asarray(expit(m) * expit(-m))

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """|s(m) - y| |x| <= R."""
        return row_norm


@register
@dataclass(frozen=True)
class Poisson(ScalarLoss):
    """Poisson regression with the log link, eᵐ - ym, y >= 0.

    Examples
    --------
    >>> Poisson().curvature(np.array([0.0]), np.array([2.0]))
    array([1.])
    """

    name = "poisson"
    target = TargetKind.COUNT
    score_name = "D²"
    canonical = True
    has_expected_score = True
    default_model = "PoissonRegressor(alpha=1.0)"
    penalised_mean = True

    def check(self, y: FloatArray) -> None:
        """Counts (or rates) must not be negative."""
        if (y < 0).any():
            raise Refusal(f"Poisson needs targets >= 0; row {first_row(y < 0)} has {y[first_row(y < 0)]:g}")

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # an infinite value makes the line search step back
            return np.exp(m) - y * m

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(m) - y

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(m)

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.exp(m)

    def residual_change(self, m: FloatArray, t: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(m + t) - np.exp(m)

    def link(self, y: FloatArray) -> FloatArray:
        return np.log(y + 0.5)

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore"):
            return np.exp(m), np.exp(m)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row with y = 0 tolerates m -> -inf; a row with y > 0 must keep its margin."""
        return np.where(y == 0, -1.0, 0.0), (y > 0).astype(float)

    def no_minimiser(self, y: FloatArray) -> str:
        return "every count is zero" if np.all(y == 0) else ""

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        raise CannotMeasure("the gradient of the poisson loss grows without bound, so no sensitivity is proven")

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the deviance explained."""
        return self.expected_score(m, y, np.zeros_like(m))

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """1 - E deviance / deviance of the mean; E log μ = m, E μ = exp(m + variance/2)."""
        with np.errstate(over="ignore"):
            deviance = 2 * np.sum(xlogy(y, y) - y * m - y + np.exp(m + variance / 2))
        return float(1.0 - deviance / (2 * np.sum(xlogy(y, y / y.mean()))))
