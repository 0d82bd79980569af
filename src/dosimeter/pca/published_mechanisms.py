"""The four mechanisms of Table 1 of [Zari22] as printed, for comparison and attack; `errata` lists their faults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.noise import Gaussian
from dosimeter.pca.bounds import Box
from dosimeter.pca.calibration import eps_prime
from dosimeter.pca.mechanism import Mechanism, check_count, entries_of, refuse_no_delta


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
        return entries_of(box.d) * _range_products(box) / (check_count(N) * self.epsilon)


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
        return np.full((box.d, box.d), total / (check_count(N) * self.epsilon))


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
        return _range_products(box) / (check_count(N) * eps_prime(self.epsilon, self.delta, entries_of(box.d)))


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
        refuse_no_delta(self.delta)
        sigma = box.length**2 * math.sqrt(2 * math.log(1.25 / self.delta)) / (check_count(N) * self.epsilon)
        return np.full((box.d, box.d), sigma)


PUBLISHED = (LaplaceScalar, LaplaceVector, LaplaceAdvanced, AnalyzeGauss)


def _range_products(box: Box) -> FloatArray:
    """(d, d) Λ_i Λ_j."""
    return np.asarray(np.outer(box.spread, box.spread))
