"""[Hannun21-v1]: what the first version says about its own notion, compared with numbers; and eq. 10 of both versions.

`irfil_as_printed` is Algorithm 1 of the first version, whose line 6 lacks a square root. It exists only here:
`glm.irfil` is that of the later version.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.integrate import quad

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Gaussian
from dosimeter.glm.reweighting.irfil import reweight
from dosimeter.reproductions.comparison import Row, claim
from dosimeter.reproductions.hannun21_table import ONE, ROUNDS, ImageStudy

CONVERGED = 0.02
"""Standard deviation over mean below which all η count as equal, as for figure 5."""
RELEASES = 4
SIGMA = 2.0


def rows(four: Sequence[ImageStudy]) -> list[Row]:
    """The definition, its composition, Algorithm 1 on the four models of Table 1, and the sentence under eq. 10."""
    definition, algorithm = quick_rows(four[0]), map(algorithm_row, four)
    return [*definition[:-1], *algorithm, definition[-1]]


def quick_rows(study: ImageStudy) -> list[Row]:
    """The same without Algorithm 1, whose reweightings take minutes."""
    return [*definition_rows(study), *composition_rows(study), biased_row(study)]


def definition_rows(study: ImageStudy) -> list[Row]:
    """Eqs. 2, 3 and 15 of the first version use two different η."""
    noise = Gaussian(SIGMA)
    eta = noise.fisher_information
    variance = quad(lambda x: x**2 * np.exp(noise.logpdf(np.array([x]))[0]), -40, 40)[0]
    return [
        Row(
            "v1 eqs. 2, 3: ‖I‖₂ <= η gives Var >= 1/η²",
            1 / eta**2,
            float(variance),
            1e-6,
            "the two contradict each other: ‖I‖₂ <= η implies Var >= 1/η, as the same section says of the covariance. "
            "The later version has ‖I‖₂ <= η²",
            f"one number released with Gaussian noise of σ = {SIGMA:g}: ‖I‖₂ = {eta:g}, and the release itself, an "
            f"unbiased guess, has variance {variance:.4g}",
        ),
        Row(
            f"v1 eqs. 2, 15: ‖I‖₂ is η = ‖J‖₂/σ (Table 1 {study.title} mean)",
            study.setting.plain[0][0],
            float(np.mean(study.eta**2)),
            study.setting.plain[0][1],
            "‖I‖₂ = ‖J‖₂²/σ²: Table 1 prints the root, so it is in the notation of the later version",
            f"mean of ‖I‖₂ {np.mean(study.eta**2):.3g}, of its root {np.mean(study.eta):.4f}",
        ),
    ]


def composition_rows(study: ImageStudy) -> list[Row]:
    """2.1: k releases cost kη, or Ση."""
    # k releases with noise σ reveal as much as their mean with σ/√k, a sufficient statistic.
    combined = glm.measure(study.fit, study.split.X, study.y, Gaussian(RELEASES**-0.5)).examples
    factor = float(np.median(combined / study.eta))
    why = (
        "‖I‖₂ adds, hence η² if η = ‖J‖₂/σ: √k η, and (Ση²)^½ in general. Ση is right only for the η of eq. 2, which "
        "no printed number uses"
    )
    measured = f"highest η of {study.title}: {study.eta.max():.4f} for one release, {combined.max():.4f} for {RELEASES}"
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


def irfil_as_printed(study: ImageStudy, rounds: int = ROUNDS) -> FloatArray:
    """(rounds + 1, 2) mean and standard deviation of η if ω is divided by ‖I‖₂ = η², line 6 of the first version."""
    X, y, setting = study.split.X, study.y, study.setting
    weight, start, history = np.ones(len(y)), None, []
    for _ in range(rounds + 1):
        fitted = glm.fit(X, y, setting.loss, setting.l2, sample_weight=weight, start=start)
        eta = glm.measure(fitted, X, y, ONE).examples
        history.append((float(eta.mean()), float(eta.std(ddof=1))))
        weight, start = reweight(weight, eta**2), fitted.w
    return np.array(history)


def algorithm_row(study: ImageStudy) -> Row:
    """Whether Algorithm 1 without the root makes the η equal."""
    history = irfil_as_printed(study)
    ratio = history[:, 1] / history[:, 0]
    ours = study.reweighting.history
    converges = bool(ratio[-1] < CONVERGED)
    return claim(
        f"v1 Algorithm 1 as printed, {study.title}: the η converge to the same value",
        converges,
        f"standard deviation over mean of η: {ratio[0]:.2f} at 0, {ratio[1]:.2f} at 1, {ratio[2]:.2f} at 2, "
        f"{ratio[ROUNDS]:.2f} at {ROUNDS} (required: below {CONVERGED}, as for figure 5); with the root "
        f"{ours[-1, 1] / ours[-1, 0]:.1e}",
        None
        if converges
        else "line 6 has ‖I‖₂ without its root: ω is divided by η², but η itself is nearly proportional to ω, so each "
        "step overshoots by as much as it should correct. The later version has the root",
    )


def biased_row(study: ImageStudy) -> Row:
    """Under eq. 10: a biased guess of one number "will not yield a smaller mean squared error"."""
    least = 1 / float(study.eta.max()) ** 2
    constant = float(np.mean(study.y**2))
    reach = 1 / float(study.eta.max())
    return Row(
        "Eq. 10: the least mean squared error of any guess of one value, biased or not",
        least,
        constant,
        0.0,
        f"a constant has no variance: its only error is its bias, so anyone who knows the value to within 1/η = "
        f"{reach:.3g} in advance beats every unbiased guess. Eq. 10 is a sum of two terms, not a bound by the first",
        f"{study.title}, σ = 1: every unbiased guess of any one value of any row has a mean squared error of at least "
        f"1/η² = {least:.3g}; the guess 0, always, of a target in {{-1, 1}} has {constant:.3g}",
    )
