"""[Hannun21] 6.4 and figure 7: IRFIL of one attribute, and the white box by deciles of the initial η."""

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
from dosimeter.glm.attacks.attribute_inversion import moves
from dosimeter.glm.reweighting.irfil import Reweighting
from dosimeter.reproductions.comparison import Row, claim
from dosimeter.reproductions.hannun21_table import ONE
from dosimeter.reproductions.hannun21_warfarin import patients, unit_draws

SIGMA = 1e-3
SHOWN_ITERATIONS = (0, 2, 10)
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
        return glm.irfil(
            X, y, glm.Squared(), self.l2, rounds=max(SHOWN_ITERATIONS), columns=self.columns, tolerance=0.0
        )

    @cached_property
    def guesses(self) -> dict[int, Guesses]:
        """By iteration: the white box of eq. 30, with the weights fixed."""
        X, y, path = self.split.X, self.split.y, self.reweighting.path
        noise = SIGMA * unit_draws(X.shape[1])
        return {t: glm.white_box(path[t].fit, X, y, self.columns, noise) for t in SHOWN_ITERATIONS}

    @cached_property
    def accuracy(self) -> dict[int, FloatArray]:
        """By iteration: (10, 100) accuracy of the white box in the deciles of the initial η, per release."""
        return {t: guesses.by_part(self.reweighting.path[0].eta) for t, guesses in self.guesses.items()}

    def means(self, iteration: int) -> FloatArray:
        """(10,) accuracy of each decile."""
        return np.asarray(self.accuracy[iteration].mean(axis=1))


def warfarin(data: Path) -> Deciles:
    """VKORC1 of the patients, λ = 1e-2 (6.4)."""
    split, columns = patients(data)
    return Deciles("IWPC", split, columns, 1e-2)


def census(data: Path) -> Deciles:
    """Marital status in Adult, targets -1 and 1, λ = 1e-3: the paper prints no λ for it."""
    names, split = adult(data)
    signed = Split(split.X, 2 * split.y - 1, split.X_test, 2 * split.y_test - 1)
    return Deciles("Adult", signed, [names.index("unmarried")], 1e-3)


def rows(study: Deciles) -> list[Row]:
    """Every claim about figure 7, for one data set."""
    history = study.reweighting.history
    ratio = history[:, 1] / history[:, 0]
    means = {t: study.means(t) for t in SHOWN_ITERATIONS}
    spans = {t: float(np.ptp(m)) for t, m in means.items()}
    first = means[0]
    accuracies = {t: ", ".join(f"{v:.3f}" for v in m) for t, m in means.items()}
    name = f"Figure 7 {study.name}"
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
            f"white box at σ = {SIGMA:g}: {accuracies[0]}",
        ),
        claim(
            f"{name}: after two iterations the accuracies flatten substantially",
            spans[2] < spans[0] / 2,
            f"{accuracies[2]}; from lowest to highest {spans[0]:.3f} before, {spans[2]:.3f} now",
        ),
        claim(
            f"{name}: after ten iterations they are nearly constant",
            spans[10] < 0.1 and spans[10] < spans[0] / 4,
            f"{accuracies[10]}; from lowest to highest {spans[10]:.3f}",
        ),
    ]


def inequality(guesses: Guesses) -> float:
    """Standard deviation over individuals of the chance to be guessed, corrected for the variance of the trials."""
    rate, trials = guesses.by_row, len(guesses.guesses)
    chance = np.mean(rate * (1 - rate)) / (trials - 1)
    return float(np.sqrt(max(rate.var(ddof=1) - chance, 0.0)))


def individual_row(study: Deciles) -> Row:
    """The conclusion of 6.4, by individual instead of by deciles of the initial η."""
    before, after = (inequality(study.guesses[t]) for t in (0, 10))
    return claim(
        f"6.4 {study.name}: IRFIL can equalize vulnerability to the white box across individuals",
        after < before / 2,
        f"standard deviation over individuals of the chance to be guessed: {before:.3f} before, {after:.3f} after ten "
        "iterations (required: less than half)",
        None
        if after < before / 2
        else "the means of the deciles are equal, the individuals inside them are not: η measures the most revealing "
        f"direction, a guess depends on how far the nearest other candidate's model is, and {_nearest(study)}",
    )


def _nearest(study: Deciles) -> str:
    """How the distance to the nearest other candidate's model varies after IRFIL, and correlates with being guessed."""
    fit = study.reweighting.fit
    displacements = moves(fit, study.split.X, study.split.y, study.columns, np.arange(fit.n))
    nearest = np.sort(np.linalg.norm(displacements, axis=2), axis=1)[:, 1]  # the true candidate is at 0
    rank = float(spearmanr(nearest, study.guesses[10].by_row)[0])
    return f"that still varies by {nearest.std() / nearest.mean():.0%} (rank correlation with the chance {rank:.2f})"


def pipeline_row(study: Deciles) -> Row:
    """The same conclusion, including the weights' own dependence on the data."""
    leakage = glm.total_leakage(study.reweighting, study.split.X, study.split.y, ONE)
    eta, ratio = leakage.units, leakage.ratio
    return claim(
        f"6.4 {study.name}: after IRFIL the attribute's η is equal through the whole pipeline",
        bool(eta.max() < 1.05 * eta.min()),
        f"η with the weights as constants: equal to {study.reweighting.unevenness:.1e}; through the whole pipeline "
        f"{eta.mean():.5f} ± {eta.std(ddof=1):.5f}, true over reported {ratio.min():.2f} to {ratio.max():.2f}",
        "the attack of figure 7 refits with the weights held fixed; they are functions of the data, and what the whole "
        "pipeline reveals about a person is not equal",
    )
