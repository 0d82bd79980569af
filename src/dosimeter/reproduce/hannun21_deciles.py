"""[Hannun21] 6.4 and figure 7: IRFIL of one attribute, and the white box over the deciles of the first η."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from dosimeter import glm
from dosimeter.attacks.result import Guesses
from dosimeter.core.arrays import FloatArray
from dosimeter.datasets.papers import Split, adult
from dosimeter.glm.attribute_inversion import moves
from dosimeter.glm.irfil import Reweighting
from dosimeter.reproduce.comparison import Row, claim
from dosimeter.reproduce.hannun21_table import ONE
from dosimeter.reproduce.hannun21_warfarin import patients, unit_draws

SIGMA = 1e-3
SHOWN = (0, 2, 10)
"""Iterations of figure 7."""


@dataclass(frozen=True, eq=False)
class Deciles:
    """One data set of figure 7."""

    name: str
    split: Split
    columns: list[int]
    l2: float

    @cached_property
    def reweighting(self) -> Reweighting:
        """IRFIL of the attribute, ten reweightings."""
        X, y = self.split.X, self.split.y
        return glm.irfil(X, y, glm.Squared(), self.l2, rounds=max(SHOWN), columns=self.columns, tolerance=0.0)

    @cached_property
    def guesses(self) -> dict[int, Guesses]:
        """By iteration: the white box of eq. 30, which holds the weights fixed."""
        X, y, path = self.split.X, self.split.y, self.reweighting.path
        noise = SIGMA * unit_draws(X.shape[1])
        return {t: glm.white_box(path[t].fit, X, y, self.columns, noise) for t in SHOWN}

    @cached_property
    def accuracy(self) -> dict[int, FloatArray]:
        """By iteration: (10, 100) accuracy of the white box in the deciles of the first η, release by release."""
        return {t: told.by_part(self.reweighting.path[0].eta) for t, told in self.guesses.items()}

    def means(self, iteration: int) -> FloatArray:
        """(10,) accuracy of each decile."""
        return np.asarray(self.accuracy[iteration].mean(axis=1))


def warfarin(data: Path) -> Deciles:
    """VKORC1 of the patients, λ = 1e-2 (6.4)."""
    split, columns = patients(data)
    return Deciles("IWPC", split, columns, 1e-2)


def census(data: Path) -> Deciles:
    """Marital status in Adult, targets -1 and 1, λ = 1e-3: the paper prints no λ here."""
    names, split = adult(data)
    signed = Split(split.X, 2 * split.y - 1, split.X_test, 2 * split.y_test - 1)
    return Deciles("Adult", signed, [names.index("unmarried")], 1e-3)


def rows(told: Deciles) -> list[Row]:
    """Every claim about figure 7, for one data set."""
    history = told.reweighting.history
    ratio = history[:, 1] / history[:, 0]
    means = {t: told.means(t) for t in SHOWN}
    spans = {t: float(np.ptp(m)) for t, m in means.items()}
    first = means[0]
    safe_list = {t: ", ".join(f"{v:.3f}" for v in m) for t, m in means.items()}
    name = f"Figure 7 {told.name}"
    return [
        claim(
            f"{name}: the η rapidly converge to the same value",
            bool((np.diff(history[:, 1]) < 0).all() and ratio[10] < 0.05),
            f"standard deviation over mean {ratio[0]:.3f} at 0, {ratio[2]:.3f} at 2, {ratio[10]:.4f} at 10; "
            f"η̄ {history[0, 0]:.3g} to {history[-1, 0]:.3g}",
        ),
        claim(
            f"{name}: the highest decile is first much more susceptible than the lowest",
            first[-1] > first[0] + 0.3,
            f"white box at σ = {SIGMA:g}: {safe_list[0]}",
        ),
        claim(
            f"{name}: after two iterations the accuracies flatten substantially",
            spans[2] < spans[0] / 2,
            f"{safe_list[2]}; from lowest to highest {spans[0]:.3f} before, {spans[2]:.3f} now",
        ),
        claim(
            f"{name}: after ten iterations they are nearly constant",
            spans[10] < 0.1 and spans[10] < spans[0] / 4,
            f"{safe_list[10]}; from lowest to highest {spans[10]:.3f}",
        ),
    ]


def unequal(told: Guesses) -> float:
    """Standard deviation over the individuals of the chance to be guessed, the trials' own variance taken off."""
    rate, trials = told.by_row, len(told.guesses)
    chance = np.mean(rate * (1 - rate)) / (trials - 1)
    return float(np.sqrt(max(rate.var(ddof=1) - chance, 0.0)))


def individual_row(told: Deciles) -> Row:
    """The conclusion of 6.4, individual by individual instead of by deciles of the first η."""
    before, after = (unequal(told.guesses[t]) for t in (0, 10))
    return claim(
        f"6.4 {told.name}: IRFIL can equalize vulnerability to the white box across individuals",
        after < before / 2,
        f"standard deviation over individuals of the chance to be guessed: {before:.3f} before, {after:.3f} after ten "
        "iterations (asked: less than half)",
        None
        if after < before / 2
        else "the means of the deciles are level, the individuals inside them are not: η measures the most telling "
        f"direction, a guess depends on how far the nearest other candidate's model lies, and {_nearest(told)}",
    )


def _nearest(told: Deciles) -> str:
    """How the distance to the nearest other candidate's model varies after IRFIL, and goes with being guessed."""
    fit = told.reweighting.fit
    away = moves(fit, told.split.X, told.split.y, told.columns, np.arange(fit.n))
    nearest = np.sort(np.linalg.norm(away, axis=2), axis=1)[:, 1]  # the true candidate is at 0
    rank = float(spearmanr(nearest, told.guesses[10].by_row)[0])
    return f"that still varies by {nearest.std() / nearest.mean():.0%} (rank correlation with the chance {rank:.2f})"


def pipeline_row(told: Deciles) -> Row:
    """The same conclusion, with the weights' own dependence on the data counted."""
    honest = glm.honest_leakage(told.reweighting, told.split.X, told.split.y, ONE)
    true, ratio = honest.units, honest.ratio
    return claim(
        f"6.4 {told.name}: after IRFIL the attribute's η is equal through the whole pipeline",
        bool(true.max() < 1.05 * true.min()),
        f"η with the weights as constants: equal to {told.reweighting.unevenness:.1e}; through the whole pipeline "
        f"{true.mean():.5f} ± {true.std(ddof=1):.5f}, true over reported {ratio.min():.2f} to {ratio.max():.2f}",
        "the attack of figure 7 refits with the weights held fixed; they are functions of the data, and what the whole "
        "pipeline tells about a person is not equal",
    )
