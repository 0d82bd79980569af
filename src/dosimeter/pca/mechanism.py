"""A mechanism: the scale of the noise on each entry of the second moment, and on the mean if it is released too.

A recipe of public constants that holds no data. A scale is that of the noise on A = Σ zzᵀ / N.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Laplace
from dosimeter.pca.bounds import Box
from dosimeter.pca.calibration import check_budget
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


def true_sensitivity(mechanism: Mechanism, box: Box, N: int) -> Sensitivity:
    """Sensitivity of Σ zzᵀ and Σ z in the mechanism's relation, including float64 rounding.

    N rows, or N people whose rows weigh 1 in total; adding some may double their number to 2N.
    """
    rows = check_count(N) if mechanism.relation == REPLACE else 2 * check_count(N)
    return sensitivity(box, mechanism.relation, rows)


def moment_epsilon(mechanism: Mechanism) -> float:
    """The ε that the mean leaves for the second moment. Laplace noise splits ε; δ is all for the second moment."""
    return mechanism.epsilon * (1 - mechanism.share)


def laplace_mean_scale(mechanism: Mechanism, box: Box, N: int) -> float:
    """Scale of one pure query for the whole mean: its sensitivity in the 1-norm over N times its part of ε."""
    if mechanism.share == 0:
        return 0.0
    return true_sensitivity(mechanism, box, N).mean_l1 / (check_count(N) * mechanism.epsilon * mechanism.share)


def check_count(N: int) -> int:
    """The public number of rows, refused unless it is a whole number >= 1."""
    if isinstance(N, bool) or int(N) != N or N < 1:
        raise Refusal(f"the public number of rows must be a whole number >= 1, not {N}")
    return int(N)


def refuse_no_delta(delta: float) -> None:
    """Refuse δ = 0, for mechanisms that need more."""
    if delta == 0:
        raise Refusal("this mechanism needs delta > 0; with delta = 0 use LaplaceJoint or LaplaceSplit")
