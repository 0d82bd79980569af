"""Mechanisms: how wide the noise on each entry of the second moment is, and on the mean where it is released too.

Four as Table 1 of [Zari22] prints them, kept to be compared and attacked, and four to be used. All are recipes of
public constants; the table is nowhere in them. A scale is that of the noise on A = Σ zzᵀ / N.
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
"""What the verb and the estimator spend on the mean unless told, and the most: the components need the rest."""


def entries_of(d: int) -> int:
    """α = d(d + 1)/2, the distinct entries of a symmetric matrix.

    >>> entries_of(14), entries_of(784)
    (105, 307720)
    """
    return d * (d + 1) // 2


@dataclass(frozen=True)
class Mechanism(ABC):
    """A budget; each mechanism adds how it becomes a scale for every entry."""

    epsilon: float

    law: ClassVar[type[Density]] = Laplace
    as_published: ClassVar[bool] = False
    errata: ClassVar[tuple[str, ...]] = ()
    """What is wrong with it as printed, in words."""

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
        """The neighbour relation of the claim; [Zari22] has Hamming distance 1, one row replaced."""
        return str(getattr(self, "neighbours", REPLACE))

    @property
    def share(self) -> float:
        """The part of the budget that is spent on the mean; 0: no mean is released, moments are about the centre."""
        return float(getattr(self, "mean_share", 0.0))

    def mean_scale(self, box: Box, N: int) -> float:
        """Scale of the noise on each of the d entries of the mean; 0 where no mean is released."""
        return 0.0

    @abstractmethod
    def scales(self, box: Box, N: int) -> FloatArray:
        """(d, d) scale of the noise on each entry of A, symmetric; 0 where an entry cannot vary."""


@dataclass(frozen=True)
class LaplaceScalar(Mechanism):
    """Table 1, first row: each entry a query of its own, naive composition, α Λ_i Λ_j / (N ε).

    >>> from dosimeter.pca.bounds import Bounds
    >>> box = Bounds([0.0, 0.0, 0.0], [1.0, 2.0, 0.5]).over(3)
    >>> LaplaceScalar(1.0).scales(box, 100)[0].round(4).tolist()
    [0.06, 0.12, 0.03]
    """

    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        "Λ_iΛ_j/N bounds an entry's change only where 0 lies between the centred bounds; for [5, 6] it is 11 times too "
        "small on the diagonal, and a column with Λ = 0 gets no noise",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        return entries_of(box.d) * _products(box) / (_count(N) * self.epsilon)


@dataclass(frozen=True)
class LaplaceVector(Mechanism):
    """Table 1, second row: all entries one query, Σ_{i>=j} Λ_i Λ_j / (N ε), the same for every entry."""

    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        *LaplaceScalar.errata,
        "an equal budget is not equal noise: where the Λ differ, an entry gets more or less than in the scalar query",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        total = float(_products(box)[np.tril_indices(box.d)].sum())
        return np.full((box.d, box.d), total / (_count(N) * self.epsilon))


@dataclass(frozen=True)
class LaplaceAdvanced(Mechanism):
    """Table 1, third row: each entry a query of its own, Λ_i Λ_j / (N ε'), ε' from eq. 2 and nothing else.

    Below d = 14 and above `crossover` this is more noise than naive composition; `LaplaceSplit` takes the better one.
    """

    delta: float

    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        *LaplaceScalar.errata,
        "section 5.3 has its inequality reversed: advanced composition adds less noise where ε' > ε/α",
        "eq. 2 is loose: the same noise costs about 0.6 ε by its privacy loss distribution",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        return _products(box) / (_count(N) * eps_prime(self.epsilon, self.delta, entries_of(box.d)))


@dataclass(frozen=True)
class AnalyzeGauss(Mechanism):
    """Table 1, fourth row: Gaussian noise of deviation C² √(2 ln(1.25/δ)) / (N ε), C = 1 in the paper."""

    delta: float

    law: ClassVar[type[Density]] = Gaussian
    as_published: ClassVar[bool] = True
    errata: ClassVar[tuple[str, ...]] = (
        "1/N is the sensitivity of adding or removing a row; replacing one, the paper's relation, can move A by √2/N",
        "the classic scale is proved for ε < 1 only: at ε = 10, δ = 1e-3 it is 7 % too small, at ε = 100 57 %",
    )

    def scales(self, box: Box, N: int) -> FloatArray:
        _refuse_no_delta(self.delta)
        sigma = box.length**2 * math.sqrt(2 * math.log(1.25 / self.delta)) / (_count(N) * self.epsilon)
        return np.full((box.d, box.d), sigma)


@dataclass(frozen=True)
class LaplaceJoint(Mechanism):
    """Pure ε: one scale Δ₁ / (N ε) for all entries, Δ₁ their joint sensitivity in the 1-norm.

    With a row norm C that is C²(d + 1)/(2 N ε), d/2 times less than a query per entry.
    """

    neighbours: str = REPLACE
    mean_share: float = 0.0

    def scales(self, box: Box, N: int) -> FloatArray:
        return np.full((box.d, box.d), true_sensitivity(self, box, N).l1 / (N * _left(self)))

    def mean_scale(self, box: Box, N: int) -> float:
        return _laplace_mean(self, box, N)


@dataclass(frozen=True)
class LaplaceSplit(Mechanism):
    """A Laplace query per entry, each with the larger of ε/α and ε': never worse than either composition.

    With δ = 0 it is pure ε-differential privacy.
    """

    delta: float = 0.0
    neighbours: str = REPLACE
    mean_share: float = 0.0

    def scales(self, box: Box, N: int) -> FloatArray:
        alpha, left = entries_of(box.d), _left(self)
        each = left / alpha
        if self.delta > 0:
            each = max(each, eps_prime(left, self.delta, alpha))
        return true_sensitivity(self, box, N).entries / (N * each)

    def mean_scale(self, box: Box, N: int) -> float:
        return _laplace_mean(self, box, N)


@dataclass(frozen=True)
class PLDLaplace(Mechanism):
    """Laplace noise as little as its privacy loss distribution allows for (ε, δ) [dp-accounting].

    A query per entry, or one for all of them where that is less noise in all, as within a row norm.
    """

    delta: float
    neighbours: str = REPLACE
    mean_share: float = 0.0

    def scales(self, box: Box, N: int) -> FloatArray:
        _refuse_no_delta(self.delta)
        moved, lower = true_sensitivity(self, box, N), np.tril_indices(box.d)
        each = moved.entries / (N * laplace_share(_left(self), self.delta, entries_of(box.d)))
        joint = np.full_like(each, moved.l1 / (N * laplace_share(_left(self), self.delta, 1)))
        return joint if np.linalg.norm(joint[lower]) < np.linalg.norm(each[lower]) else each

    def mean_scale(self, box: Box, N: int) -> float:
        return _laplace_mean(self, box, N)


@dataclass(frozen=True)
class AnalyticGaussian(Mechanism):
    """Gaussian noise at the least deviation that is (ε, δ)-differentially private, ε from 1e-5 to 1e6 [dp-accounting].

    The sensitivity is that of the declared relation: with a row norm C it is C²/N for a row more or less, √2 C²/N for a
    row replaced; with bounds alone less, see docs/pca.md. `mean_share` is of 1/σ²: Gaussian moves add in squares.
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
    """Of Σ zzᵀ and Σ z in the mechanism's relation, with what float64 loses.

    N rows, or N people whose rows weigh 1 in all; adding some may bring their number to 2N.
    """
    rows = _count(N) if mechanism.relation == REPLACE else 2 * _count(N)
    return sensitivity(box, mechanism.relation, rows)


def _left(mechanism: Mechanism) -> float:
    """ε that the mean leaves to the second moment; Laplace noise splits ε, and δ stays with the second moment."""
    return mechanism.epsilon * (1 - mechanism.share)


def _laplace_mean(mechanism: Mechanism, box: Box, N: int) -> float:
    """One query for the whole mean, pure: its sensitivity in the 1-norm over N times its part of ε."""
    if mechanism.share == 0:
        return 0.0
    return true_sensitivity(mechanism, box, N).mean_l1 / (_count(N) * mechanism.epsilon * mechanism.share)


def _products(box: Box) -> FloatArray:
    """(d, d) Λ_i Λ_j."""
    return np.asarray(np.outer(box.spread, box.spread))


def _count(N: int) -> int:
    if isinstance(N, bool) or int(N) != N or N < 1:
        raise Refusal(f"the public number of rows must be a whole number >= 1, not {N}")
    return int(N)


def _refuse_no_delta(delta: float) -> None:
    if delta == 0:
        raise Refusal("this mechanism needs delta > 0; LaplaceJoint and LaplaceSplit are private with delta = 0")
