"""Several outputs on a sparse table, each polished alone, with the attributes that named figures read off a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dosimeter import glm
from dosimeter.adapters.problem import EstimatorKind
from dosimeter.core.arrays import FloatArray
from dosimeter.core.noise import no_noise
from dosimeter.glm.wide.stacked_outputs import StackedOutputs
from dosimeter.glm.wide.wide_leakage import WideLeakage


@dataclass(frozen=True, eq=False)
class OutputFits:
    """A fit for each output of one table. Internal: they hold margins."""

    fits: tuple[glm.Fit, ...]
    moves: FloatArray
    """T (K, t): how the outputs move with the unknowns of the target."""
    loss: EstimatorKind
    y: FloatArray
    """(n,) or (n, t) the joint target."""
    intercept: ClassVar[bool] = False
    l2: ClassVar[float] = 0.0

    @property
    def w(self) -> FloatArray:
        """The weights, output after output."""
        return np.concatenate([fit.w for fit in self.fits])

    @property
    def n(self) -> int:
        """Rows."""
        return self.fits[0].n

    @property
    def gradient_norm(self) -> float:
        """The largest of the certificates."""
        return max(fit.gradient_norm for fit in self.fits)

    @property
    def condition(self) -> float:
        """The largest of the fits."""
        return max(fit.condition for fit in self.fits)

    def leakage(self, X: Any, *, noise: Any, include_target: bool, input_map: Any, target_unit: Any) -> WideLeakage:
        """The joint release, as upper bounds; options as in `glm.measure`, target_unit one or one for each unknown."""
        options = {"noise": noise, "include_target": include_target, "input_map": input_map}
        parts = tuple(
            glm.measure(fit, X, fit.y, target_unit=unit, **options).jacobian
            for fit, unit in zip(self.fits, self.units(target_unit), strict=True)
        )
        joint = StackedOutputs(parts, int(self.moves.shape[1]))
        return WideLeakage(joint, noise, include_target, noise is not no_noise, table=X)

    def units(self, target_unit: Any) -> list[float]:
        """The unit of each output's own target."""
        return [float(np.linalg.norm(move * target_unit)) for move in self.moves]
