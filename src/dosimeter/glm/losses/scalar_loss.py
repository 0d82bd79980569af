"""What a loss of one margin must define, and the registry of those that do.

A loss is a scalar function l(m, y) of the margin m = w·x and the target; everything that depends on the loss is in its
class. `loss.py` lists the losses.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.special import ndtr

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
    >>> from dosimeter import glm
    >>> glm.LOSSES["squared"]().value(np.array([3.0]), np.array([1.0]))
    array([2.])
    """

    name: ClassVar[str]
    """Its name on the command line, in results and in files."""
    target: ClassVar[TargetKind]
    """What it predicts."""
    score_name: ClassVar[str]
    """Name of its score."""
    steepest_prediction: ClassVar[float] = math.inf
    """The largest slope of `prediction` at any margin: what an answer can say at most, whatever the weights are."""
    canonical: ClassVar[bool] = False
    """Whether the target enters the residual as -y, so that c = 1."""
    quadratic: ClassVar[bool] = False
    """Whether l is (m - y)²/2: one Newton step is exact, and the Hessian does not depend on the weights."""
    uses_target_bound: ClassVar[bool] = False
    """Whether `gradient_bound` needs a bound on the targets."""
    penalised_mean: ClassVar[bool] = False
    """Whether scikit-learn penalises the mean over the rows instead of the sum: λ = 1 instead of 1/n."""

    # Read-only properties, because they may depend on the parameters of a loss; a class attribute overrides them.

    @property
    def has_expected_score(self) -> bool:
        """Whether `expected_score` has a formula; otherwise releases are simulated."""
        return False

    @property
    def default_model(self) -> str:
        """scikit-learn's default model with this loss; its penalty is used if none is given."""
        return ""

    @property
    def convex(self) -> bool:
        """Whether the curvature is never negative. If it is not, a fit is a local minimum with H positive definite."""
        return True

    @property
    def has_kinks(self) -> bool:
        """Whether the curvature jumps at some margins; it may then be zero on whole intervals."""
        return False

    @property
    def lowest_margin(self) -> float:
        """The loss is infinite at margins up to this one: 0 if the link is defined for positive margins only."""
        return -math.inf

    @property
    def description(self) -> str:
        """The name with the parameters, if there are any: 'huber(epsilon=1.35, scale=1)'."""
        values = {f.name.removesuffix("_function"): getattr(self, f.name) for f in _parameters(self)}
        shown = [f"{name}={v}" if isinstance(v, str) else f"{name}={v:g}" for name, v in values.items()]
        return f"{self.name}({', '.join(shown)})" if shown else self.name

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
        """d²l/dm², of the row as it was observed."""

    def scoring_curvature(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """A curvature > 0 for a step where the observed Hessian is not positive definite: the expected curvature
        (Fisher scoring), or an upper bound of it.
        """
        return self.curvature(m, y)

    def distance_to_kink(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """How far each margin may move before the curvature jumps; infinite for a smooth loss."""
        return np.full(np.broadcast(m, y).shape, np.inf)

    def residual_size(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """The size of the terms of the residual, by which its rounding is judged."""
        return np.abs(self.residual(m, y)) + np.abs(self.target_derivative(m, y) * y)

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

    def prediction(self, m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The predicted mean μ(m), the probability of class 1 for two classes, and its derivative by the margin."""
        raise CannotMeasure(f"the {self.name} loss predicts no mean or probability: release margins or labels")

    @abstractmethod
    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n,) signs s and (n,) fixed: the loss never rises along w iff s m >= 0 everywhere and m = 0 on the fixed
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
        If something is missing, a parameter has no default, or another loss has the name.

    Notes
    -----
    `LOSSES[name]()` is the loss with its defaults. A loss with parameters is a frozen dataclass: `Huber(epsilon=2.0)`
    is registered because its class is.

    Examples
    --------
    >>> from dosimeter import glm
    >>> sorted(glm.LOSSES)[:5]
    ['cloglog', 'gamma', 'huber', 'inverse-gaussian', 'logistic']
    """
    missing = [name for name in ("name", "target", "score_name") if not hasattr(loss, name)]
    missing += sorted(getattr(loss, "__abstractmethods__", ()))
    if not (loss.canonical or loss.target_derivative is not ScalarLoss.target_derivative):
        missing.append("target_derivative (or canonical = True)")
    missing += [
        f"a default of {f.name}" for f in _parameters(loss) if f.default is MISSING and f.default_factory is MISSING
    ]
    if missing:
        raise Refusal(f"the loss {loss.__name__} cannot be registered: it lacks {', '.join(missing)}")
    if LOSSES.get(loss.name, loss) is not loss:
        raise Refusal(f"a loss is already registered as {loss.name!r}: {LOSSES[loss.name].__name__}")
    LOSSES[loss.name] = loss
    return loss


def is_registered(loss: Any) -> bool:
    """Whether this is a registered loss of one margin; a class derived from one is another loss."""
    return isinstance(loss, ScalarLoss) and LOSSES.get(getattr(loss, "name", "")) is type(loss)


def _parameters(loss: Any) -> tuple[Field[Any], ...]:
    """The parameters of a loss, or of its class."""
    return fields(loss) if is_dataclass(loss) else ()


def first_row(bad: Mask) -> int:
    """The first row that is marked."""
    return int(np.flatnonzero(bad)[0])


def refuse_parameter(name: str, value: float, positive: bool = True) -> None:
    """Refuse a parameter that is not a finite number > 0 (or >= 0)."""
    number = isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)
    if not number or not (0 < value < math.inf or (value == 0 and not positive)):
        raise Refusal(f"{name} must be a finite number {'>' if positive else '>='} 0, not {value!r}")


class TwoClassLoss(ScalarLoss):
    """What losses of two classes share: y l(m) + (1 - y) l'(m) with y in {0, 1}, and a threshold."""

    target = TargetKind.TWO_CLASSES
    score_name = "accuracy"
    threshold: ClassVar[float] = 0.0
    """The margin above which class 1 is predicted."""

    def check(self, y: FloatArray) -> None:
        """Targets must be in [0, 1]."""
        bad = (y < 0) | (y > 1)
        if bad.any():
            row = first_row(bad)
            raise Refusal(f"{type(self).__name__} needs targets between 0 and 1; row {row} has {y[row]:g}: use 0 and 1")

    def link(self, y: FloatArray) -> FloatArray:
        return np.zeros_like(y)

    def recession(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A row of class 1 tolerates m -> +inf, one of class 0 m -> -inf, a soft target neither."""
        hard = (y == 0) | (y == 1)
        return np.where(hard, 2 * y - 1, 0.0), (~hard).astype(float)

    def residual_size(self, m: FloatArray, y: FloatArray) -> FloatArray:
        """The residual of a class has one term only."""
        return np.where((y == 0.0) | (y == 1.0), np.abs(self.residual(m, y)), super().residual_size(m, y))

    def no_minimiser(self, y: FloatArray) -> str:
        return f"every row has class {y[0]:g}" if np.all(y == 0) or np.all(y == 1) else ""

    @property
    def has_expected_score(self) -> bool:
        return True

    def score(self, m: FloatArray, y: FloatArray) -> float:
        """Share of the rows on the correct side of the threshold."""
        return float(np.mean((m > self.threshold) == (y > 0.5)))

    def base_score(self, y: FloatArray) -> float:
        """The larger class for everyone."""
        ones = float(np.mean(y > 0.5))
        return max(ones, 1.0 - ones)

    def _side(self, m: FloatArray, y: FloatArray) -> FloatArray:
        beyond = m - self.threshold
        return np.where(y > 0.5, beyond, -beyond)

    def expected_score(self, m: FloatArray, y: FloatArray, variance: FloatArray) -> float:
        """P(the correct side of the threshold) = Φ(±(m - threshold)/√variance)."""
        side = self._side(m, y)
        with np.errstate(divide="ignore", invalid="ignore"):
            correct = np.where(variance > 0, ndtr(side / np.sqrt(variance)), side > 0)
        return float(correct.mean())

    def score_curve(
        self, m: FloatArray, y: FloatArray, squares: FloatArray, variance: float
    ) -> Callable[[float], float]:
        side = self._side(m, y) / np.sqrt(variance * squares)
        return lambda s: float(ndtr(side / s).mean())
