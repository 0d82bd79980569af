"""Results of attacks, each with a confidence interval and a control."""

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
from dosimeter.core.html_table import html_table
from dosimeter.core.notion import Standing


class AttackResult(ABC):
    """The figure of an attack, its confidence interval, and the figure of a guess made without the release.

    Attributes
    ----------
    attack : str
        The name of the attack.
    measure : str
        What the figure is: "accuracy" or "AUC".
    standing : Standing
        Always a lower bound: success shows what is possible, failure proves nothing.

    Notes
    -----
    The base class of `Guesses` and `Scores`. The figure of an attack is evidence and is never added to a dose.

    Examples
    --------
    >>> result = Scores("membership", np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5, 0.0]))
    >>> isinstance(result, AttackResult), result.beats_control, result.standing.value
    (True, False, 'lower bound')
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
        """The confidence interval of the figure."""

    @property
    @abstractmethod
    def control_figure(self) -> float:
        """The same measure for a guess made without the release."""

    @property
    def beats_control(self) -> bool:
        """Whether the whole interval lies above the control."""
        return self.interval.low > self.control_figure

    def to_dict(self) -> dict[str, Any]:
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

    def _repr_html_(self) -> str:
        """For a notebook. Internal: it is computed from the data."""
        low, high, level = self.interval
        rows: list[tuple[str, object]] = [
            (self.measure, self.figure),
            (f"interval at {level:.0%}", f"{low:.4g} to {high:.4g}"),
            ("without the release", self.control_figure),
            ("beats the control", "yes" if self.beats_control else "no"),
            ("standing", self.standing.value),
        ]
        return html_table(f"Attack: {self.attack}", rows)


@dataclass(frozen=True, eq=False, repr=False)
class Guesses(AttackResult):
    """Guesses of one of several values for each row, from each of several independent releases.

    Parameters
    ----------
    attack : str
        The name of the attack.
    guesses : int array (releases, rows)
        Number of the guessed value.
    truths : int array (rows,)
        Number of the true value.
    control : int array (rows,)
        Number of the value guessed without the release: the likeliest by the prior, or from all other data.
    level : float
        Confidence level of the interval.
    method : str
        How the guess was made, as text: which form, which refits.

    Raises
    ------
    Refusal
        If the shapes do not match or there are no guesses.

    Notes
    -----
    The figure is the accuracy over all releases and rows, as in section 6.4 of [Hannun21].

    Examples
    --------
    >>> Guesses("inversion", np.array([[0, 1, 1], [0, 1, 0]]), np.array([0, 1, 0]), np.array([0, 0, 0]))
    <inversion: accuracy 0.8333 [0.08709, 1] at 95%, control 0.6667, lower bound>
    """

    attack: str
    guesses: NDArray[np.integer[Any]]
    truths: NDArray[np.integer[Any]]
    control: NDArray[np.integer[Any]]
    level: float = 0.95
    method: str = ""

    measure: ClassVar[str] = "accuracy"

    def __post_init__(self) -> None:
        guesses, truths, control = (np.array(v) for v in (self.guesses, self.truths, self.control))
        if guesses.ndim != 2 or not guesses.size or not truths.shape == control.shape == guesses.shape[1:]:
            raise Refusal("guesses must be (releases, rows) and not empty, with one truth and one control per row")
        for name, value in (("guesses", guesses), ("truths", truths), ("control", control)):
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def by_release(self) -> FloatArray:
        """(releases,) accuracy of each release over the rows."""
        return np.asarray(np.mean(self.guesses == self.truths, axis=1))

    @property
    def by_row(self) -> FloatArray:
        """(rows,) accuracy of each row over the releases."""
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
        """Interval of the expected accuracy over the noise, for these rows: Clopper-Pearson on independent trials.

        All rows of one release share its noise, so rows x releases are far from independent. The number of independent
        trials is the one at which a binomial accuracy would vary between releases as the observed one does, with a
        t-quantile for the small number of releases (Korn and Graubard 1998). It is at most the number of guesses and at
        least the number of releases. With one release the interval is over rows, for that release alone.
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
        correction = (t.ppf(tails, releases * rows - 1) / t.ppf(tails, releases - 1)) ** 2
        wanted = p * (1 - p) / variance * correction if variance > 0 else np.inf
        return float(np.clip(wanted, releases, releases * rows))

    def by_part(self, order_by: Any, parts: int = 10) -> FloatArray:
        """(parts, releases) accuracy in equal parts of the rows ordered by `order_by` (rows,), such as deciles of η."""
        key = np.asarray(order_by, dtype=np.float64)
        if key.shape != self.truths.shape or not np.isfinite(key).all() or not 1 <= parts <= len(key):
            raise Refusal(
                f"order_by needs a finite number for each of {len(self.truths)} rows, in 1 to that many parts"
            )
        hits = self.guesses == self.truths
        order = np.argsort(key, kind="stable")
        return np.array([hits[:, part].mean(axis=1) for part in np.array_split(order, parts)])


@dataclass(frozen=True, eq=False, repr=False)
class Scores(AttackResult):
    """Scores of members and of strangers; a higher score is evidence of membership.

    Parameters
    ----------
    attack : str
        The name of the attack.
    members : array (k,)
        Scores of people whose data was used, k >= 2.
    strangers : array (l,)
        Scores of people whose data was not used, l >= 2.
    level : float
        Confidence level of the interval.
    method : str
        How the scores were computed, as text.

    Raises
    ------
    Refusal
        If there are fewer than two scores of either kind, or one is nan.

    Notes
    -----
    The figure is the AUC, P(member > stranger) + ½ P(equal), with DeLong's interval on the logit scale.

    Examples
    --------
    >>> Scores("membership", np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5, 0.0]))
    <membership: AUC 0.8889 [0.2614, 0.9945] at 95%, control 0.5, lower bound>
    """

    attack: str
    members: FloatArray
    strangers: FloatArray
    level: float = 0.95
    method: str = ""

    measure: ClassVar[str] = "AUC"

    def __post_init__(self) -> None:
        for name in ("members", "strangers"):
            value = np.array(getattr(self, name), dtype=np.float64)
            if value.ndim != 1 or len(value) < 2 or np.isnan(value).any():
                raise Refusal(f"{name} must have at least two scores, none of them nan")
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def figure(self) -> float:
        """P(a member scores above a stranger), ties counted half."""
        return roc.auc(self.members, self.strangers, self.level)[0]

    @property
    def interval(self) -> Interval:
        """DeLong's interval, on the logit scale."""
        return roc.auc(self.members, self.strangers, self.level)[1]

    @property
    def control_figure(self) -> float:
        """0.5, a coin toss."""
        return 0.5

    def curve(self) -> tuple[FloatArray, FloatArray]:
        """(t,) false and true positive rates."""
        return roc.curve(self.members, self.strangers)

    def tpr(self, fpr: float) -> tuple[float, Interval]:
        """True positive rate at this false positive rate, with its interval; the control is `fpr` itself."""
        return roc.tpr_at(self.members, self.strangers, fpr, self.level)
