"""The mechanisms for use: noise on the second moment, and on the mean, at a stated (ε, δ).

`pca/published_mechanisms.py` has those of [Zari22] as printed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.noise import Gaussian
from dosimeter.pca.bounds import Box
from dosimeter.pca.calibration import eps_prime, gaussian_deviation, laplace_share
from dosimeter.pca.mechanism import (
    Mechanism,
    entries_of,
    laplace_mean_scale,
    moment_epsilon,
    refuse_no_delta,
    true_sensitivity,
)
from dosimeter.pca.sensitivity import REPLACE


@dataclass(frozen=True)
class LaplaceJoint(Mechanism):
    """Laplace noise with pure ε-differential privacy: one scale for all entries.

    Parameters
    ----------
    epsilon : float
        Budget of the whole release.
    neighbours : {"replace-one", "add-or-remove-one"}
        Neighbour relation; default "replace-one", that of the paper.
    mean_share : float, default 0
        Share of the budget for the mean, at most 0.9. 0 releases no mean.

    Raises
    ------
    Refusal
        If the budget, the relation or the share is invalid.

    Notes
    -----
    Scale Δ₁ / (N ε), Δ₁ the joint sensitivity of all entries in the 1-norm. With a row norm C that is C²(d + 1)/(2 N
    ε), d/2 times less than one query per entry.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> LaplaceJoint(1.0).scales(Bounds(row_norm=1.0).over(2), 100).round(4)[0].tolist()
    [0.03, 0.03]
    """

    neighbours: str = REPLACE
    mean_share: float = 0.0

    def scales(self, box: Box, N: int) -> FloatArray:
        return np.full((box.d, box.d), true_sensitivity(self, box, N).l1 / (N * moment_epsilon(self)))

    def mean_scale(self, box: Box, N: int) -> float:
        return laplace_mean_scale(self, box, N)


@dataclass(frozen=True)
class LaplaceSplit(Mechanism):
    """Laplace noise, one query per entry with the larger of ε/α and ε': never worse than either composition.

    Parameters
    ----------
    epsilon : float
        Budget of the whole release.
    delta : float, default 0
        δ; 0 gives pure ε-differential privacy.
    neighbours, mean_share
        As in `LaplaceJoint`.

    Raises
    ------
    Refusal
        If the budget, the relation or the share is invalid.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> LaplaceSplit(1.0).scales(Bounds(0.0, 1.0).over(2), 100).round(4)[0].tolist()
    [0.0075, 0.015]
    """

    delta: float = 0.0
    neighbours: str = REPLACE
    mean_share: float = 0.0

    def scales(self, box: Box, N: int) -> FloatArray:
        alpha, budget = entries_of(box.d), moment_epsilon(self)
        entry_epsilon = budget / alpha
        if self.delta > 0:
            entry_epsilon = max(entry_epsilon, eps_prime(budget, self.delta, alpha))
        return true_sensitivity(self, box, N).entries / (N * entry_epsilon)

    def mean_scale(self, box: Box, N: int) -> float:
        return laplace_mean_scale(self, box, N)


@dataclass(frozen=True)
class PLDLaplace(Mechanism):
    """The least Laplace noise that its privacy loss distribution allows for (ε, δ) [dp-accounting].

    Parameters
    ----------
    epsilon, delta : float
        Budget of the whole release, delta > 0.
    neighbours, mean_share
        As in `LaplaceJoint`.

    Raises
    ------
    Refusal
        If the budget, the relation or the share is invalid.

    Notes
    -----
    One query per entry, or one for all of them if that is less noise in total, as with a row norm.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> box = Bounds(0.0, 1.0).over(14)
    >>> bool(PLDLaplace(1.0, 1e-3).scales(box, 100)[1, 0] < LaplaceSplit(1.0, 1e-3).scales(box, 100)[1, 0])
    True
    """

    delta: float
    neighbours: str = REPLACE
    mean_share: float = 0.0

    def scales(self, box: Box, N: int) -> FloatArray:
        refuse_no_delta(self.delta)
        moves, lower = true_sensitivity(self, box, N), np.tril_indices(box.d)
        each = moves.entries / (N * laplace_share(moment_epsilon(self), self.delta, entries_of(box.d)))
        joint = np.full_like(each, moves.l1 / (N * laplace_share(moment_epsilon(self), self.delta, 1)))
        return joint if np.linalg.norm(joint[lower]) < np.linalg.norm(each[lower]) else each

    def mean_scale(self, box: Box, N: int) -> float:
        return laplace_mean_scale(self, box, N)


@dataclass(frozen=True)
class AnalyticGaussian(Mechanism):
    """Gaussian noise of the smallest deviation that is (ε, δ)-private, ε from 1e-5 to 1e6 [dp-accounting].

    Parameters
    ----------
    epsilon, delta : float
        Budget of the whole release, delta > 0.
    neighbours : {"replace-one", "add-or-remove-one"}
        Neighbour relation; default "replace-one", that of the paper.
    mean_share : float, default 0
        Share of 1/σ² for the mean, at most 0.9, because Gaussian moves add in squares. 0 releases no mean.

    Raises
    ------
    Refusal
        If the budget, the relation or the share is invalid.

    Notes
    -----
    The sensitivity is that of the declared relation: with a row norm C it is C²/N for a row added or removed, √2 C²/N
    for a row replaced; with bounds alone it is smaller, see docs/explanation/pca.md.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> AnalyticGaussian(1.0, 1e-5).scales(Bounds(row_norm=1.0).over(2), 100).round(4)[0].tolist()
    [0.0528, 0.0528]
    """

    delta: float
    neighbours: str = REPLACE
    mean_share: float = 0.0

    law: ClassVar[type[Density]] = Gaussian

    def scales(self, box: Box, N: int) -> FloatArray:
        unit = self._unit() / math.sqrt(1 - self.mean_share)
        return np.full((box.d, box.d), unit * true_sensitivity(self, box, N).l2 / N)

    def mean_scale(self, box: Box, N: int) -> float:
        if self.mean_share == 0:
            return 0.0
        return self._unit() / math.sqrt(self.mean_share) * true_sensitivity(self, box, N).mean_l2 / N

    def _unit(self) -> float:
        refuse_no_delta(self.delta)
        return gaussian_deviation(self.epsilon, self.delta)


SOUND = (AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace)
