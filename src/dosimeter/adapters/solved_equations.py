"""Solved estimating equations with the attributes that named figures read off a fit, and the leakage of either."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dosimeter import glm
from dosimeter.adapters.output_fits import OutputFits
from dosimeter.adapters.problem import EstimatorKind
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.row_maps.mapped_jacobian import MappedJacobian


@dataclass(frozen=True, eq=False)
class SolvedEquations:
    """A root of estimating equations. Internal: it holds the rows."""

    solution: glm.Solution
    loss: EstimatorKind
    y: FloatArray
    """(n,) or (n, t) the targets."""
    intercept: ClassVar[bool] = False
    l2: ClassVar[float] = 0.0

    @property
    def w(self) -> FloatArray:
        """(r,) the released values."""
        return self.solution.released

    @property
    def n(self) -> int:
        """Rows."""
        return self.solution.equations.n

    @property
    def gradient_norm(self) -> float:
        """The certificate."""
        return self.solution.gradient_norm

    @property
    def condition(self) -> float:
        """Of the derivative of the equations."""
        return self.solution.condition


AnyFit = glm.Fit | SolvedEquations | glm.CoxFit | OutputFits


def leakage_of(
    fit: AnyFit, X: FloatArray, y: FloatArray, *, target_slopes: FloatArray | None = None, **options: Any
) -> glm.Leakage:
    """The leakage of a fit or of solved equations; options as in `glm.measure`.

    target_slopes: (n,) df/dy of a function f that the target went through before the fit; None for none.
    """
    leak: glm.Leakage
    if isinstance(fit, OutputFits):
        leak = fit.leakage(X, **options)
    elif isinstance(fit, SolvedEquations):
        leak = glm.measure_solution(fit.solution, **options)
    elif isinstance(fit, glm.CoxFit):
        leak = glm.measure_cox(fit, **{name: value for name, value in options.items() if name != "target_unit"})
    else:
        leak = glm.measure(fit, X, y, **options)
    if target_slopes is None:
        return leak
    return replace(leak, jacobian=_with_slopes(leak.jacobian, target_slopes))


def _with_slopes(jacobian: Any, slopes: FloatArray) -> Any:
    """The Jacobian about a target that went through a function before the fit."""
    if isinstance(jacobian, MappedJacobian):
        return replace(jacobian, inner=_with_slopes(jacobian.inner, slopes))
    if isinstance(jacobian, ScalarJacobian):
        return replace(jacobian, c=jacobian.c * slopes)
    raise CannotMeasure(
        "a transformed target is measured before a regression of one margin only: transform the target yourself and "
        "measure the model inside"
    )


def target_units(kind: glm.TargetKind, y: FloatArray, otherwise: Any) -> Any:
    """How much of the target one unit of the figures is; one number for each of several targets.

    otherwise: y (n,) -> the unit of a number with more than two values.
    """
    if y.ndim == 1:
        return kind.unit(y, otherwise(y))
    return np.array([kind.unit(column, otherwise(column)) for column in y.T])
