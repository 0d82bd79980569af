"""Guesses of one level of an attribute: recall and precision.

Where a level is rare (one patient in fifty is HIV positive), somebody who always guesses the common one is right for
nearly everybody, so accuracy says nothing of the rare. What a guess of the rare level is worth is said by how many of
its people are named (recall), and by how many of those named are (precision).
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
    """A share of hits among trials, its interval, and the same of somebody who never saw the release."""

    figure: float | None
    """None where there was no trial: nobody was named."""
    interval: Interval | None
    control: float | None


@dataclass(frozen=True)
class LevelGuesses:
    """How well one level was guessed."""

    level: int
    """Number of the level among the candidates."""
    share: float
    """How many rows have it: recall and precision of naming as many rows at random."""
    recall: Share
    """Of the rows with this level, those named; the interval is over the noise, for these rows."""
    precision: Share
    """Of the rows named, those with this level."""

    def facts(self) -> dict[str, Any]:
        """Plain values for a report."""
        out: dict[str, Any] = {"share": self.share}
        for name, one in (("recall", self.recall), ("precision", self.precision)):
            low, high = (None, None) if one.interval is None else (one.interval.low, one.interval.high)
            out |= {name: one.figure, f"{name}_low": low, f"{name}_high": high, f"{name}_control": one.control}
        return out


def of_level(guesses: Guesses, level: int) -> LevelGuesses:
    """Recall and precision of one level (a number of `truths`), over all releases.

    >>> seen = Guesses("inversion", np.array([[1, 1, 0, 0], [1, 0, 0, 0]]), np.array([1, 0, 0, 0]), np.zeros(4, int))
    >>> found = of_level(seen, 1)
    >>> found.recall.figure, found.precision.figure, found.share, found.recall.control
    (1.0, 0.6666666666666666, 0.25, 0.0)
    """
    has = np.asarray(guesses.truths == level)
    if not has.any():
        raise Refusal(f"no row has level {level}: there is nothing to find")
    named, blind = np.asarray(guesses.guesses == level), np.asarray(guesses.control == level)
    hits, held = (named & has).sum(axis=1).astype(float), np.full(len(named), float(has.sum()))
    by_chance = float((blind & has).sum())
    return LevelGuesses(
        level,
        float(has.mean()),
        _share(hits, held, by_chance / float(has.sum()), guesses.level),
        _share(hits, named.sum(axis=1).astype(float), by_chance / float(blind.sum()) if blind.any() else None,
               guesses.level),
    )  # fmt: skip


def rarest(guesses: Guesses) -> LevelGuesses:
    """`of_level` of the level that fewest rows have, of those that somebody has; the first of equals."""
    counts = np.bincount(np.asarray(guesses.truths, dtype=np.intp))
    return of_level(guesses, int(np.argmin(np.where(counts > 0, counts, counts.sum() + 1))))


def _share(hits: FloatArray, trials: FloatArray, control: float | None, level: float) -> Share:
    """Hits (releases,) among trials (releases,), pooled; Clopper-Pearson on the number of independent trials.

    All rows of one release meet the same noise, so that number is the one at which a binomial would vary between
    releases as the pooled share does, which the jackknife over releases says, with a t-quantile for the few releases
    (Korn and Graubard 1998). It is never more than all trials, and never fewer than the releases that carry them,
    (Σ trials)² / Σ trials²: one release that names everybody counts for one.
    """
    total, releases = float(trials.sum()), len(hits)
    if not total:
        return Share(None, None, control)
    p, carry = float(hits.sum()) / total, total**2 / float(np.sum(trials**2))
    count = total if releases == 1 else carry
    if releases > 1 and 0 < p < 1 and float(trials.max()) < total:
        from scipy.stats import t

        without = (hits.sum() - hits) / (total - trials)
        variance = (releases - 1) / releases * float(np.sum((without - p) ** 2))
        tails = 1 - (1 - level) / 2
        few = (t.ppf(tails, max(total - 1, 1.0)) / t.ppf(tails, max(carry - 1, 1.0))) ** 2
        wanted = p * (1 - p) / variance * few if variance > 0 else np.inf
        count = float(np.clip(wanted, min(carry, total), total))
    return Share(p, roc.proportion(p * count, count, level), control)
