"""A Cox model on its table, with the coefficients that are claimed to be its minimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.glm.cox.risk_sets import Ties

BASELINE = (
    "only the coefficients are covered: the baseline hazard (and survival curves made from it), standard errors and "
    "the fitted object itself, which holds every row's time and event, are further releases"
)


@dataclass(frozen=True, eq=False)
class CoxProblem:
    """A Cox model's table, settings, and the coefficients that are claimed to be its minimum."""

    X: FloatArray
    """(n, p) the columns, in the table's own units."""
    names: tuple[str, ...]
    time: FloatArray
    event: FloatArray
    """(n,) 1 or 0."""
    w: FloatArray
    """(p,)."""
    ties: Ties
    strata: NDArray[np.intp] | None = None
    weight: FloatArray | None = None
    l2: FloatArray | float = 0.0
    """λ, for all columns or each of them."""
    standardised: bool = False
    offset: FloatArray | None = None
    """(n,) known constants added to the margins; None for none."""
    remarks: tuple[str, ...] = (BASELINE,)
    not_covered: ClassVar[tuple[str, ...]] = ()
    intercept: ClassVar[bool] = False
    penalised_intercept: ClassVar[bool] = False
    penalty: ClassVar[float] = 0.0

    @property
    def loss(self) -> glm.Cox:
        """What is said of the loss."""
        return glm.Cox(self.ties)

    @property
    def y(self) -> FloatArray:
        """(n,) a number for each distinct outcome."""
        return np.unique(np.column_stack([self.time, self.event]), axis=0, return_inverse=True)[1].reshape(-1).astype(
            np.float64
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """Keyword arguments of `glm.fit_cox` and `glm.fit_cox_at`."""
        return {
            "strata": self.strata,
            "sample_weight": self.weight,
            "ties": self.ties,
            "l2": self.l2,
            "standardised": self.standardised,
            "offset": self.offset,
        }
