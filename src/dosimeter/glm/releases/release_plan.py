"""A plan: a fit, the noise its weights will be released with, the leakage of that release; and the draw.

`releases/release_planning.py` makes a plan from a table and a limit. `draw` adds noise from `noise_addition/` and
returns a `Release`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.covariance import CorrelatedGaussian
from dosimeter.core.noise import Density
from dosimeter.core.release import Recipe, Release
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.glm.releases.weight_sums import draw_sums
from dosimeter.glm.reweighting.irfil import Reweighting
from dosimeter.noise_addition import add_noise, release, simulate
from dosimeter.noise_addition.linear_map import SIGNIFICANT, Row, identity_rows
from dosimeter.noise_addition.simulation import seeded_bits

FINER = 30
"""Bits below √c at which shaped noise is rounded: the smallest deviation √(c/λ_max) is data, not for the grid."""


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """A fit and the noise its weights will be released with. Internal: it holds the exact weights.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> glm.plan(X, y, glm.Squared(), max_dose=0.5).noise_description
    'Gaussian(sigma=0.7071067811865476)'
    """

    fit: Fit
    noise: Density | CorrelatedGaussian
    leakage: Leakage
    """Of the release, including how weights and covariance depend on the table."""
    highest: float
    """The figure that the limit is about."""
    reading: str
    """Name of that figure."""
    settings: dict[str, str | int | float | bool | None]
    """Constants for the recipe; all public except an l2 that was computed from the number of rows."""
    not_covered: tuple[str, ...]
    """What no figure covers."""
    reweighting: Reweighting | None = None
    floor: float = 0.0
    """What a scaler fitted on the table leaves of that figure at any scale; 0 if nothing was fitted. Internal."""
    beside: float = 0.0
    """What that scaler adds to the figure for a limit, where the figure takes it as public. Internal."""
    penalty: str = ""
    """Description of the penalty if l2 was computed from the data (1/n): the recipe holds it instead of l2."""

    @property
    def counted(self) -> float:
        """What a limit is compared with: also what a scaler leaves that is held fixed."""
        return max(self.highest + self.beside, self.floor)

    @property
    def noise_description(self) -> str:
        """A public description of the noise: the covariance of shaped noise is itself data and is not included."""
        if isinstance(self.noise, CorrelatedGaussian):
            return f"Gaussian noise shaped by the inverse Hessian, √c = {self.settings['scale']:g}"
        return str(self.noise)

    @property
    def public_settings(self) -> dict[str, str | int | float | bool | None]:
        """The settings as the recipe holds them."""
        if not self.penalty:
            return dict(self.settings)
        return {
            "penalty" if name == "l2" else name: self.penalty if name == "l2" else v
            for name, v in self.settings.items()
        }

    def draw(self, rng: np.random.Generator | None = None, rows: Sequence[Row] | None = None) -> Release:
        """The release; with a Generator it is a simulation, not for release.

        Parameters
        ----------
        rng : numpy.random.Generator, optional
            Default: random bits from the operating system.
        rows : sequence of Row, optional
            Release these sums of the noised weights, the intercept last, instead of the weights: a scaler folded in
            (`noise_addition.linear_map`). By default the weights are released in the units of X. An empty sum is 0.

        Returns
        -------
        Release
            `values["coef"]` is (d,), or (K, d) for softmax: the weights of each class, from noise on each contrast.
        """
        if rows is not None:
            return self._draw_linear_map(rows, True, rng)
        if isinstance(self.fit.loss, Softmax):
            return self._draw_linear_map(identity_rows(len(self.fit.w)), self.fit.intercept, rng)
        d = len(self.fit.coef)
        values: dict[str, FloatArray] = {"coef": self.fit.w[:d], "intercept": self.fit.w[d:]}
        values = {name: v for name, v in values.items() if v.size}
        if not isinstance(self.noise, CorrelatedGaussian):
            return release(
                values, self.noise, kind="weights", settings=self.public_settings, not_covered=self.not_covered, rng=rng
            )
        grid = 2.0 ** (math.floor(math.log2(float(self.settings["scale"] or 1.0))) - FINER)
        w = self.fit.w
        noised = add_noise(w, self.noise, grid=grid) if rng is None else simulate(w, self.noise, rng, grid=grid)
        recipe = Recipe(
            "weights", self.noise_description, {**self.public_settings, "grid": grid}, self.not_covered, rng is not None
        )
        return Release({"coef": noised[:d], **({"intercept": noised[d:]} if self.fit.intercept else {})}, recipe)

    def _draw_linear_map(self, rows: Sequence[Row], intercept: bool, rng: np.random.Generator | None) -> Release:
        bits = None if rng is None else seeded_bits(rng)
        values = draw_sums(self.fit, self.noise, rows, intercept=intercept, bits=bits)
        settings = {**self.public_settings, "significant bits": SIGNIFICANT}
        return Release(values, Recipe("weights", self.noise_description, settings, self.not_covered, rng is not None))
