"""What an attack achieved, always with an interval and beside a control."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dosimeter.attacks import roc
from dosimeter.attacks.roc import Interval
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing


class AttackResult(ABC):
    """The noun: a figure, its confidence interval, and what an adversary gets who never looks at the release.

    Success shows what is possible, failure proves nothing: the standing is always "lower bound". An attack's figure is
    evidence and is never summed.
    """

    standing: ClassVar[Standing] = Standing.LOWER_BOUND
    measure: ClassVar[str]
    attack: str

    @property
    @abstractmethod
    def figure(self) -> float:
        """The accuracy or the AUC."""

    @property
    @abstractmethod
    def interval(self) -> Interval:
        """Confidence interval of the figure."""

    @property
    @abstractmethod
    def control_figure(self) -> float:
        """The same measure of somebody who does not see the release."""

    @property
    def beats_control(self) -> bool:
        """Whether the whole interval lies above the control."""
        return self.interval.low > self.control_figure

    def facts(self) -> dict[str, Any]:
        """Plain values for a report."""
        low, high, level = self.interval
        return {
            "attack": self.attack,
            "measure": self.measure,
            "figure": self.figure,
            "low": low,
            "high": high,
            "level": level,
            "control": self.control_figure,
            "beats_control": self.beats_control,
            "standing": self.standing.value,
        }

    def __repr__(self) -> str:
        low, high, level = self.interval
        return (
            f"<{self.attack}: {self.measure} {self.figure:.4g} [{low:.4g}, {high:.4g}] at {level:.0%}, "
            f"control {self.control_figure:.4g}, {self.standing.value}>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Guesses(AttackResult):
    """Guesses of one of several values for each row, from each of several independent releases.

    >>> Guesses("inversion", np.array([[0, 1, 1], [0, 1, 0]]), np.array([0, 1, 0]), np.array([0, 0, 0]))
    <inversion: accuracy 0.8333 [0.08709, 1] at 95%, control 0.6667, lower bound>
    """

    attack: str
    guesses: NDArray[np.integer[Any]]
    """(releases, rows) number of the guessed value."""
    truths: NDArray[np.integer[Any]]
    """(rows,) number of the true one."""
    control: NDArray[np.integer[Any]]
    """(rows,) number of the value guessed without the release: the likeliest by the prior, or from everything else."""
    level: float = 0.95
    how: str = ""
    """How the guess was made, in words: which form, which refits."""

    measure: ClassVar[str] = "accuracy"

    def __post_init__(self) -> None:
        guesses, truths, control = (np.array(v) for v in (self.guesses, self.truths, self.control))
        if guesses.ndim != 2 or not guesses.size or not truths.shape == control.shape == guesses.shape[1:]:
            raise Refusal("guesses are (releases, rows) and not empty, with a truth and a control for each row")
        for name, value in (("guesses", guesses), ("truths", truths), ("control", control)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def by_release(self) -> FloatArray:
        """(releases,) accuracy over the rows, release by release."""
        return np.asarray(np.mean(self.guesses == self.truths, axis=1))

    @property
    def by_row(self) -> FloatArray:
        """(rows,) how often each row was guessed, over the releases."""
        return np.asarray(np.mean(self.guesses == self.truths, axis=0))

    @property
    def figure(self) -> float:
        """Accuracy over all releases and rows."""
        return float(self.by_release.mean())

    @property
    def control_figure(self) -> float:
        """Accuracy of the guess without the release."""
        return float(np.mean(self.control == self.truths))

    @property
    def interval(self) -> Interval:
        """Of the accuracy expected over the noise, for these rows: Clopper-Pearson on the number of independent trials.

        All rows of one release meet the same noise, so rows x releases are far from independent. Their number is the
        one at which a binomial would vary between releases as the accuracy does, with a t-quantile for the few releases
        (Korn and Graubard 1998); never more than all guesses, never fewer than the releases, whose accuracies are
        independent. With one release nothing is known of the noise: the interval is over rows, for that release alone.
        """
        releases, rows = self.guesses.shape
        p = self.figure
        return roc.proportion(p * (trials := self._trials(p, releases, rows)), trials, self.level)

    def _trials(self, p: float, releases: int, rows: int) -> float:
        if releases == 1:
            return float(rows)
        if p in (0.0, 1.0):
            return float(releases)
        from scipy.stats import t

        variance = float(self.by_release.var(ddof=1)) / releases
        tails = 1 - (1 - self.level) / 2
        few = (t.ppf(tails, releases * rows - 1) / t.ppf(tails, releases - 1)) ** 2
        wanted = p * (1 - p) / variance * few if variance > 0 else np.inf
        return float(np.clip(wanted, releases, releases * rows))

    def by_part(self, order_by: Any, parts: int = 10) -> FloatArray:
        """(parts, releases) accuracy in parts of equal size along `order_by` (rows,), lowest first: deciles of η."""
        key = np.asarray(order_by, dtype=np.float64)
        if key.shape != self.truths.shape or not np.isfinite(key).all() or not 1 <= parts <= len(key):
            raise Refusal(f"one finite number for each of the {len(self.truths)} rows is needed, in 1 to as many parts")
        hits = self.guesses == self.truths
        order = np.argsort(key, kind="stable")
        return np.array([hits[:, part].mean(axis=1) for part in np.array_split(order, parts)])


@dataclass(frozen=True, eq=False, repr=False)
class Scores(AttackResult):
    """Scores of members and of strangers; a higher score speaks for membership.

    >>> Scores("membership", np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5, 0.0]))
    <membership: AUC 0.8889 [0.2614, 0.9945] at 95%, control 0.5, lower bound>
    """

    attack: str
    members: FloatArray
    """(k,)."""
    strangers: FloatArray
    """(l,)."""
    level: float = 0.95
    how: str = ""

    measure: ClassVar[str] = "AUC"

    def __post_init__(self) -> None:
        for name in ("members", "strangers"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or len(value) < 2 or np.isnan(value).any():
                raise Refusal(f"{name} need at least two scores, none of them nan")
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def figure(self) -> float:
        """P(a member scores above a stranger), ties by half."""
        return roc.auc(self.members, self.strangers, self.level)[0]

    @property
    def interval(self) -> Interval:
        """DeLong's, on the logit scale."""
        return roc.auc(self.members, self.strangers, self.level)[1]

    @property
    def control_figure(self) -> float:
        """A coin: 0.5."""
        return 0.5

    def curve(self) -> tuple[FloatArray, FloatArray]:
        """(t,) false and true positive rates."""
        return roc.curve(self.members, self.strangers)

    def tpr(self, fpr: float) -> tuple[float, Interval]:
        """True positive rate at a low false positive rate, with its interval; the control is the rate itself."""
        return roc.tpr_at(self.members, self.strangers, fpr, self.level)
