"""[Zari22] 5.3: releases by the four mechanisms of Table 1 over ε, the attack on each, and the energy each captures.

All are simulations with a seed: the scales are those of the product's mechanisms, the noise is drawn on the lower
triangle and mirrored. `pca.release` would also account each release, which is not needed here. δ = 1/N. As in the
paper, bounds and norms are taken from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dosimeter import pca
from dosimeter.core.arrays import FloatArray
from dosimeter.noise_addition import simulate
from dosimeter.pca.bounds import Bounds
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.mechanisms import AnalyticGaussian
from dosimeter.pca.published_mechanisms import AnalyzeGauss, LaplaceAdvanced, LaplaceScalar, LaplaceVector
from dosimeter.pca.utility import explained_variance, random_subspace, rank_for_variance
from dosimeter.reproductions.zari22_attack import half_interval
from dosimeter.reproductions.zari22_data import TableStudy

NAIVE, VECTOR, ADVANCED, AG, OURS = "naive", "vector", "advanced", "Analyze Gauss", "analytic Gauss (ours)"
LAPLACE = (NAIVE, VECTOR, ADVANCED)
WIDE = tuple(10.0**e for e in range(-1, 8))
"""5.3: ε of the Laplace mechanisms, 1e-1 to 1e7."""
NARROW = (0.01, 0.1, 1.0)
"""5.3: ε of Analyze Gauss, 0.01 to 1."""
FURTHER = (*NARROW, 10.0, 100.0)
"""Ours, with a scale that is proved at every ε and for a replaced row."""
ENERGY = 0.9
"""5.3: k is the least whose exact components capture 90 % of the energy."""

_MECHANISMS: dict[str, Callable[[TableStudy, float], tuple[Mechanism, Bounds]]] = {
    NAIVE: lambda s, e: (LaplaceScalar(e), s.box),
    VECTOR: lambda s, e: (LaplaceVector(e), s.box),
    ADVANCED: lambda s, e: (LaplaceAdvanced(e, s.delta), s.box),
    AG: lambda s, e: (AnalyzeGauss(e, s.delta), s.ball),
    OURS: lambda s, e: (AnalyticGaussian(e, s.delta), s.ball),
}


@dataclass(frozen=True, eq=False)
class Outcome:
    """One mechanism at one ε in several trials."""

    auc: FloatArray
    """(trials, d) at k = 1, ..., d."""
    energy: FloatArray
    """(trials,) q."""

    @property
    def maxima(self) -> FloatArray:
        """(trials,) largest AUC over k."""
        return np.asarray(self.auc.max(axis=1))

    @property
    def mean(self) -> float:
        """Mean of the largest AUC."""
        return float(self.maxima.mean())

    @property
    def half(self) -> float:
        """Half the 95 % interval of that mean."""
        return half_interval(self.maxima)

    @property
    def q(self) -> float:
        """Mean captured energy."""
        return float(self.energy.mean())


@dataclass(frozen=True, eq=False)
class PrivateStudy:
    """One table: every mechanism at every ε, the exact components, and two controls."""

    study: TableStudy
    outcomes: dict[tuple[str, float], Outcome]
    exact: FloatArray
    """(trials,) largest AUC over k against the exact components: ε = ∞."""
    k: FloatArray
    """(trials,) components at 90 % energy."""
    control: FloatArray
    """(trials,) expected q of as many random directions."""
    chance: FloatArray
    """(deals,) mean over the trials of the largest AUC over k, against components of pure noise, with dealt names."""

    def outcome(self, name: str, epsilon: float) -> Outcome:
        """The outcome of one mechanism at one ε."""
        return self.outcomes[name, epsilon]

    def grid(self, name: str) -> tuple[float, ...]:
        """The ε of a mechanism, ascending."""
        return tuple(sorted(e for n, e in self.outcomes if n == name))

    def gain(self, q: float) -> float:
        """How far q is on the way from random directions (0) to the exact components (1)."""
        control = float(self.control.mean())
        return (q - control) / (1 - control)

    @property
    def chance_95(self) -> float:
        """The value that chance stays below in 95 % of the deals."""
        return float(np.quantile(self.chance, 0.95, method="higher"))


def grids(quick: bool) -> dict[str, Sequence[float]]:
    """ε of each mechanism; quick: five powers of ten, including those that 5.3 names."""
    wide = (1.0, 1e2, 1e4, 1e6, 1e7) if quick else WIDE
    return {NAIVE: wide, VECTOR: wide, ADVANCED: wide, AG: NARROW, OURS: (1.0, 10.0) if quick else FURTHER}


def private_study(study: TableStudy, quick: bool = False) -> PrivateStudy:
    """All releases of one table."""
    cells = [(name, e) for name, epsilons in grids(quick).items() for e in epsilons]
    trials = [_trial(study, trial, cells) for trial in range(study.trials)]
    outcomes = {
        cell: Outcome(
            np.array([result.auc[cell] for result in trials]), np.array([result.energy[cell] for result in trials])
        )
        for cell in cells
    }
    exact, k, control = (np.array([getattr(result, name) for result in trials]) for name in ("exact", "k", "control"))
    return PrivateStudy(study, outcomes, exact, k, control, np.mean([result.chance for result in trials], axis=0))


@dataclass(frozen=True, eq=False)
class _Trial:
    auc: dict[tuple[str, float], FloatArray]
    energy: dict[tuple[str, float], float]
    exact: float
    k: int
    control: float
    chance: FloatArray


def _trial(study: TableStudy, trial: int, cells: Sequence[tuple[str, float]]) -> _Trial:
    members, strangers, rng = study.split(study.N, trial)
    A = pca.second_moment(members)
    exact_components = pca.components(A)
    k = rank_for_variance(exact_components.values, ENERGY)
    auc, energy = {}, {}
    for cell in cells:
        mechanism, bounds = _MECHANISMS[cell[0]](study, cell[1])
        scales = mechanism.scales(bounds.over(study.d), study.N)
        noisy = pca.components(A + mirrored_noise(mechanism, scales, rng))
        auc[cell] = _pad(pca.auc_by_components(noisy, members, strangers), study.d)
        energy[cell] = explained_variance(A, noisy.vectors, k)
    noise_components = pca.components(mirrored_noise(AnalyzeGauss(1.0, study.delta), np.ones_like(A), rng))
    band = pca.null_band(noise_components, members, strangers, rng)
    exact = float(pca.auc_by_components(exact_components, members, strangers).max())
    return _Trial(auc, energy, exact, k, random_subspace(A, k), band.maxima)


def _pad(auc: FloatArray, d: int) -> FloatArray:
    """(d,): components beyond the rank are not of the data, and no row has a residual left: 1/2."""
    return np.concatenate([auc, np.full(d - len(auc), 0.5)])


def mirrored_noise(mechanism: Mechanism, scales: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(d, d) symmetric noise of the mechanism's law with these scales (d, d); none if a scale is 0. A simulation."""
    lower = np.tril_indices(len(scales))
    N = np.zeros_like(scales)
    N[lower] = simulate(np.zeros(len(lower[0])), mechanism.law(1.0), rng) * scales[lower]  # type: ignore[call-arg]
    return np.asarray(N + np.tril(N, -1).T)
