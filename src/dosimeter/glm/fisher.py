"""Fisher information loss of a noised linear model: from a fit and its table to a `Leakage`, [Hannun21] eq. 16-18."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.glm.cox_jacobian import CoxJacobian
from dosimeter.glm.dense_jacobian import Jacobian, StackedJacobian
from dosimeter.glm.fitted_scaler import fold_leakage
from dosimeter.glm.inverse_hessian import times
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.mapped_jacobian import MappedJacobian, with_row_map
from dosimeter.glm.minimiser import Fit
from dosimeter.glm.precision import refuse_imprecise
from dosimeter.glm.row_maps import RowMap
from dosimeter.glm.scalar_jacobian import ScalarJacobian
from dosimeter.glm.scaled_jacobian import ScaledJacobian
from dosimeter.glm.scaler import Scaler
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.softmax_response import Response
from dosimeter.glm.validation import HUGE, TINY, as_floats, check_table
from dosimeter.glm.wide_fit import WideFit


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
            from dosimeter.glm.wide_measure import measure_wide  # imported late: it imports this module

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
            from dosimeter.glm.membership import membership  # imported late: it imports this module

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


def compose(leaks: Iterable[Leakage]) -> Leakage:
    """Several releases of one table with independent noise, together: their Fisher matrices add exactly.

    Parameters
    ----------
    leaks : iterable of Leakage
        One per release, of the same table in the same units.

    Returns
    -------
    Leakage
        Internal.

    Raises
    ------
    Refusal
        If the tables, units or targets differ.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = measure(glm.fit(X, y, glm.Squared()), X, y, Gaussian(0.5))
    >>> bool(np.allclose(compose([leak, leak]).examples, np.sqrt(2) * leak.examples))
    True
    """
    parts = tuple(leaks)
    if not parts:
        raise Refusal("compose needs at least one release")
    first = parts[0]
    for other in parts[1:]:
        if (other.n, other.m, other.include_target) != (first.n, first.m, first.include_target) or not _same_table(
            other.jacobian, first.jacobian
        ):
            raise Refusal(
                "only releases of the same table, in the same units and with the same include_target, compose exactly"
            )
    has_noise = all(k.has_noise for k in parts)
    stacked = StackedJacobian(tuple(k.jacobian for k in parts))
    kinks = (lambda: np.min([k.kink_distances for k in parts], axis=0)) if any(k.kinks for k in parts) else None
    return Leakage(stacked, None, first.include_target, has_noise, f"{len(parts)} releases", kinks=kinks)


def _same_table(a: Jacobian, b: Jacobian) -> bool:
    """Whether two Jacobians are about the same cells: one table, one map from unknowns to columns."""
    a, b = (j.parts[0] if isinstance(j, StackedJacobian) else j for j in (a, b))
    if isinstance(a, MappedJacobian) and isinstance(b, MappedJacobian):
        return a.n == b.n and a.maps.equals(b.maps, a.n) and _same_table(a.inner, b.inner)
    a, b = (j.base if isinstance(j, ScaledJacobian) else j for j in (a, b))
    known = ScalarJacobian | SoftmaxJacobian | CoxJacobian
    if not (isinstance(a, known) and isinstance(b, known)):
        return False
    if getattr(a, "target", None) != getattr(b, "target", None):  # another part of a Cox model's outcome
        return False
    d = a.X.shape[1]
    same_map = np.array_equal(a.P[:d], b.P[: b.X.shape[1]])
    same_target = a.target_unit == b.target_unit and a.target_width == b.target_width and np.array_equal(a.y, b.y)
    return same_map and same_target and (a.X is b.X or np.array_equal(a.X, b.X))


def jacobian_of_margin(fit: Fit, X: FloatArray, P: FloatArray, F: FloatArray, unit: float) -> ScalarJacobian:
    """The Jacobian of a loss with one margin: P (p, m) as `ScalarJacobian.P`, F (k, p) whitened, unit of the target."""
    omega, unweighted = fit.sample_weight, bool((fit.sample_weight == 1.0).all())
    c = fit.target_response
    return ScalarJacobian(
        X=X,
        factor=fit.factor,
        F=F,
        P=P,
        g=P.T @ fit.w,
        a=fit.curvature if unweighted else omega * fit.curvature,
        r=fit.residual if unweighted else omega * fit.residual,
        c=c if unit == 1.0 else c * unit,
        y=fit.y,
        target_unit=float(unit),
    )


def softmax_jacobian(
    fit: Fit, X: FloatArray, P: FloatArray, whiten: Callable[[FloatArray], FloatArray], unit: float
) -> SoftmaxJacobian:
    """The Jacobian of a softmax fit: P (p, m) as `SoftmaxJacobian.P`, unit of the target."""
    omega, loss, A = fit.sample_weight, fit.loss, fit.factor.matrix
    if not isinstance(loss, Softmax):
        raise TypeError("this Jacobian is for softmax")
    moves = fit.inner @ fit.inner.T  # one symmetric product; (I ⊗ A) from the left is one small product per class
    N = whiten((A @ moves.reshape(-1, len(A), len(moves))).reshape(moves.shape))
    return SoftmaxJacobian(
        X=X,
        factor=fit.factor,
        response=Response(N, fit.w.shape[1]),
        P=P,
        V=fit.w,
        C=loss.contrast * unit,
        S=omega[:, None, None] * fit.curvature,
        rho=omega[:, None] * fit.residual,
        weight=omega,
        y=fit.y,
        target_unit=float(unit),
        label_moves=None if fit.label_moves is None else fit.label_moves * unit,
    )


def refuse_other_table(fit: Fit, X: FloatArray, y: FloatArray) -> None:
    """Refuse a table that is not the training table, where alone the Jacobian holds: its margins must be reproduced.

    One product with w also finds numbers that are not finite, so the table is read once here.
    """
    if X.shape != (fit.n, len(fit.coef)):
        raise Refusal(f"the model was fitted on a table of shape {(fit.n, len(fit.coef))}, not {X.shape}")
    w = fit.w.reshape(len(fit.w), -1)
    direction = np.append(fit.fingerprint_direction, [0.0] * fit.intercept)[:, None]
    products = times(X, np.hstack([w, direction]))
    if fit.offset is not None:
        products[:, :-1] += fit.offset[:, None]
    same_margin = np.abs(products[:, :-1] - fit.margin.reshape(fit.n, -1)) <= 1e-6 * fit.reach
    same_fingerprint = np.abs(products[:, -1] - fit.fingerprint) <= 1e-9 * len(direction)
    if not (same_margin.all() and same_fingerprint.all() and np.array_equal(y, fit.y)):
        check_table(X, y)
        wrong_row = ~(same_margin.all(axis=1) & same_fingerprint)
        raise Refusal(_not_the_row(wrong_row if wrong_row.any() else y != fit.y))


def _not_the_row(wrong: Mask) -> str:
    row = int(np.argwhere(wrong)[0][0])
    return f"row {row} is not the row that the model was fitted on: pass the training table in the same order"
