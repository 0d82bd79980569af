"""Losses that are smooth up to kinks, where the curvature jumps: those of support vector machines, and Huber's.

| loss                      | value                           | r                       | a      | c     |
| SquaredHinge              | y (1-m)₊² + (1-y) (1+m)₊²       | 2(1-y)(1+m)₊ - 2y(1-m)₊ | 2 or 0 | below |
| SquaredEpsilonInsensitive | (abs(u) - ε)₊², u = m - y       | 2 sign(u) (abs(u) - ε)₊ | 2 or 0 | a     |
| Huber                     | u²/2, beyond δ: δ(abs(u) - δ/2) | u within ±δ             | 1 or 0 | a     |

The squared hinge has c = 2(1-m)₊ + 2(1+m)₊, the step of its residual from class 0 to class 1; δ = epsilon · scale.
Almost every table has no row at a kink, and there every formula holds exactly; a row at one has two derivatives, one on
each side. `distance_to_kink` is how far a margin is from it. A row with a = r = 0 does not move the weights at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.losses.loss import Squared
from dosimeter.glm.losses.scalar_loss import ScalarLoss, TargetKind, TwoClassLoss, refuse_parameter, register


@register
@dataclass(frozen=True)
class SquaredHinge(TwoClassLoss):
    """The squared hinge of LinearSVC with y in {0, 1}: max(0, 1 - s m)², s = ±1 the class.

    Examples
    --------
    >>> SquaredHinge().value(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([0.25, 0.  ])
    >>> SquaredHinge().distance_to_kink(np.array([0.5, 2.0]), np.array([1.0, 1.0]))
    array([0.5, 1. ])
    """

    name = "squared-hinge"
    default_model = "LinearSVC(C=1.0)"
    has_kinks = True

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(y * np.maximum(1 - m, 0.0) ** 2 + (1 - y) * np.maximum(1 + m, 0.0) ** 2)

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(2 * ((1 - y) * np.maximum(1 + m, 0.0) - y * np.maximum(1 - m, 0.0)))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(2.0 * (y * (m < 1) + (1 - y) * (m > -1)))

    def scoring_curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """The largest curvature: a step with it never overshoots."""
        return np.full_like(m, 2.0)

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """Almost everywhere."""
        return np.zeros_like(m)

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """The step of the residual from class 0 to class 1."""
        return np.asarray(2 * (np.maximum(1 - m, 0.0) + np.maximum(1 + m, 0.0)))

    def distance_to_kink(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """Class 1 has its kink at m = 1, class 0 at -1, a soft target both."""
        of_one, of_zero = np.abs(1 - m), np.abs(1 + m)
        return np.minimum(np.where(y > 0, of_one, np.inf), np.where(y < 1, of_zero, np.inf))

    def residual_size(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.abs(self.residual(m, y)) + self.curvature(m, y)

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """At a minimiser n λ|w|²/2 <= Σ l(0) = n, so |m| <= R √(2/λ) and |r| <= 2(1 + |m|)."""
        return 2 * row_norm * (1 + row_norm * math.sqrt(2.0 / l2))


class RobustRegression(ScalarLoss):
    """What losses of u = m - y with two kinks at ±width share."""

    target = TargetKind.NUMBER
    score_name = "R²"
    has_expected_score = True
    steepest_prediction = 1.0

    @property
    def _width(self) -> float:
        raise TypeError("a subclass says where the kinks are")

    def check(self, y: FloatArray) -> None:
        """Accepts any finite target."""

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """Almost everywhere."""
        return np.zeros_like(m)

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return self.curvature(m, y)

    def distance_to_kink(self, m: FloatArray, y: FloatArray) -> FloatArray:
        distance = np.abs(np.abs(m - y) - self._width)
        return distance if self.has_kinks else np.full_like(distance, np.inf)

    def link(self, y: FloatArray) -> FloatArray:
        return y

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        return m, np.ones_like(m)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The loss grows without bound in both directions."""
        return np.zeros_like(y), np.ones_like(y)

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the variance explained."""
        return Squared().score(m, y)

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        return Squared().expected_score(m, y, variance)


@register
@dataclass(frozen=True)
class SquaredEpsilonInsensitive(RobustRegression):
    """The loss of LinearSVR(loss="squared_epsilon_insensitive"): max(0, |m - y| - ε)².

    Parameters
    ----------
    epsilon : float, default 0
        ε >= 0: errors up to it cost nothing. With 0 the loss is the square and has no kink.

    Raises
    ------
    Refusal
        If epsilon is not a finite number >= 0.

    Examples
    --------
    >>> SquaredEpsilonInsensitive(0.5).residual(np.array([0.3, 3.0]), np.array([0.2, 1.0]))
    array([0., 3.])
    """

    epsilon: float = 0.0
    name = "squared-epsilon-insensitive"
    default_model = "LinearSVR(C=1.0, loss='squared_epsilon_insensitive')"
    uses_target_bound = True

    def __post_init__(self) -> None:
        refuse_parameter("epsilon", self.epsilon, positive=False)

    @property
    def has_kinks(self) -> bool:
        return self.epsilon > 0

    @property
    def _width(self) -> float:
        return self.epsilon

    def _excess(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.maximum(np.abs(m - y) - self.epsilon, 0.0)

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(self._excess(m, y) ** 2)

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.asarray(2 * np.copysign(self._excess(m, y), m - y))

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.where(np.abs(m - y) >= self.epsilon, 2.0, 0.0)

    def scoring_curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """The largest curvature: a step with it never overshoots."""
        return np.full_like(m, 2.0)

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """At a minimiser n λ|w|²/2 <= Σ l(0) <= n (Y - ε)₊², so |m| <= R √(2/λ) (Y - ε)₊ and |r| <= 2(|m| + Y - ε)₊."""
        if target_bound is None:
            raise CannotMeasure(
                f"the {self.name} loss has no bounded gradient unless the targets are bounded too: pass target_bound, "
                "chosen without looking at the table"
            )
        beyond = max(target_bound - self.epsilon, 0.0)
        return 2 * row_norm * beyond * (1 + row_norm * math.sqrt(2.0 / l2))


@register
@dataclass(frozen=True)
class Huber(RobustRegression):
    """Huber's loss with a given scale: u²/2 up to δ = epsilon · scale, then linear with slope δ.

    Parameters
    ----------
    epsilon : float, default 1.35
        How many scales an error may have before it counts as an outlier.
    scale : float, default 1
        σ, a constant. HuberRegressor estimates it together with the weights, which is another problem; with σ held its
        objective is 2/σ times this one, so that its penalty is nλ = σ · alpha.

    Raises
    ------
    Refusal
        If a parameter is not a finite number > 0.

    Examples
    --------
    >>> Huber(epsilon=1.5, scale=2.0).residual(np.array([1.0, 9.0]), np.zeros(2))
    array([1., 3.])
    """

    epsilon: float = 1.35
    scale: float = 1.0
    name = "huber"
    has_kinks = True

    def __post_init__(self) -> None:
        refuse_parameter("epsilon", self.epsilon)
        refuse_parameter("scale", self.scale)

    @property
    def _width(self) -> float:
        return self.epsilon * self.scale

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        inside = np.minimum(np.abs(m - y), self._width)
        return np.asarray(inside * (np.abs(m - y) - 0.5 * inside))

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.clip(m - y, -self._width, self._width)

    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        return np.where(np.abs(m - y) <= self._width, 1.0, 0.0)

    def scoring_curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """r/u, of the parabola that touches the loss and lies above it: a step with it never overshoots."""
        return np.asarray(self._width / np.maximum(np.abs(m - y), self._width))

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """|r| <= δ."""
        return self._width * row_norm
