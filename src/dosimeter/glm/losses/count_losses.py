"""Losses of counts with more spread than Poisson's: the negative binomial with a known dispersion.

| loss             | value                         | r                | a                 | c          |
| NegativeBinomial | (y + 1/α) log(1 + αeᵐ) - y m  | (μ - y)/(1 + αμ) | (1+αy) μ/(1+αμ)²  | 1/(1 + αμ) |

μ = eᵐ, variance μ + αμ². statsmodels calls it GLM(family=NegativeBinomial(alpha)); its discrete NegativeBinomial also
estimates α, which is another problem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.glm.losses.scalar_loss import ScalarLoss, TargetKind, first_row, refuse_parameter, register


@register
@dataclass(frozen=True)
class NegativeBinomial(ScalarLoss):
    """Negative binomial regression with the log link and a given dispersion.

    Parameters
    ----------
    alpha : float, default 1
        α > 0; the variance is μ + αμ². It is a constant: one that was estimated from the table is not covered.

    Raises
    ------
    Refusal
        If alpha is not a finite number > 0.

    Examples
    --------
    >>> NegativeBinomial(1.0).residual(np.array([0.0]), np.array([3.0]))       # (1 - 3)/(1 + 1)
    array([-1.])
    """

    alpha: float = 1.0
    name = "negative-binomial"
    target = TargetKind.COUNT
    score_name = "D²"
    uses_target_bound = True

    def __post_init__(self) -> None:
        refuse_parameter("alpha", self.alpha)

    def check(self, y: FloatArray) -> None:
        """Counts must not be negative."""
        if (y < 0).any():
            row = first_row(y < 0)
            raise Refusal(f"NegativeBinomial needs targets >= 0; row {row} has {y[row]:g}")

    def _odds(self, m: FloatArray) -> FloatArray:
        """log αμ."""
        return m + math.log(self.alpha)

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """y log((1 + αμ)/μ) + log(1 + αμ)/α, without the difference of two large terms at large margins."""
        t = self._odds(m)
        return np.asarray(y * (np.logaddexp(0.0, -t) + math.log(self.alpha)) + np.logaddexp(0.0, t) / self.alpha)

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """s(t)/α - y s(-t), t = log αμ."""
        t = self._odds(m)
        return np.asarray(expit(t) / self.alpha - y * expit(-t))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        t = self._odds(m)
        return np.asarray((y + 1 / self.alpha) * expit(t) * expit(-t))

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return -np.tanh(0.5 * self._odds(m)) * self.curvature(m, y)

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(expit(-self._odds(m)))

    def link(self, y: FloatArray) -> FloatArray:
        return np.log(y + 0.5)

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore"):
            return np.exp(m), np.exp(m)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As for Poisson: a row with y = 0 tolerates m -> -inf."""
        return np.where(y == 0, -1.0, 0.0), (y > 0).astype(float)

    def no_minimiser(self, y: FloatArray) -> str:
        return "every count is zero" if np.all(y == 0) else ""

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """-y <= r <= 1/α at any margin."""
        if target_bound is None:
            raise CannotMeasure(
                "the negative-binomial loss has no bounded gradient unless the counts are bounded too: pass "
                "target_bound, chosen without looking at the table"
            )
        return row_norm * max(target_bound, 1 / self.alpha)

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the deviance explained."""
        return 1.0 - self.deviance(y, m) / self.deviance(y, np.full_like(y, np.log(y.mean())))

    def deviance(self, y: FloatArray, m: FloatArray) -> float:
        """2 Σ (l at μ - l at μ = y)."""
        best = xlogy(y + 1 / self.alpha, 1 + self.alpha * y) - xlogy(y, y)
        return float(2 * np.sum(self.value(m, y) - best))
