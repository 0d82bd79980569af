"""Guesses of one level of an attribute: recall and precision.

If a level is rare (one patient in fifty is HIV positive), always guessing the common level is right for nearly
everyone, so accuracy says nothing about the rare level. Recall (the share of its people that are named) and precision
(the share of those named that have it) do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.attacks import roc
from dosimeter.attacks.result import Guesses
from dosimeter.attacks.roc import Interval
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal


@dataclass(frozen=True)
class Share:
    """The share of hits among trials, its interval, and the same share without the release."""

    figure: float | None
    """None without trials: no person was named."""
    interval: Interval | None
    control: float | None


@dataclass(frozen=True)
class LevelGuesses:
    """How well one level was guessed.

    Attributes
    ----------
    level : int
        Number of the level among the candidates.
    share : float
        Share of the rows that have it: the recall and the precision of naming as many rows at random.
    recall : Share
        Share of the rows with this level that were named; the interval is over the noise, for these rows.
    precision : Share
        Share of the rows named that have this level.
    """

    level: int
    share: float
    recall: Share
    precision: Share

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a report."""
        out: dict[str, Any] = {"share": self.share}
        for name, rate in (("recall", self.recall), ("precision", self.precision)):
            low, high = (None, None) if rate.interval is None else (rate.interval.low, rate.interval.high)
            out |= {name: rate.figure, f"{name}_low": low, f"{name}_high": high, f"{name}_control": rate.control}
        return out


def level_guesses(guesses: Guesses, level: int) -> LevelGuesses:
    """Recall and precision of one level, over all releases.

    Parameters
    ----------
    guesses : Guesses
        The guesses of an attack, with the truth and the control.
    level : int
        A number of `guesses.truths`.

    Returns
    -------
    LevelGuesses
        Recall and precision with intervals, beside those of the control.

    Raises
    ------
    Refusal
        If no row has the level.

    Examples
    --------
    >>> guesses = Guesses("inversion", np.array([[1, 1, 0, 0], [1, 0, 0, 0]]), np.array([1, 0, 0, 0]), np.zeros(4, int))
    >>> rare = level_guesses(guesses, 1)
    >>> rare.recall.figure, rare.precision.figure, rare.share, rare.recall.control
    (1.0, 0.6666666666666666, 0.25, 0.0)
    """
    has = np.asarray(guesses.truths == level)
    if not has.any():
        raise Refusal(f"no row has level {level}: there is nothing to guess")
    named, blind = np.asarray(guesses.guesses == level), np.asarray(guesses.control == level)
    hits, holders = (named & has).sum(axis=1).astype(float), np.full(len(named), float(has.sum()))
    by_chance = float((blind & has).sum())
    return LevelGuesses(
        level,
        float(has.mean()),
        _share(hits, holders, by_chance / float(has.sum()), guesses.level),
        _share(hits, named.sum(axis=1).astype(float), by_chance / float(blind.sum()) if blind.any() else None,
               guesses.level),
    )  # fmt: skip


def rarest_level_guesses(guesses: Guesses) -> LevelGuesses:
    """`level_guesses` of the rarest level that occurs; the first of several.

    Parameters
    ----------
    guesses : Guesses
        The guesses of an attack, with the truth and the control.

    Returns
    -------
    LevelGuesses
        Recall and precision with intervals, beside those of the control.

    Examples
    --------
    >>> rarest_level_guesses(Guesses("inversion", np.array([[1, 1, 0]]), np.array([1, 0, 0]), np.zeros(3, int))).level
    1
    """
    counts = np.bincount(np.asarray(guesses.truths, dtype=np.intp))
    return level_guesses(guesses, int(np.argmin(np.where(counts > 0, counts, counts.sum() + 1))))


def _share(hits: FloatArray, trials: FloatArray, control: float | None, level: float) -> Share:
    """Hits (releases,) among trials (releases,), pooled; Clopper-Pearson on the number of independent trials.

    All rows of one release share its noise, so they are not independent. The number of independent trials is the one at
    which a binomial share would vary between releases as the pooled share does (estimated by the jackknife over
    releases), with a t-quantile for the small number of releases (Korn and Graubard 1998). It is at most the number of
    trials and at least the effective number of releases, (Σ trials)² / Σ trials².
    """
    total, releases = float(trials.sum()), len(hits)
    if not total:
        return Share(None, None, control)
    p, effective = float(hits.sum()) / total, total**2 / float(np.sum(trials**2))
    count = total if releases == 1 else effective
    if releases > 1 and 0 < p < 1 and float(trials.max()) < total:
        from scipy.stats import t

        without = (hits.sum() - hits) / (total - trials)
        variance = (releases - 1) / releases * float(np.sum((without - p) ** 2))
        tails = 1 - (1 - level) / 2
        correction = (t.ppf(tails, max(total - 1, 1.0)) / t.ppf(tails, max(effective - 1, 1.0))) ** 2
        wanted = p * (1 - p) / variance * correction if variance > 0 else np.inf
        count = float(np.clip(wanted, min(effective, total), total))
    return Share(p, roc.proportion(p * count, count, level), control)
