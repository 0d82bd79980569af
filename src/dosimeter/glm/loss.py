"""The losses of a linear model with one margin m = w·x, one class each, and their registry.

| loss     | value                 | residual r = dl/dm | curvature a = d²l/dm² | target c = -d²l/dm dy |
| Squared  | (m - y)²/2    (eq. 20)| m - y              | 1                     | 1                     |
| Logistic | log(1+eᵐ) - ym (eq. 23)| s(m) - y          | s(m) s(-m)            | 1                     |
| Poisson  | eᵐ - ym               | eᵐ - y             | eᵐ                    | 1                     |

All three are canonical, so c = 1: the target enters the gradient as -y x (eq. 22 and 27 of [Hannun21]). A class holds
everything that depends on the loss; a new one is written and registered in one file (CONTRIBUTING.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.special import expit, ndtr, xlogy

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.category import step_of
from dosimeter.core.errors import CannotMeasure, Refusal


class TargetKind(StrEnum):
    """What a loss predicts.

    Examples
    --------
    >>> TargetKind.TWO_CLASSES.classes, TargetKind.COUNT.classes
    (True, False)
    """

    NUMBER = "number"
    COUNT = "count"
    TWO_CLASSES = "two classes"
    CLASSES = "classes"

    @property
    def classes(self) -> bool:
        """Whether it is one of a few classes rather than a number."""
        return self in (TargetKind.TWO_CLASSES, TargetKind.CLASSES)

    def unit(self, y: FloatArray, otherwise: float) -> float:
        """How much of the target one unit of the figures is: from one class to another, or between two values.

        Classes are 1 apart, or √2 if there are more than two: the length of a step from one indicator to another.
        otherwise: the unit of a number with more than two values.

        >>> TargetKind.NUMBER.unit(np.array([0.0, 3.0, 0.0]), 1.0), TargetKind.NUMBER.unit(np.arange(3.0), 0.5)
        (3.0, 0.5)
        """
        if self is TargetKind.TWO_CLASSES:
            return 1.0
        if self is TargetKind.CLASSES:
            return math.sqrt(2.0)
        return step_of(y) or otherwise


class ScalarLoss(ABC):
    """A loss of one margin; m and y are (n,), and so is every result. `register` adds one to the package.

    Notes
    -----
    Eq. 13 of [Hannun21] sums l(m, y) over the rows, m = w·x. A subclass defines the abstract methods and `name`,
    `target`, `score_name`; the other methods have defaults that refuse.

    Examples
    --------
    >>> LOSSES["squared"]().value(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name: ClassVar[str]
    """Its name on the command line, in results and in files."""
    target: ClassVar[TargetKind]
    """What it predicts."""
    score_name: ClassVar[str]
    """Name of its score."""
    canonical: ClassVar[bool] = False
    """Whether the target enters the residual as -y, so that c = 1."""
    quadratic: ClassVar[bool] = False
    """Whether l is (m - y)²/2: one Newton step is exact, and the Hessian does not depend on the weights."""
    has_expected_score: ClassVar[bool] = False
    """Whether `expected_score` has a formula; otherwise releases are simulated."""
    uses_target_bound: ClassVar[bool] = False
    """Whether `gradient_bound` needs a bound on the targets."""
    default_model: ClassVar[str] = ""
    """scikit-learn's default model with this loss; its penalty is used if none is given."""
    penalised_mean: ClassVar[bool] = False
    """Whether scikit-learn penalises the mean over the rows instead of the sum: λ = 1 instead of 1/n."""

    @abstractmethod
    def check(self, y: FloatArray) -> None:
        """Refuse targets for which this loss has no value."""

    @abstractmethod
    def value(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """l; infinite if it overflows, which makes the line search step back."""

    @abstractmethod
    def residual(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """dl/dm, relatively exact where the fit is good."""

    @abstractmethod
    def curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """d²l/dm² > 0."""

    def third(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """d³l/dm³: how the curvature moves, for the derivative through a reweighting."""
        raise CannotMeasure(f"the third derivative of the {self.name} loss is not defined")

    def target_derivative(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """c = -d²l/dm dy: how the residual falls as the target grows."""
        if not self.canonical:
            raise CannotMeasure(f"the derivative of the {self.name} loss by its target is not defined")
        return np.ones_like(m)

    def residual_change(self, m: FloatArray, t: FloatArray, y: FloatArray) -> FloatArray:
        """dl/dm at m + t minus that at m; arrays that broadcast. Canonical losses do not need the targets for it."""
        return self.residual(m + t, y) - self.residual(m, y)

    @abstractmethod
    def link(self, y: FloatArray) -> FloatArray:
        """A margin that suits y: the start of Newton's method."""

    @abstractmethod
    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) signs s and (n,) fixed: the loss stays bounded along w iff s m >= 0 everywhere and m = 0 on the fixed
        rows. It decides which targets count as separated.
        """

    def no_minimiser(self, y: FloatArray) -> str:
        """Why an unpenalised constant has no finite minimum on these targets, if counting shows it; else ""."""
        return ""

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """L: no row with |x| <= row_norm, |y| <= target_bound has a longer gradient at a minimiser of such rows."""
        raise CannotMeasure(f"no bound on the gradient of the {self.name} loss is known, so no sensitivity is proven")

    @abstractmethod
    def score(self, m: FloatArray, y: FloatArray) -> float:
        """How well margins m predict y; see `score_name`."""

    def base_score(self, y: FloatArray) -> float:
        """The score of one prediction for everyone; 0 if the score is relative to it."""
        return 0.0

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """The expected score over Gaussian noise of this variance on each margin."""
        if np.any(variance):
            raise CannotMeasure(f"the expected score of the {self.name} loss has no formula: simulate releases")
        return self.score(m, y)

    def score_curve(
        self, m: FloatArray, y: FloatArray, squares: FloatArray, variance: float
    ) -> Callable[[float], float]:
        """s -> the expected score under noise of scale s and variance s² · variance · squares on each margin."""
        return lambda s: self.expected_score(m, y, s * s * variance * squares)


LOSSES: dict[str, type[ScalarLoss]] = {}
"""Every loss of one margin, by name."""

L = TypeVar("L", bound=type[ScalarLoss])


def register(loss: L) -> L:
    """Register a loss under its name; a class decorator.

    Parameters
    ----------
    loss : type of ScalarLoss
        A complete subclass.

    Returns
    -------
    type of ScalarLoss
        The class itself.

    Raises
    ------
    Refusal
        If something is missing, or another loss has the name.

    Examples
    --------
    >>> sorted(LOSSES)
    ['logistic', 'poisson', 'squared']
    """
    missing = [name for name in ("name", "target", "score_name") if not hasattr(loss, name)]
    missing += sorted(getattr(loss, "__abstractmethods__", ()))
    if not (loss.canonical or loss.target_derivative is not ScalarLoss.target_derivative):
        missing.append("target_derivative (or canonical = True)")
    if missing:
        raise Refusal(f"the loss {loss.__name__} cannot be registered: it lacks {', '.join(missing)}")
    if LOSSES.get(loss.name, loss) is not loss:
        raise Refusal(f"a loss is already registered as {loss.name!r}: {LOSSES[loss.name].__name__}")
    LOSSES[loss.name] = loss
    return loss


def is_registered(loss: Any) -> bool:
    """Whether this is a registered loss of one margin; a class derived from one is another loss."""
    return isinstance(loss, ScalarLoss) and LOSSES.get(getattr(loss, "name", "")) is type(loss)


def _first(bad: Mask) -> int:
    return int(np.flatnonzero(bad)[0])


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
class Logistic(ScalarLoss):
    """Logistic regression with y in {0, 1} (soft targets between them are allowed), eq. 23 of [Hannun21].

    Examples
    --------
    >>> Logistic().residual(np.array([0.0]), np.array([1.0]))
    array([-0.5])
    """

    name = "logistic"
    target = TargetKind.TWO_CLASSES
    score_name = "accuracy"
    canonical = True
    has_expected_score = True
    default_model = "LogisticRegression(C=1.0)"

    def check(self, y: FloatArray) -> None:
        """Targets must be in [0, 1]."""
        bad = (y < 0) | (y > 1)
        if bad.any():
            raise Refusal(
                f"Logistic needs targets between 0 and 1; row {_first(bad)} has {y[_first(bad)]:g}: use 0 and 1"
            )

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

    def link(self, y: FloatArray) -> FloatArray:
        return np.zeros_like(y)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row of class 1 tolerates m -> +inf, one of class 0 m -> -inf, a soft target neither."""
        hard = (y == 0) | (y == 1)
        return np.where(hard, 2 * y - 1, 0.0), (~hard).astype(float)

    def no_minimiser(self, y: FloatArray) -> str:
        return f"every row has class {y[0]:g}" if np.all(y == 0) or np.all(y == 1) else ""

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        """|s(m) - y| |x| <= R."""
        return row_norm

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the rows on the correct side of 0."""
        return float(np.mean((m > 0) == (y > 0.5)))

    def base_score(self, y: FloatArray) -> float:
        """The larger class for everyone."""
        ones = float(np.mean(y > 0.5))
        return max(ones, 1.0 - ones)

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """P(the correct side of 0) = Φ(±m/√variance)."""
        side = np.where(y > 0.5, m, -m)
        with np.errstate(divide="ignore", invalid="ignore"):
            correct = np.where(variance > 0, ndtr(side / np.sqrt(variance)), side > 0)
        return float(correct.mean())

    def score_curve(
        self, m: FloatArray, y: FloatArray, squares: FloatArray, variance: float
    ) -> Callable[[float], float]:
        side = np.where(y > 0.5, m, -m) / np.sqrt(variance * squares)
        return lambda s: float(ndtr(side / s).mean())


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
            raise Refusal(f"Poisson needs targets >= 0; row {_first(y < 0)} has {y[_first(y < 0)]:g}")

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

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row with y = 0 tolerates m -> -inf; a row with y > 0 must keep its margin."""
        return np.where(y == 0, -1.0, 0.0), (y > 0).astype(float)

    def no_minimiser(self, y: FloatArray) -> str:
        return "every count is zero" if np.all(y == 0) else ""

    def gradient_bound(self, l2: float, row_norm: float, target_bound: float | None) -> float:
        raise CannotMeasure("the gradient of the poisson loss grows without bound, so no sensitivity is proven")

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the deviance explained."""
        return 1.0 - _deviance(y, np.exp(np.minimum(m, 700.0))) / _deviance(y, np.full_like(y, y.mean()))

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """1 - E deviance / deviance of the mean; E log μ = m, E μ = exp(m + variance/2)."""
        with np.errstate(over="ignore"):
            deviance = 2 * np.sum(xlogy(y, y) - y * m - y + np.exp(m + variance / 2))
        return float(1.0 - deviance / (2 * np.sum(xlogy(y, y / y.mean()))))


def _deviance(y: FloatArray, mean: FloatArray) -> float:
    """Poisson deviance Σ 2(y log(y/μ) - y + μ)."""
    return float(2.0 * np.sum(xlogy(y, y / mean) - y + mean))
