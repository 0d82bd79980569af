"""Fisher information loss of a noised linear model: from a fit and its table to a `Leakage`, [Hannun21] eq. 16-18."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.glm.attacks.membership import membership
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.training_table import refuse_other_table
from dosimeter.glm.fitting.wide_fit import WideFit
from dosimeter.glm.jacobians.dense_jacobian import Jacobian
from dosimeter.glm.jacobians.jacobian_of_fit import jacobian_of_margin, softmax_jacobian
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.precision import refuse_imprecise
from dosimeter.glm.linalg.validation import HUGE, TINY, as_floats
from dosimeter.glm.losses.softmax import Softmax
from dosimeter.glm.row_maps.mapped_jacobian import with_row_map
from dosimeter.glm.row_maps.row_maps import RowMap
from dosimeter.glm.scalers.fitted_scaler import fold_leakage
from dosimeter.glm.scalers.scaler import Scaler
from dosimeter.glm.wide.wide_measure import measure_wide


def measure(
    fit: Fit,
    X: Any,
    y: Any,
    noise: Noise,
    *,
    include_target: bool = True,
    input_map: Any = None,
    target_unit: float = 1.0,
    scaled: Any = None,
) -> Leakage:
    """Fisher information loss of fit.w + noise about its training table.

    Parameters
    ----------
    fit : Fit
        The exact fit, from `glm.fit`.
    X, y : array_like of shape (n, d) and (n,)
        The training table, in the same order.
    noise : Noise
        The noise on the weights, e.g. `Gaussian(0.1)`, or `no_noise` for an exact release.
    include_target : bool, default True
        Whether a row's target is unknown too.
    input_map : array_like of shape (d, m), or RowMap, optional
        P = dx/dz, the frozen map from the unknown quantities z to the columns of X (a scaler, a change of unit); a
        `RowMap` if it differs from row to row (steps that bend). Default: the identity, so figures are per unit of X.
    target_unit : float, default 1
        How much of y one unit of the unknown target is.
    scaled : array_like of bool, shape (d,), optional
        Columns of X that were standardised by their own mean and deviation (1/n). The figures are then those of the
        noised weights in raw units and account for mean and deviation (docs/explanation/scaler.md). Default:
        `input_map` is regarded as public.

    Returns
    -------
    Leakage
        η of rows, cells, columns, groups and the table. Internal.

    Raises
    ------
    Refusal
        If the table is not the one of the fit, or float64 leaves too few digits.
    CannotMeasure
        If the noise has no Fisher information.

    Notes
    -----
    η = ||W J||₂ with J = dw/dz of eq. 18 and W the whitening of the noise; eq. 17 of [Hannun21]. An offset of the fit
    is a known constant. For a loss with kinks, `Leakage.kink_distances` says how far each row is from one.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5)).labels.round(4)      # x / Σx² / σ
    array([0.1429, 0.2857, 0.4286])
    """
    return LeakageOfFit(fit, X, y, include_target, input_map, target_unit)(noise, scaled)


class LeakageOfFit:
    """The leakage of a fit under any noise: what does not depend on the noise is checked and computed once.

    Independent noise of any law and scale multiplies the whole Jacobian by one number, so that its figures have the
    digits of any other. Arguments as in `measure`.
    """

    def __init__(
        self, fit: Fit, X: Any, y: Any, include_target: bool = True, input_map: Any = None, target_unit: float = 1.0
    ) -> None:
        self.fit, self.X, self.y = fit, X, y
        self.include_target, self.input_map, self.target_unit = include_target, input_map, target_unit
        self._precise = False
        self._scalers: dict[bytes, Scaler] = {}

    def __call__(self, noise: Noise, scaled: Any = None) -> Leakage:
        """Of fit.w + noise."""
        # Check for one of our laws first: the check of the protocol costs as much as a pass over a small table.
        if not isinstance(noise, Density | Noise):
            raise Refusal(f"noise must be a noise such as Gaussian(0.1), or no_noise, not {noise!r}")
        fit = self.fit
        if isinstance(fit, WideFit):
            options = {"input_map": self.input_map, "target_unit": self.target_unit, "scaled": scaled}
            return measure_wide(fit, self.X, self.y, noise, include_target=self.include_target, **options)
        X, y, P, row_map = self._table
        has_noise = noise is not no_noise
        whiten = (noise if has_noise else Gaussian(1.0)).whiten
        jacobian: Jacobian
        if isinstance(fit.loss, Softmax):
            jacobian = softmax_jacobian(fit, X, P, whiten, self.target_unit)
        else:
            jacobian = jacobian_of_margin(fit, X, P, whiten(fit.factor.matrix @ fit.inner), self.target_unit)

        def members() -> FloatArray:
            return membership(fit, X, y, noise).mu

        if not self._precise:
            refuse_imprecise(fit, jacobian)
        self._precise = self._precise or isinstance(noise, Density) or not has_noise
        kinks = (lambda: fit.kink_distances) if fit.loss.has_kinks else None
        leak = Leakage(jacobian, noise, self.include_target, has_noise, members=members, kinks=kinks)
        leak = leak if scaled is None or not np.any(scaled) else fold_leakage(leak, fit, self._scaler(X, scaled, P))
        return leak if row_map is None else with_row_map(leak, row_map)

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray, FloatArray, RowMap | None]:
        """X (n, d), y (n,), the map of a row's unknowns (p, m), and the maps that differ by row."""
        X, y = as_floats(self.X, "X"), as_floats(self.y, "y")
        refuse_other_table(self.fit, X, y)
        d, input_map, target_unit = X.shape[1], self.input_map, self.target_unit
        row_map = input_map if isinstance(input_map, RowMap) else None
        if row_map is not None and (row_map.d != d or row_map.m == 0):
            raise Refusal(f"input_map must map unknowns to the {d} columns of X, not to {row_map.d}")
        P = np.eye(d) if input_map is None or row_map is not None else as_floats(input_map, "input_map")
        if P.ndim != 2 or len(P) != d or P.shape[1] == 0 or not np.abs(P).max() <= HUGE:
            raise Refusal(
                f"input_map must be a ({d}, m) array, m > 0, of numbers up to {HUGE:g}, not of shape {P.shape}"
            )
        if not isinstance(target_unit, int | float | np.number) or not TINY <= target_unit <= HUGE:
            raise Refusal(f"target_unit must be a number from {TINY:g} to {HUGE:g}, not {target_unit!r}")
        return X, y, np.vstack([P, np.zeros((1, P.shape[1]))]) if self.fit.intercept else P, row_map

    def _scaler(self, X: FloatArray, scaled: Any, P: FloatArray) -> Scaler:
        key = np.asarray(scaled).tobytes()
        if key not in self._scalers:
            self._scalers[key] = Scaler.of(X, scaled, P[: X.shape[1]])
        return self._scalers[key]
