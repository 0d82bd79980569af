"""The losses of a linear model with one margin m = w·x: three scalar functions each.

| loss     | value                 | residual r = dl/dm | curvature a = d²l/dm² | label c = -d²l/dm dy |
| Squared  | (m - y)²/2    (eq. 20)| m - y              | 1                     | 1                    |
| Logistic | log(1+eᵐ) - ym (eq. 23)| s(m) - y          | s(m) s(-m)            | 1                    |
| Poisson  | eᵐ - ym               | eᵐ - y             | eᵐ                    | 1                    |

All three are canonical, so c = 1: the label enters the gradient as -y x (eq. 22 and 27 of [Hannun21]).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal


def _first(bad: Mask) -> int:
    return int(np.flatnonzero(bad)[0])


@dataclass(frozen=True)
class Squared:
    """Linear regression, (m - y)²/2.

    >>> Squared().residual(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name = "squared"

    def check(self, y: FloatArray) -> None:
        """Any finite target will do."""

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) eq. 20."""
        return 0.5 * (m - y) ** 2

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) dl/dm."""
        return m - y

    def curvature(self, m: FloatArray) -> FloatArray:
        """(n,) d²l/dm²."""
        return np.ones_like(m)

    def link(self, y: FloatArray) -> FloatArray:
        """(n,) a margin that suits y: where Newton starts."""
        return y

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) signs s and (n,) fixed: the loss stays bounded along w iff s m >= 0 everywhere and m = 0 on the
        fixed rows. A square is bounded along no direction that moves a margin: every row is fixed."""
        return np.zeros_like(y), np.ones_like(y)


@dataclass(frozen=True)
class Logistic:
    """Logistic regression with y in {0, 1} (soft labels between them are allowed), eq. 23.

    >>> Logistic().residual(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    name = "logistic"

    def check(self, y: FloatArray) -> None:
        """Labels lie in [0, 1]."""
        bad = (y < 0) | (y > 1)
        if bad.any():
            raise Refusal(
                f"Logistic needs labels between 0 and 1; row {_first(bad)} has {y[_first(bad)]:g}: use 0 and 1"
            )

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) eq. 23, without cancellation at large margins of the right sign."""
        return (1 - y) * np.logaddexp(0.0, m) + y * np.logaddexp(0.0, -m)

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """(n,) s(m) - y, as (1-y) s(m) - y s(-m): relatively exact where s(m) is next to 1."""
        return np.asarray((1 - y) * expit(m) - y * expit(-m))

    def curvature(self, m: FloatArray) -> FloatArray:
        """(n,) s(m) s(-m), eq. 25."""
        return np.asarray(expit(m) * expit(-m))

    def link(self, y: FloatArray) -> FloatArray:
        return np.zeros_like(y)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row of class 1 tolerates m -> +inf, one of class 0 m -> -inf, a soft label neither."""
        hard = (y == 0) | (y == 1)
        return np.where(hard, 2 * y - 1, 0.0), (~hard).astype(float)


@dataclass(frozen=True)
class Poisson:
    """Poisson regression with the log link, eᵐ - ym, y >= 0.

    >>> Poisson().curvature(np.array([0.0]))
    array([1.])
    """

    name = "poisson"

    def check(self, y: FloatArray) -> None:
        """Counts (or rates) are not negative."""
        if (y < 0).any():
            raise Refusal(f"Poisson needs targets >= 0; row {_first(y < 0)} has {y[_first(y < 0)]:g}")

    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # an infinite value makes the line search step back
            return np.exp(m) - y * m

    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(m) - y

    def curvature(self, m: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return np.exp(m)

    def link(self, y: FloatArray) -> FloatArray:
        return np.log(y + 0.5)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row with y = 0 tolerates m -> -inf; a row with y > 0 must keep its margin."""
        return np.where(y == 0, -1.0, 0.0), (y > 0).astype(float)


ScalarLoss = Squared | Logistic | Poisson
