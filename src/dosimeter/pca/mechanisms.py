"""Mechanisms: the scale of the noise on each entry of the second moment, and on the mean if it is released too.

Four are as Table 1 of [Zari22] prints them, kept for comparison and attack; four are for use. All are recipes of public
constants and hold no data. A scale is that of the noise on A = Σ zzᵀ / N.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.pca.bounds import Box
from dosimeter.pca.calibration import check_budget, eps_prime, gaussian_deviation, laplace_share
from dosimeter.pca.sensitivity import NEIGHBOURS, REPLACE, Sensitivity, sensitivity

MEAN_SHARE, MOST_SHARE = 0.1, 0.9
"""The budget share of the mean, by default and at most: the components need the rest."""


def entries_of(d: int) -> int:
    """α = d(d + 1)/2, the number of distinct entries of a symmetric matrix.

    >>> entries_of(14), entries_of(784)
    (105, 307720)
    """
    return d * (d + 1) // 2


@dataclass(frozen=True)
class Mechanism(ABC):
    """A privacy budget; each subclass turns it into a noise scale for every entry."""

    epsilon: float

    law: ClassVar[type[Density]] = Laplace
    as_published: ClassVar[bool] = False
    errata: ClassVar[tuple[str, ...]] = ()
    """Errors in the printed version, one sentence each."""

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.budget_delta)
        if self.relation not in NEIGHBOURS:
            raise Refusal(f"neighbours {self.relation!r} is not one of {', '.join(NEIGHBOURS)}")
        if isinstance(self.share, bool) or not 0 <= self.share <= MOST_SHARE:
            raise Refusal(f"mean_share must be from 0 (the public centre) to {MOST_SHARE}, not {self.share}")

    @property
    def budget_delta(self) -> float:
        """δ of the budget, 0 for pure differential privacy."""
        return float(getattr(self, "delta", 0.0))

    @property
    def relation(self) -> str:
        """The neighbour relation of the guarantee; [Zari22] uses Hamming distance 1, one row replaced."""
        return str(getattr(self, "neighbours", REPLACE))

    @property
    def share(self) -> float:
        """The share of the budget spent on the mean; 0: no mean is released, and moments are about the centre."""
        return float(getattr(self, "mean_share", 0.0))

    def mean_scale(self, box: Box, N: int) -> float:
        """Scale of the noise on each of the d entries of the mean; 0 if no mean is released."""
        return 0.0

    @abstractmethod
    def scales(self, box: Box, N: int) -> FloatArray:
        """(d, d) scale of the noise on each entry of A, symmetric; 0 where an entry cannot vary."""


@dataclass(frozen=True)
class LaplaceScalar(Mechanism):
    """Table 1 of [Zari22], first row: Laplace noise, each entry a separate query, naive composition. As published.

    Parameters
    ----------
    epsilon : float
        Budget of the whole release.

    Raises
    ------
    Refusal
        If epsilon is not a finite number > 0.

    Notes
    -----
    Scale α Λ_i Λ_j / (N ε). `errata` lists what is wrong with it.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> box = Bounds([0.0, 0.0, 0.0], [1.0, 2.0, 0.5]).over(3)
    >>> LaplaceScalar(1.0).scales(box, 100)[0].round(4).tolist()
    [0.06, 0.12, 0.03]
    """

    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        "Λ_iΛ_j/N bounds an entry's change only if 0 lies between the centred bounds; for [5, 6] it is 11 times too "
        "small on the diagonal, and a column with Λ = 0 gets no noise",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        return entries_of(box.d) * _range_products(box) / (_check_count(N) * self.epsilon)


@dataclass(frozen=True)
class LaplaceVector(Mechanism):
    """Table 1 of [Zari22], second row: Laplace noise, all entries one query. As published.

    Parameters
    ----------
    epsilon : float
        Budget of the whole release.

    Raises
    ------
    Refusal
        If epsilon is not a finite number > 0.

    Notes
    -----
    Scale Σ_{i>=j} Λ_i Λ_j / (N ε), the same for every entry.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> LaplaceVector(1.0).scales(Bounds(0.0, [1.0, 2.0]).over(2), 100)[0].tolist()
    [0.07, 0.07]
    """

    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        *LaplaceScalar.errata,
        "equal budgets do not give equal noise: if the Λ differ, an entry gets more or less than in the scalar query",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        total = float(_range_products(box)[np.tril_indices(box.d)].sum())
        return np.full((box.d, box.d), total / (_check_count(N) * self.epsilon))


@dataclass(frozen=True)
class LaplaceAdvanced(Mechanism):
    """Table 1 of [Zari22], third row: Laplace noise, each entry a separate query, advanced composition. As published.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the whole release, delta > 0.

    Raises
    ------
    Refusal
        If the budget is invalid.

    Notes
    -----
    Scale Λ_i Λ_j / (N ε'), ε' from eq. 2 (`eps_prime`). Below d = 14, and above `crossover`, this is more noise than
    naive composition; `LaplaceSplit` uses the better of the two.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> LaplaceAdvanced(1.0, 1e-3).scales(Bounds(0.0, 1.0).over(2), 100).round(4)[0].tolist()
    [0.0691, 0.0691]
    """

    delta: float

    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        *LaplaceScalar.errata,
        "section 5.3 has its inequality reversed: advanced composition adds less noise if ε' > ε/α",
        "eq. 2 is loose: the same noise costs about 0.6 ε by its privacy loss distribution",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        return _range_products(box) / (_check_count(N) * eps_prime(self.epsilon, self.delta, entries_of(box.d)))


@dataclass(frozen=True)
class AnalyzeGauss(Mechanism):
    """Table 1 of [Zari22], fourth row: Gaussian noise, classic scale. As published.

    Parameters
    ----------
    epsilon, delta : float
        Budget of the whole release, delta > 0.

    Raises
    ------
    Refusal
        If the budget is invalid.

    Notes
    -----
    Standard deviation C² √(2 ln(1.25/δ)) / (N ε), C the largest length of a row; C = 1 in the paper.

    Examples
    --------
    >>> from dosimeter.pca.bounds import Bounds
    >>> AnalyzeGauss(1.0, 1e-3).scales(Bounds(row_norm=1.0).over(2), 100).round(4)[0].tolist()
    [0.0378, 0.0378]
    """

    delta: float

    law: ClassVar[type[Density]] = Gaussian
    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        "1/N is the sensitivity of adding or removing a row; replacing one, the paper's relation, can move A by √2/N",
        "the classic scale is proved only for ε < 1: at ε = 10, δ = 1e-3 it is 7 % too small, at ε = 100 57 %",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        _refuse_no_delta(self.delta)
        sigma = box.length**2 * math.sqrt(2 * math.log(1.25 / self.delta)) / (_check_count(N) * self.epsilon)
        return np.full((box.d, box.d), sigma)


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
        return np.full((box.d, box.d), true_sensitivity(self, box, N).l1 / (N * _moment_epsilon(self)))

    def mean_scale(self, box: Box, N: int) -> float:
        return _laplace_mean_scale(self, box, N)


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
        alpha, moment_epsilon = entries_of(box.d), _moment_epsilon(self)
        entry_epsilon = moment_epsilon / alpha
        if self.delta > 0:
            entry_epsilon = max(entry_epsilon, eps_prime(moment_epsilon, self.delta, alpha))
        return true_sensitivity(self, box, N).entries / (N * entry_epsilon)

    def mean_scale(self, box: Box, N: int) -> float:
        return _laplace_mean_scale(self, box, N)


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
        _refuse_no_delta(self.delta)
        moves, lower = true_sensitivity(self, box, N), np.tril_indices(box.d)
        each = moves.entries / (N * laplace_share(_moment_epsilon(self), self.delta, entries_of(box.d)))
        joint = np.full_like(each, moves.l1 / (N * laplace_share(_moment_epsilon(self), self.delta, 1)))
        return joint if np.linalg.norm(joint[lower]) < np.linalg.norm(each[lower]) else each

    def mean_scale(self, box: Box, N: int) -> float:
        return _laplace_mean_scale(self, box, N)


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
        _refuse_no_delta(self.delta)
        return gaussian_deviation(self.epsilon, self.delta)


PUBLISHED = (LaplaceScalar, LaplaceVector, LaplaceAdvanced, AnalyzeGauss)
SOUND = (AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace)


def true_sensitivity(mechanism: Mechanism, box: Box, N: int) -> Sensitivity:
    """Sensitivity of Σ zzᵀ and Σ z in the mechanism's relation, including float64 rounding.

    N rows, or N people whose rows weigh 1 in total; adding some may double their number to 2N.
    """
    rows = _check_count(N) if mechanism.relation == REPLACE else 2 * _check_count(N)
    return sensitivity(box, mechanism.relation, rows)


def _moment_epsilon(mechanism: Mechanism) -> float:
    """The ε that the mean leaves for the second moment. Laplace noise splits ε; δ is all for the second moment."""
    return mechanism.epsilon * (1 - mechanism.share)


def _laplace_mean_scale(mechanism: Mechanism, box: Box, N: int) -> float:
    """Scale of one pure query for the whole mean: its sensitivity in the 1-norm over N times its part of ε."""
    if mechanism.share == 0:
        return 0.0
    return true_sensitivity(mechanism, box, N).mean_l1 / (_check_count(N) * mechanism.epsilon * mechanism.share)


def _range_products(box: Box) -> FloatArray:
    """(d, d) Λ_i Λ_j."""
    return np.asarray(np.outer(box.spread, box.spread))


def _check_count(N: int) -> int:
    if isinstance(N, bool) or int(N) != N or N < 1:
        raise Refusal(f"the public number of rows must be a whole number >= 1, not {N}")
    return int(N)


def _refuse_no_delta(delta: float) -> None:
    if delta == 0:
        raise Refusal("this mechanism needs delta > 0; with delta = 0 use LaplaceJoint or LaplaceSplit")
