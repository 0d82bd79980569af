"""A patient with rows at several sites, each of which clips its own part: what the training shows about that patient.

At s sites the sum moves by up to s clips and the bits by s halves, so the noise that hides the patient is z/s. Ledgers
that book the training once at each site compose s events of z, which is √s/z and less than s/z: they count too little.
"""

from __future__ import annotations

import math

from dosimeter.core.checks import whole
from dosimeter.core.errors import CannotMeasure
from dosimeter.federated import accountant
from dosimeter.federated.accountant import Spending, add_rounds
from dosimeter.federated.client_sampling import PoissonSampling

_MOST_EPSILON = 1e4


def epsilon_at_sites(spent: Spending, cohort: PoissonSampling, delta: float, sites: int) -> float:
    """ε at δ of a patient with rows at this many sites: an upper bound.

    Parameters
    ----------
    spent : tuple of Spend
        The rounds, as in `State.spent`.
    cohort : PoissonSampling
        K, all declared patients.
    delta : float
        δ.
    sites : int
        s, the sites at which the patient has rows.

    Returns
    -------
    float
        If all patients are asked in each round, that of the noise z/s. If they are sampled, each site draws its part by
        itself, and group privacy bounds it: s·ε' with δ(ε')·(e^(sε') - 1)/(e^ε' - 1) at most δ.

    Raises
    ------
    CannotMeasure
        If no ε up to 10,000 is enough.

    Examples
    --------
    >>> from dosimeter.federated import Spend
    >>> once, twice = (epsilon_at_sites((Spend(100, 20.0, 10),), PoissonSampling(100), 1e-5, s) for s in (1, 2))
    >>> round(once, 2), round(twice, 2)
    (0.56, 1.2)
    """
    s = whole("sites", sites, 1, 1 << 20)
    if s == 1:
        return accountant.epsilon(spent, cohort, delta)
    if all(cohort.rate(part.per_round) == 1 for part in spent):
        closer: Spending = ()
        for m, z, rounds in spent:
            closer = add_rounds(closer, m, z / s, rounds)
        return accountant.epsilon(closer, cohort, delta)
    return s * _by_group_privacy(spent, cohort, delta, s)


def _by_group_privacy(spent: Spending, cohort: PoissonSampling, delta: float, sites: int) -> float:
    """ε' of one part, rounded up to a thousandth."""

    def holds(epsilon: float) -> bool:
        one_part = accountant.delta(spent, cohort, epsilon)
        if one_part == 0:
            return True
        growth = math.log(math.expm1(sites * epsilon) / math.expm1(epsilon)) if sites * epsilon < 500 else math.inf
        return math.log(one_part) + growth <= math.log(delta)

    high = accountant.epsilon(spent, cohort, delta)
    while not holds(high):
        high *= 1.5
        if sites * high > _MOST_EPSILON:
            raise CannotMeasure(f"no ε up to {_MOST_EPSILON:g} holds for a patient at {sites} sites")
    low = 0.0
    while high - low > 1e-3 * max(high, 1e-3):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
