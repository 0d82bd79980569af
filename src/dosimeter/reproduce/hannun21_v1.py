"""[Hannun21-v1]: what the first text says of its own notion, held against numbers; and eq. 10, which both texts have.

`as_printed` is Algorithm 1 of the first text, line 6 without its square root. It exists here alone: `glm.irfil` is the
later text's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.integrate import quad

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Gaussian
from dosimeter.glm.irfil import reweighted
from dosimeter.reproduce.comparison import Row, claim
from dosimeter.reproduce.hannun21_table import ONE, ROUNDS, Study

CONVERGED = 0.02
"""Standard deviation over mean below which all η count as one value: that of figure 5's rows."""
RELEASES = 4
SIGMA = 2.0


def rows(four: Sequence[Study]) -> list[Row]:
    """The definition, its composition, Algorithm 1 on the four models of Table 1, and the sentence under eq. 10."""
    return [*definition_rows(four[0]), *composition_rows(four[0]), *map(algorithm_row, four), biased_row(four[0])]


def definition_rows(study: Study) -> list[Row]:
    """Eqs. 2, 3 and 15 of the first text use two different η."""
    noise = Gaussian(SIGMA)
    eta = noise.fisher_information
    variance = quad(lambda x: x**2 * np.exp(noise.logpdf(np.array([x]))[0]), -40, 40)[0]
    return [
        Row(
            "v1 eqs. 2, 3: ‖I‖₂ <= η gives Var >= 1/η²",
            1 / eta**2,
            float(variance),
            1e-6,
            "the two contradict each other: from ‖I‖₂ <= η follows Var >= 1/η, which the same section says of the "
            "covariance. The later text has ‖I‖₂ <= η²",
            f"one number released with Gaussian noise of σ = {SIGMA:g}: ‖I‖₂ = {eta:g}, and the release itself, which "
            f"guesses without bias, has the variance {variance:.4g}",
        ),
        Row(
            f"v1 eqs. 2, 15: ‖I‖₂ is η = ‖J‖₂/σ (Table 1 {study.title} mean)",
            study.setting.plain[0][0],
            float(np.mean(study.eta**2)),
            study.setting.plain[0][1],
            "‖I‖₂ = ‖J‖₂²/σ²: Table 1 prints the root, and so is in the later text's notation",
            f"mean of ‖I‖₂ {np.mean(study.eta**2):.3g}, of its root {np.mean(study.eta):.4f}",
        ),
    ]


def composition_rows(study: Study) -> list[Row]:
    """2.1: k releases cost kη, or Ση."""
    # k releases with noise σ tell what their mean with σ/√k tells: a sufficient statistic.
    together = glm.measure(study.fit, study.split.X, study.y, Gaussian(RELEASES**-0.5)).examples
    factor = float(np.median(together / study.eta))
    why = (
        "what adds is ‖I‖₂, hence η² where η = ‖J‖₂/σ: √k η, and (Ση²)^½ in general. Ση is right for eq. 2's η alone, "
        "which no figure of the paper is in"
    )
    measured = f"highest η of {study.title}: {study.eta.max():.4f} for one release, {together.max():.4f} for {RELEASES}"
    name = f"v1 2.1: {RELEASES} independent releases leak"
    return [
        Row(f"{name} kη, in units of one's η", float(RELEASES), factor, 0.0, why, measured),
        Row(
            f"{name} Ση, σ = 1, 1/2, 1/3, 1/4: highest η",
            float(study.eta.max()) * 10,
            float(glm.measure(study.fit, study.split.X, study.y, Gaussian(30**-0.5)).examples.max()),
            0.0,
            why,
            "η = 1, 2, 3 and 4 times one's: 10 by the sum, √30 by the information",
        ),
    ]


def as_printed(study: Study, rounds: int = ROUNDS) -> FloatArray:
    """(rounds + 1, 2) mean and standard deviation of η where ω is divided by ‖I‖₂ = η², line 6 of the first text."""
    X, y, how = study.split.X, study.y, study.setting
    weight, start, history = np.ones(len(y)), None, []
    for _ in range(rounds + 1):
        fitted = glm.fit(X, y, how.loss, how.l2, sample_weight=weight, start=start)
        eta = glm.measure(fitted, X, y, ONE).examples
        history.append((float(eta.mean()), float(eta.std(ddof=1))))
        weight, start = reweighted(weight, eta**2), fitted.w
    return np.array(history)


def algorithm_row(study: Study) -> Row:
    """Whether Algorithm 1 without the root makes the η equal."""
    history = as_printed(study)
    ratio = history[:, 1] / history[:, 0]
    ours = study.reweighting.history
    converges = bool(ratio[-1] < CONVERGED)
    return claim(
        f"v1 Algorithm 1 as printed, {study.title}: the η converge to the same value",
        converges,
        f"standard deviation over mean of η: {ratio[0]:.2f} at 0, {ratio[1]:.2f} at 1, {ratio[2]:.2f} at 2, "
        f"{ratio[ROUNDS]:.2f} at {ROUNDS} (asked: below {CONVERGED}, as of figure 5); with the root "
        f"{ours[-1, 1] / ours[-1, 0]:.1e}",
        None
        if converges
        else "line 6 has ‖I‖₂ without its root: ω is divided by η² where η itself is nearly proportional to ω, so each "
        "step overshoots by as much as it should correct. The later text has the root",
    )


def biased_row(study: Study) -> Row:
    """Under eq. 10: a guess of one number that is biased "will not yield a smaller mean squared error"."""
    least = 1 / float(study.eta.max()) ** 2
    constant = float(np.mean(study.y**2))
    reach = 1 / float(study.eta.max())
    return Row(
        "Eq. 10: the least mean squared error of any guess of one value, biased or not",
        least,
        constant,
        0.0,
        f"a constant has no variance: it errs by its bias alone, so whoever is within 1/η = {reach:.3g} of the truth "
        "beforehand beats every unbiased guess. Eq. 10 is a sum of two terms, not a bound by the first",
        f"{study.title}, σ = 1: every unbiased guess of any one value of any row has a mean squared error of at least "
        f"1/η² = {least:.3g}; the guess 0, always, of a target in {{-1, 1}} has {constant:.3g}",
    )
