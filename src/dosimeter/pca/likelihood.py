"""The best membership test if the eigenvalues are released too: Gaussian rows and their sums (docs/explanation/pca.md).

N A is a Wishart matrix, and a member's product zzᵀ is one of its addends. Removing it changes the determinant by 1 - h,
h the leverage, and the exponent by ½ zᵀΣ⁻¹z. So the likelihood ratio is two quadratic forms of z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular

from dosimeter.attacks.result import Scores
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.pca.components import Components, as_rows, mean, refuse_not_finite, second_moment
from dosimeter.pca.reconstruction import ROWS, Residuals

_STILL = "the population does not vary in a direction that the members have"
_ROUNDINGS = 8
"""Error of the covariance, its two products with V and eigvalsh together, in d ulp of the largest eigenvalue."""
EDGE = 1e-9
"""A leverage this close to 1: the row alone spans a direction, up to rounding."""


@dataclass(frozen=True, eq=False)
class Population:
    """What the adversary knows about the population, from rows that are neither members nor the strangers tested.

    Examples
    --------
    >>> Population.of([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0]]).covariance.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    mean: FloatArray
    """(d,)."""
    covariance: FloatArray
    """(d, d)."""
    rows: float = np.inf
    """Number of rows it was estimated from; infinite if it is known."""

    @classmethod
    def of(cls, rows: ArrayLike) -> Population:
        """Estimate it from reference rows (n, d)."""
        table = as_rows(rows, "reference rows")
        centre = mean(table)
        return cls(centre, second_moment(table, centre), float(len(table)))

    def pooled(self, components: Components, n: int, *, fixed_centre: bool = False) -> Population:
        """The estimate from the reference rows and the n released ones together, which the adversary has too.

        It varies wherever the members do, so a direction in which the reference rows happen to be constant does no
        harm.
        """
        weight, V = n / (self.rows + n), components.vectors
        if self.covariance.shape != (len(V), len(V)) or self.mean.shape != (len(V),):
            raise Refusal(f"the population must have {len(V)} columns, not {self.covariance.shape}")
        refuse_not_finite(self.covariance, "the population's covariance")
        offset = self.mean - components.mean if _centred(components, fixed_centre) else np.zeros(len(V))
        A = (V * components.values) @ V.T
        covariance = (1 - weight) * self.covariance + weight * A + weight * (1 - weight) * np.outer(offset, offset)
        return Population(self.mean - weight * offset, covariance, self.rows + n)


def leverage(rows: ArrayLike, components: Components, n: int, *, fixed_centre: bool = False) -> FloatArray:
    """Leverage h of each row: its share in the second moment of n rows.

    Parameters
    ----------
    rows : array_like of shape (m, d)
        Rows to score.
    components : Components
        All vectors, with eigenvalues.
    n : int
        Number of rows the components were computed from, above their rank.
    fixed_centre : bool, default False
        Whether `components.mean` is a public point rather than the rows' mean, as in a private release. A mean of zeros
        always is.

    Returns
    -------
    ndarray of shape (m,)
        h. Members have h <= 1, and rank/n on average. h > 1 proves that a row is not a member; it is infinite outside
        the span of the data.

    Raises
    ------
    CannotMeasure
        If n does not exceed the rank.

    Notes
    -----
    h = zᵀA⁻¹z/n for an A about a fixed point, (z - mean)ᵀA⁻¹(z - mean)/(n - 1) about the rows' own mean.

    Examples
    --------
    >>> A = np.diag([2.0, 1.0])                    # of the four rows (±2, 0) and (0, ±√2)
    >>> from dosimeter.pca.components import components
    >>> leverage([[2.0, 0.0], [4.0, 0.0]], components(A), 4).tolist()
    [0.5, 2.0]
    """
    degrees_used = _centred(components, fixed_centre)
    if not (isinstance(n, int | np.integer) and n > components.rank + degrees_used):
        raise CannotMeasure(
            f"{n} rows and {components.rank} directions leave no residual to compare: every member has residual 0 "
            "at k = rank; use auc_by_components"
        )
    return Residuals.of(components, (rows,), whiten=True).at(0) / (n - degrees_used)


def log_likelihood_ratio(
    rows: ArrayLike, components: Components, n: int, population: Population, *, fixed_centre: bool = False
) -> FloatArray:
    """log p(A, mean | z is one of the n) - log p(A, mean | z is not), up to a constant that is the same for every z.

    ½ (z - m)ᵀΣ⁻¹(z - m) + ½ (n - r - 2 - c) log(1 - h), c = 1 if A is about the rows' own mean, else 0. -inf if z
    cannot be a member (h > 1, or outside the span); +inf if h = 1, because then z alone spans a direction of A. A
    population estimated from finitely many rows is pooled with the release first.
    """
    h = leverage(rows, components, n, fixed_centre=fixed_centre)
    q = _distance(as_rows(rows), components, population.pooled(components, n, fixed_centre=fixed_centre))
    inside = h < 1 - EDGE
    power = (n - components.rank - 2 - _centred(components, fixed_centre)) / 2
    ratio = np.where(h > 1 + EDGE, -np.inf, np.inf)
    ratio[inside] = q[inside] / 2 + power * np.log1p(-h[inside])
    return np.asarray(ratio)


def likelihood_ratio(
    components: Components,
    members: ArrayLike,
    strangers: ArrayLike,
    n: int,
    population: Population,
    *,
    level: float = 0.95,
    fixed_centre: bool = False,
) -> Scores:
    """The strongest membership attack here: it knows vectors, eigenvalues, the mean, n and the population.

    Parameters
    ----------
    components : Components
        What was released.
    members, strangers : array_like of shape (m, d) and (s, d)
        Rows to score.
    n : int
        Number of rows the components were computed from.
    population : Population
        Estimated from other rows.
    level : float, default 0.95
        Confidence level of the interval.
    fixed_centre : bool, default False
        As in `leverage`.

    Returns
    -------
    Scores
        The log likelihood ratio of each row; its AUC is a lower bound.

    Raises
    ------
    CannotMeasure
        If n does not exceed the rank, or the population does not vary in a direction of the members.

    Notes
    -----
    Optimal for Gaussian rows and all components (docs/explanation/pca.md). For some components, or other rows, it is
    still a valid attack.

    Examples
    --------
    >>> from dosimeter.pca.components import components_of
    >>> rng = np.random.default_rng(0)
    >>> members, strangers, others = (rng.normal(size=(n, 10)) for n in (50, 50, 500))
    >>> attack = likelihood_ratio(components_of(members), members, strangers, 50, Population.of(others))
    >>> attack.figure > 0.7
    True
    """
    a, b = (
        log_likelihood_ratio(rows, components, n, population, fixed_centre=fixed_centre)
        for rows in (members, strangers)
    )
    return Scores("likelihood ratio of the second moment", a, b, level, "knows eigenvalues, mean, n and the population")


def leverage_scores(
    components: Components,
    members: ArrayLike,
    strangers: ArrayLike,
    n: int,
    *,
    level: float = 0.95,
    fixed_centre: bool = False,
) -> Scores:
    """Minus the leverage: the membership attack that knows the eigenvalues but nothing about the population.

    Parameters
    ----------
    components, members, strangers, n, level, fixed_centre
        As in `likelihood_ratio`.

    Returns
    -------
    Scores
        Minus h of each row; its AUC is a lower bound.

    Raises
    ------
    CannotMeasure
        If n does not exceed the rank.

    Examples
    --------
    >>> from dosimeter.pca.components import components_of
    >>> rng = np.random.default_rng(0)
    >>> members, strangers = (rng.normal(size=(50, 30)) for _ in range(2))
    >>> leverage_scores(components_of(members), members, strangers, 50).figure > 0.9
    True
    """
    a, b = (-leverage(rows, components, n, fixed_centre=fixed_centre) for rows in (members, strangers))
    return Scores("leverage", a, b, level, "knows eigenvalues, mean and n")


def _centred(components: Components, fixed_centre: bool) -> int:
    """1 if the rows' own mean was subtracted, which uses one degree of freedom; else 0."""
    return int(not fixed_centre and components.mean.any())


def _distance(rows: FloatArray, components: Components, population: Population) -> FloatArray:
    """(m,) yᵀ(VᵀΣV)⁻¹y with y = Vᵀ(z - m): how unusual the row is in the population, within the known directions."""
    V = components.vectors[:, : components.rank]
    S = V.T @ population.covariance @ V
    # Rounding decides whether a singular S has a Cholesky factor, and how large its last pivot is: S_jj of a weak
    # direction is off by the rounding of the strong ones. Rounding moves an eigenvalue by at most `lost`, so test that.
    lost = _ROUNDINGS * len(population.covariance) * np.finfo(np.float64).eps * _size(population.covariance)
    if not np.linalg.eigvalsh(S)[0] > lost:
        raise CannotMeasure(_STILL)
    L = cholesky(S, lower=True)
    q = np.empty(len(rows))
    for start in range(0, len(rows), ROWS):
        U = np.asarray(rows[start : start + ROWS], dtype=np.float64) - population.mean
        Y = solve_triangular(L, V.T @ U.T, lower=True)
        q[start : start + ROWS] = np.einsum("rm,rm->m", Y, Y)
    return q


def _size(covariance: FloatArray) -> float:
    """Its largest eigenvalue; the covariance is symmetric up to rounding."""
    return float(np.abs(np.linalg.eigvalsh((covariance + covariance.T) / 2)).max())
