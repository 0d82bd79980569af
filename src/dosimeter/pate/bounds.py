"""Bounds on the leakage of a noisy vote: those of [Saeidian21] for all histograms and for one, and a tighter one.

All are upper bounds in nats. Those that take `others` use private votes: internal, like the leakage itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Laplace
from dosimeter.core.notion import Standing
from dosimeter.pate.histograms import as_histograms, as_shift
from dosimeter.pate.leakage import excess_of_equal_counts
from dosimeter.pate.vote_noise import as_law

UNIFORM, INDEPENDENT, DEPENDENT, OVERTAKING = "cγ", "log B1", "log B2", "log B3"


@dataclass(frozen=True, eq=False)
class Bound:
    """The smallest of the bounds for each histogram. Internal: it is computed from private votes.

    Examples
    --------
    >>> bound([[4, 3, 2, 1], [90, 5, 5, 0]], 0.1)
    <Bound of 2 noisy votes: highest 0.08608 nats, upper bound>
    """

    values: FloatArray
    """(q,) nats."""
    which: NDArray[np.str_]
    """(q,) the smallest bound: "cγ", "log B1", "log B2" or "log B3"."""
    standing: Standing = Standing.UPPER_BOUND

    def __repr__(self) -> str:
        highest = f": highest {self.values.max():.4g} nats" if len(self.values) else ""
        return f"<Bound of {len(self.values)} noisy votes{highest}, {self.standing.value}>"


def uniform_bound(gamma: float, queries: int = 1, shift: int = 1) -> float:
    """Upper bound for any votes, Theorem 13 and Corollary 15 of [Saeidian21], Laplace noise.

    Parameters
    ----------
    gamma : float
        γ = 1/b of the Laplace noise, per vote.
    queries : int, default 1
        k, the number of labels.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    float
        k·c·γ nats. It holds for any votes, number of classes and training, and for queries that depend on past answers.

    Raises
    ------
    Refusal
        If an argument is out of range.

    Examples
    --------
    >>> uniform_bound(0.05, queries=2000)
    100.0
    """
    if isinstance(queries, bool) or not isinstance(queries, int | np.integer) or queries < 0:
        raise Refusal(f"queries is the number of labels, a whole number >= 0, not {queries!r}")
    return float(queries) * as_shift(shift) * as_gamma(gamma)


def data_independent_bound(m: int, noise: Density | float, shift: int = 1) -> float:
    """Upper bound for any votes: the leakage at equal counts, log B1 of Prop. 12 of [Saeidian21].

    Parameters
    ----------
    m : int
        Number of classes.
    noise : Density or float
        A noise, or γ of Laplace noise with b = 1/γ.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    float
        Nats per query. Attained if m divides the number of the other teachers.

    Raises
    ------
    CannotMeasure
        If the density is not log-concave: equal counts then need not leak the most (Theorem 10).
    Refusal
        If an argument is out of range.

    Examples
    --------
    >>> round(data_independent_bound(4, 0.1), 6)     # Example 14
    0.086079
    """
    if isinstance(noise, Density) and not noise.log_concave:
        raise CannotMeasure(f"{noise}: equal counts leak most only if the density is log-concave (Theorem 10)")
    law = Laplace(1 / as_gamma(noise)) if isinstance(noise, int | float) else as_law(noise)
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or m < 2:
        raise Refusal(f"m is the number of classes, a whole number >= 2, not {m!r}")
    return float(np.log1p(excess_of_equal_counts(int(m), law, as_shift(shift))))


def data_dependent_bound(others: Any, gamma: float, shift: int = 1) -> FloatArray:
    """Upper bound for given votes, log B2 of Prop. 16 of [Saeidian21]: each class is compared only with the first.

    Parameters
    ----------
    others : array_like of shape (q, m)
        v⁻, the votes of the other teachers.
    gamma : float
        γ = 1/b of the Laplace noise, per vote.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    ndarray of shape (q,)
        Nats per query. Internal.

    Raises
    ------
    Refusal
        If an argument is out of range.

    Examples
    --------
    >>> data_dependent_bound([[90, 5, 5, 0]], 0.1).round(8).tolist()     # Example 17
    [0.00105254]
    """
    d, c = _gaps_in_scales(others, gamma, shift)
    first = d[:, 0]
    lead = np.where(
        first >= c,
        _lead_interval(first, c),
        _difference_cdf_above_half(first + c) - _difference_cdf_above_half(first - c),
    )
    return np.asarray(np.log1p(lead + _difference_cdf(c - d[:, 1:]).sum(axis=1)))


def overtaking_bound(others: Any, gamma: float, shift: int = 1) -> FloatArray:
    """Upper bound for given votes, log B3 of docs/explanation/pate.md, Laplace noise.

    Parameters
    ----------
    others : array_like of shape (q, m)
        v⁻, the votes of the other teachers.
    gamma : float
        γ = 1/b of the Laplace noise, per vote.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    ndarray of shape (q,)
        Nats per query. Internal.

    Raises
    ------
    Refusal
        If an argument is out of range.

    Notes
    -----
    B3 = 1 + (1 - e^(-2cγ)) Σ_{j>=2} P(class j plus c votes overtakes the first).

    Examples
    --------
    >>> overtaking_bound([[90, 5, 5, 0]], 0.1).round(8).tolist()
    [0.00027929]
    """
    d, c = _gaps_in_scales(others, gamma, shift)
    return np.asarray(np.log1p(-np.expm1(-2 * c) * _difference_cdf(c - d).sum(axis=1)))


def bound(others: Any, gamma: float, shift: int = 1) -> Bound:
    """The smallest of cγ, log B1, log B2 and log B3 for Laplace noise, for each histogram.

    Parameters
    ----------
    others : array_like of shape (q, m)
        v⁻, the votes of the other teachers.
    gamma : float
        γ = 1/b of the Laplace noise, per vote.
    shift : int, default 1
        c, the votes that one person controls.

    Returns
    -------
    Bound
        Internal.

    Raises
    ------
    Refusal
        If an argument is out of range.

    Examples
    --------
    >>> bound([[4, 3, 2, 1], [90, 5, 5, 0]], 0.1).which.tolist()
    ['log B1', 'log B3']
    """
    histograms = as_histograms(others, "others")
    q, m = histograms.shape
    by_name = {
        INDEPENDENT: np.full(q, data_independent_bound(m, gamma, shift)),
        DEPENDENT: data_dependent_bound(histograms, gamma, shift),
        OVERTAKING: overtaking_bound(histograms, gamma, shift),
        UNIFORM: np.full(q, uniform_bound(gamma, shift=shift)),
    }
    table = np.array(list(by_name.values()))
    return Bound(table.min(axis=0), np.array(list(by_name))[table.argmin(axis=0)])


def as_gamma(gamma: Any) -> float:
    """γ = 1/b of Laplace noise, a finite number > 0."""
    if isinstance(gamma, bool) or not isinstance(gamma, Real) or not 0 < float(gamma) < np.inf:
        raise Refusal(f"gamma is 1/b of Laplace noise, a finite number > 0, not {gamma!r}")
    return float(gamma)


def _gaps_in_scales(others: Any, gamma: float, shift: int) -> tuple[FloatArray, float]:
    """(q, m - 1) distances to the first class and the shift, both times γ."""
    ordered = -np.sort(-as_histograms(others, "others"), axis=1)
    g = as_gamma(gamma)
    return np.asarray((ordered[:, :1] - ordered[:, 1:]) * g), as_shift(shift) * g


def _difference_cdf(y: FloatArray) -> FloatArray:
    """P(N1 - N2 < y) at scale 1, eq. 84; the lower tail keeps its digits."""
    z = np.abs(y)
    tail = 0.25 * np.exp(-z) * (2 + z)
    return np.asarray(np.where(y < 0, tail, 1 - tail))


def _difference_cdf_above_half(y: FloatArray) -> FloatArray:
    """P(N1 - N2 < y) - 1/2, odd, with full precision near 0."""
    z = np.abs(y)
    return np.asarray(np.sign(y) * 0.25 * (-2 * np.expm1(-z) - z * np.exp(-z)))


def _lead_interval(d: FloatArray, c: float) -> FloatArray:
    """P(N1 - N2 < d + c) - P(N1 - N2 < d - c) for d >= c, without subtracting nearly equal tails."""
    z = np.maximum(d - c, 0.0)
    return np.asarray(0.25 * np.exp(-z) * (-np.expm1(-2 * c) * (2 + z) - 2 * c * np.exp(-2 * c)))
