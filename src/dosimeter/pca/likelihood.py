"""The best test of membership where the eigenvalues are seen too: Gaussian rows, the sums they add up to (docs/pca.md).

N A is a Wishart matrix, and a member's own product zzᵀ is one of its addends. Taking it out changes the determinant by
1 - h, h the leverage, and the exponent by ½ zᵀΣ⁻¹z: the whole likelihood ratio is two quadratic forms of z.
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
from dosimeter.pca.reconstruction import ROWS, Tails

_STILL = "the population does not vary in a direction that the members have"
_ROUNDINGS = 8
"""Times d ulp of the largest eigenvalue: what the covariance, its two products with V and eigvalsh lose together."""
EDGE = 1e-9
"""A leverage this close to 1: the row alone holds a direction, up to rounding."""


@dataclass(frozen=True, eq=False)
class Population:
    """What the adversary knows about people in general, from rows that are neither members nor the strangers tested.

    >>> Population.of([[0.0, 0.0], [2.0, 2.0], [0.0, 2.0], [2.0, 0.0]]).covariance.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    mean: FloatArray
    """(d,)."""
    covariance: FloatArray
    """(d, d)."""
    rows: float = np.inf
    """How many rows it was estimated from; infinite where it is known."""

    @classmethod
    def of(cls, rows: ArrayLike) -> Population:
        """From reference rows (n, d)."""
        table = as_rows(rows, "reference rows")
        centre = mean(table)
        return cls(centre, second_moment(table, centre), float(len(table)))

    def pooled(self, components: Components, n: int, *, fixed_centre: bool = False) -> Population:
        """The reference rows and the n released ones together: the better estimate, of what the adversary has anyway.

        It varies wherever the members do: a direction in which the reference rows happen to be constant does no harm.
        """
        w, V = n / (self.rows + n), components.vectors
        if self.covariance.shape != (len(V), len(V)) or self.mean.shape != (len(V),):
            raise Refusal(f"the population must have {len(V)} columns, not {self.covariance.shape}")
        refuse_not_finite(self.covariance, "the population's covariance")
        apart = self.mean - components.mean if _centred(components, fixed_centre) else np.zeros(len(V))
        A = (V * components.values) @ V.T
        covariance = (1 - w) * self.covariance + w * A + w * (1 - w) * np.outer(apart, apart)
        return Population(self.mean - w * apart, covariance, self.rows + n)


def leverage(rows: ArrayLike, components: Components, n: int, *, fixed_centre: bool = False) -> FloatArray:
    """h of each row (m, d): its share in the second moment of n rows; infinite where it leaves their span.

    h = zᵀA⁻¹z/n for an A about a fixed point, (z - mean)ᵀA⁻¹(z - mean)/(n - 1) about the rows' own mean. Members have
    h <= 1, always, and r/n on average; a row with h > 1 was not there. It needs the vectors, the eigenvalues, n.
    `fixed_centre`: `components.mean` is a public point and not the rows' own mean, as in a private release; zeros
    always are.

    >>> A = np.diag([2.0, 1.0])                    # of the four rows (±2, 0) and (0, ±√2)
    >>> from dosimeter.pca.components import components
    >>> leverage([[2.0, 0.0], [4.0, 0.0]], components(A), 4).tolist()
    [0.5, 2.0]
    """
    spent = _centred(components, fixed_centre)
    if not (isinstance(n, int | np.integer) and n > components.rank + spent):
        raise CannotMeasure(
            f"{n} rows for {components.rank} directions leave nothing to compare: "
            "members have no residual at k = rank, read auc_by_components there"
        )
    return Tails.of(components, (rows,), whiten=True).at(0) / (n - spent)


def log_likelihood_ratio(
    rows: ArrayLike, components: Components, n: int, population: Population, *, fixed_centre: bool = False
) -> FloatArray:
    """log p(A, mean | z is one of the n) - log p(A, mean | z is not), up to one number that is the same for every z.

    ½ (z - m)ᵀΣ⁻¹(z - m) + ½ (n - r - 2 - c) log(1 - h), c = 1 where A is about the rows' own mean, else 0. -inf where z
    cannot be a member (h > 1, or out of the span); +inf where h = 1, for then a direction of A is z's alone. A
    population known from finitely many rows is pooled with the release first.
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
    """The strongest attack here: it sees vectors, eigenvalues, the mean and n, and knows the population.

    Best possible for Gaussian rows and all components; for a part of the components, or other rows, still an attack.
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
    """Minus the leverage: for somebody who sees the eigenvalues and knows nothing about the population."""
    a, b = (-leverage(rows, components, n, fixed_centre=fixed_centre) for rows in (members, strangers))
    return Scores("leverage", a, b, level, "knows eigenvalues, mean and n")


def _centred(components: Components, fixed_centre: bool) -> int:
    """1 where the rows' own mean was subtracted: it takes one row's worth of freedom."""
    return int(not fixed_centre and components.mean.any())


def _distance(rows: FloatArray, components: Components, population: Population) -> FloatArray:
    """(m,) yᵀ(VᵀΣV)⁻¹y with y = Vᵀ(z - m): how unusual the row is in the population, in the directions seen."""
    V = components.vectors[:, : components.rank]
    S = V.T @ population.covariance @ V
    # Rounding decides whether a singular S has a Cholesky factor, and how large its last pivot is: S_jj of a quiet
    # direction is itself off by the rounding of the loud ones. What rounding cannot move further is an eigenvalue.
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
