"""[Hannun21] 6.1 and Table 1: the images, the four models, mean and standard deviation of η, and accuracy.

6.1: inputs in the unit ball, twenty principal components, σ = 1, no intercept. Linear regression on targets -1 and 1
without a penalty; logistic regression with λ = 8e-4 (MNIST) and 8e-5 (CIFAR-10). IRFIL: fifteen reweightings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import eigsh

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import Gaussian
from dosimeter.datasets.papers import Split, cifar_planes_and_cars, mnist_zeros_and_ones
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.newton import Loss
from dosimeter.glm.reweighting.irfil import Reweighting
from dosimeter.reproductions.comparison import Row

COMPONENTS = 20
ROUNDS = 15
ONE = Gaussian(1.0)


def in_principal_components(raw: Split) -> Split:
    """6.1: divide by the largest row norm (the test set by its own), centre, project on twenty components."""
    X, X_test = (x / np.linalg.norm(x, axis=1).max() for x in (raw.X, raw.X_test))
    centre = X.mean(axis=0)
    X, X_test = X - centre, X_test - centre
    # A fixed starting vector: the default one comes from a global generator.
    _, axes = eigsh(X.T @ X, k=COMPONENTS, v0=np.ones(X.shape[1]))
    return Split(X @ axes, raw.y, X_test @ axes, raw.y_test)


def targets(y: FloatArray, signed: bool) -> FloatArray:
    """y in {0, 1}, or in {-1, 1}."""
    return 2 * y - 1 if signed else y


PrintedNumber = tuple[float, float]
"""A printed number and half of its last printed digit."""


@dataclass(frozen=True)
class ModelSetting:
    """Two lines of Table 1: one model, without and with IRFIL."""

    label: str
    loss: Loss
    l2: float
    signed: bool
    """Targets -1 and 1 instead of 0 and 1."""
    plain: tuple[PrintedNumber, PrintedNumber, PrintedNumber]
    """Mean of η, its standard deviation, accuracy in per cent."""
    reweighted: tuple[PrintedNumber, PrintedNumber, PrintedNumber]
    why_mean: str | None = None


_CIFAR_MEAN = (
    "0.26 is not reproduced: 0.2474 by three routes (fast solver, dense SVD, the authors' published program), although "
    "standard deviation and accuracy agree. No explanation is known"
)
_MNIST, _CIFAR = 5e-4, 5e-3  # half of the last printed digit of η
SETTINGS: dict[str, tuple[Callable[[Path], Split], tuple[ModelSetting, ...]]] = {
    "mnist": (
        mnist_zeros_and_ones,
        (
            ModelSetting(
                "linear", glm.Squared(), 0.0, True,
                ((0.040, _MNIST), (0.014, _MNIST), (100.0, 0.5)), ((0.047, _MNIST), (0.0, _MNIST), (99.8, 0.05)),
            ),
            ModelSetting(
                "logistic", glm.Logistic(), 8e-4, False,
                ((0.027, _MNIST), (0.012, _MNIST), (99.8, 0.05)), ((0.024, _MNIST), (0.0, _MNIST), (99.7, 0.05)),
            ),
        ),
    ),
    "cifar": (
        cifar_planes_and_cars,
        (
            ModelSetting(
                "linear", glm.Squared(), 0.0, True,
                ((0.26, _CIFAR), (0.08, _CIFAR), (79.8, 0.05)), ((0.30, _CIFAR), (0.0, _CIFAR), (80.7, 0.05)),
                _CIFAR_MEAN,
            ),
            ModelSetting(
                "logistic", glm.Logistic(), 8e-5, False,
                ((0.32, _CIFAR), (0.15, _CIFAR), (79.9, 0.05)), ((0.25, _CIFAR), (0.0, _CIFAR), (79.1, 0.05)),
            ),
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ImageStudy:
    """One model on one image set; fits and doses are computed when first needed."""

    name: str
    setting: ModelSetting
    raw: Split
    """Pixels in [0, 1]."""
    split: Split
    """Twenty components."""

    @property
    def title(self) -> str:
        """For example `linear mnist`."""
        return f"{self.setting.label} {self.name}"

    @cached_property
    def y(self) -> FloatArray:
        """(n,) the model's targets."""
        return targets(self.split.y, self.setting.signed)

    @cached_property
    def fit(self) -> Fit:
        """The model without weights."""
        return glm.fit(self.split.X, self.y, self.setting.loss, self.setting.l2)

    @cached_property
    def eta(self) -> FloatArray:
        """(n,) η at σ = 1."""
        return glm.measure(self.fit, self.split.X, self.y, ONE).examples

    @cached_property
    def reweighting(self) -> Reweighting:
        """IRFIL from ω = 1, always fifteen reweightings."""
        setting = self.setting
        return glm.irfil(self.split.X, self.y, setting.loss, setting.l2, rounds=ROUNDS, tolerance=0.0)

    def of_class(self, label: int) -> FloatArray:
        """η of one class."""
        return np.asarray(self.eta[self.split.y == label])

    def accuracy(self, fit: Fit) -> float:
        """Per cent, on the test rows."""
        right = (self.split.X_test @ fit.w > 0) == (self.split.y_test > 0.5)
        return 100 * float(right.mean())


def studies(data: Path) -> dict[str, tuple[ImageStudy, ...]]:
    """By image set: the linear model, then the logistic one."""
    by_name = {}
    for name, (load, settings) in SETTINGS.items():
        raw = load(data)
        split = in_principal_components(raw)
        by_name[name] = tuple(ImageStudy(name, setting, raw, split) for setting in settings)
    return by_name


def plain_rows(study: ImageStudy) -> list[Row]:
    """The line of Table 1 without IRFIL."""
    return _compare(study, "", study.eta, study.fit, study.setting.plain, study.setting.why_mean)


def reweighted_rows(study: ImageStudy) -> list[Row]:
    """The line +IRFIL of Table 1."""
    reweighting = study.reweighting
    return _compare(study, " +IRFIL", reweighting.eta, reweighting.fit, study.setting.reweighted, None)


def _compare(
    study: ImageStudy, kind: str, eta: FloatArray, fit: Fit, printed: tuple[PrintedNumber, ...], why: str | None
) -> list[Row]:
    figure = f"Table 1 {study.title}{kind}"
    ours = (float(eta.mean()), float(eta.std(ddof=1)), study.accuracy(fit))
    names = ("mean", "standard deviation", "accuracy")
    reasons, measured = (why, None, None), (_averages(study, eta) if why else "", "", "")
    return [
        Row(f"{figure} {name}", paper, value, half, reason, measurement)
        for name, value, (paper, half), reason, measurement in zip(names, ours, printed, reasons, measured, strict=True)
    ]


def _averages(study: ImageStudy, eta: FloatArray) -> str:
    """Other averages of η: several are near the printed mean, so none explains it."""
    root = float(np.sqrt(np.mean(eta**2)))
    mean_of_ones = float(eta[study.split.y == 1].mean())
    return (
        f"near the printed value are the mean over the second class only, {mean_of_ones:.4f}, and the root mean "
        f"square over all, {root:.4f}: two candidates explain nothing"
    )


LADDER = tuple(m * 10.0**k for k in range(-6, 0) for m in range(1, 10))
"""λ with one digit, as in the paper."""


def rule_rows(linear: ImageStudy, logistic: ImageStudy) -> list[Row]:
    """6.1: λ is the largest value for which the training accuracy equals linear regression's in two digits."""
    wanted = _two_digits(linear.fit, linear.split.y)
    fits = {l2: glm.fit(logistic.split.X, logistic.y, logistic.setting.loss, l2) for l2 in LADDER}
    l2 = max(v for v, fit in fits.items() if _two_digits(fit, logistic.split.y) == wanted)
    fit, used = fits[l2], logistic.setting.l2
    eta = glm.measure(fit, logistic.split.X, logistic.y, ONE).examples
    (mean, half_mean), (deviation, half_deviation), (accuracy, half_accuracy) = logistic.setting.plain
    why = (
        f"Table 1 is reproduced at λ = {used:g}; 6.1's rule allows λ up to {l2:g} (of one digit), where the training "
        f"accuracy is {100 * _training_accuracy(fit, linear.split.y):.2f} % and still rounds (half up) to {wanted} %"
    )
    also = f"at the λ of the row above: {l2:g} instead of {used:g}"
    name = f"6.1 rule for λ, {logistic.title}"
    return [
        Row(f"{name}: λ", used, l2, 0.0, why, "no λ is printed; the paper's column is the one that reproduces Table 1"),
        Row(f"{name}: mean of Table 1", mean, float(eta.mean()), half_mean, also),
        Row(f"{name}: standard deviation of Table 1", deviation, float(eta.std(ddof=1)), half_deviation, also),
        Row(f"{name}: accuracy of Table 1", accuracy, logistic.accuracy(fit), half_accuracy, also),
    ]


def _two_digits(fit: Fit, y: FloatArray) -> int:
    """Training accuracy in whole per cent, halves up; in integers, because 78.50 % occurs."""
    right = round(_training_accuracy(fit, y) * len(y))
    return (200 * right + len(y)) // (2 * len(y))


def _training_accuracy(fit: Fit, y: FloatArray) -> float:
    """Training accuracy."""
    return float(np.mean((fit.margin > 0) == (y > 0.5)))
