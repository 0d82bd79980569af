"""Fisher information loss of a noised linear model: from a fit and its table to a `Leakage`, [Hannun21] eq. 16-18."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Density, Gaussian, Noise, no_noise
from dosimeter.glm.dense_jacobian import Jacobian, SoftmaxJacobian, StackedJacobian
from dosimeter.glm.fit import Fit
from dosimeter.glm.fitted_scaler import ScaledJacobian, through_scaler
from dosimeter.glm.inverse_hessian import times
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.precision import refuse_imprecise
from dosimeter.glm.scalar_jacobian import ScalarJacobian
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.validation import HUGE, TINY, as_floats, check_table


def measure(
    fit: Fit,
    X: Any,
    y: Any,
    noise: Noise,
    *,
    label: bool = True,
    through: Any = None,
    label_unit: float = 1.0,
    scaled: Any = None,
) -> Leakage:
    """The leakage of fit.w + noise about its training table X (n, d), y (n,).

    through: (d, m) frozen map from the unknown quantities to the columns of X (a scaler, a change of unit); identity
    if None. label_unit: how much of y one unit of the unknown label is. scaled: (d,) which columns of X were
    standardised by their own mean and deviation (1/n); the figure is then that of the noised weights folded into raw
    units, through mean and deviation (docs/scaler.md). None regards `through` as public.
    """
    # A law of ours first: the question about the protocol costs as much as a pass over a small table.
    if not isinstance(noise, Density | Noise):
        raise Refusal(f"noise is a noise such as Gaussian(0.1), or no_noise, not {noise!r}")
    X, y = as_floats(X, "X"), as_floats(y, "y")
    refuse_other_table(fit, X, y)
    d = X.shape[1]
    P = np.eye(d) if through is None else as_floats(through, "through")
    if P.ndim != 2 or len(P) != d or P.shape[1] == 0 or not np.abs(P).max() <= HUGE:
        raise Refusal(f"`through` is a ({d}, m) array, m > 0, of numbers up to {HUGE:g}; its shape is {P.shape}")
    if not isinstance(label_unit, int | float | np.number) or not TINY <= label_unit <= HUGE:
        raise Refusal(f"label_unit is a number from {TINY:g} to {HUGE:g}, not {label_unit!r}")
    P = np.vstack([P, np.zeros((1, P.shape[1]))]) if fit.intercept else P
    bounded = noise is not no_noise
    classes, one = len(fit.inner) // len(fit.factor.basis), fit.factor.matrix
    left = (one if classes == 1 else np.kron(np.eye(classes), one)) @ fit.inner
    F = (noise if bounded else Gaussian(1.0)).whiten(left)
    jacobian: Jacobian
    if isinstance(fit.loss, Softmax):
        jacobian = _softmax(fit, X, P, F, label_unit)
    else:
        jacobian = _scalar(fit, X, P, F, label_unit)

    def members() -> FloatArray:
        from dosimeter.glm.membership import membership  # late: it reads fits and tables as this module does

        return membership(fit, X, y, noise).mu

    refuse_imprecise(fit, jacobian)
    leak = Leakage(jacobian, noise, label, bounded, members=members)
    return leak if scaled is None or not np.any(scaled) else through_scaler(leak, fit, X, scaled, P[:d])


def compose(leaks: Iterable[Leakage]) -> Leakage:
    """Several releases of one table with independent noise, exactly: their Fisher matrices add."""
    parts = tuple(leaks)
    if not parts:
        raise Refusal("compose needs at least one release")
    first = parts[0]
    for other in parts[1:]:
        if (other.n, other.m, other.label) != (first.n, first.m, first.label) or not _same_table(
            other.jacobian, first.jacobian
        ):
            raise Refusal("only releases of the same table, in the same units, with the label alike, compose exactly")
    bounded = all(k.bounded for k in parts)
    stacked = StackedJacobian(tuple(k.jacobian for k in parts))
    return Leakage(stacked, None, first.label, bounded, f"{len(parts)} releases")


def _same_table(a: Jacobian, b: Jacobian) -> bool:
    """Whether two Jacobians are about the same cells: one table, one map from unknowns to columns."""
    a, b = (j.parts[0] if isinstance(j, StackedJacobian) else j for j in (a, b))
    a, b = (j.base if isinstance(j, ScaledJacobian) else j for j in (a, b))
    if not (isinstance(a, ScalarJacobian | SoftmaxJacobian) and isinstance(b, ScalarJacobian | SoftmaxJacobian)):
        return False
    d = a.X.shape[1]
    same_map = np.array_equal(a.P[:d], b.P[: b.X.shape[1]])
    same_label = a.label_unit == b.label_unit and a.label_width == b.label_width and np.array_equal(a.y, b.y)
    return same_map and same_label and (a.X is b.X or np.array_equal(a.X, b.X))


def _scalar(fit: Fit, X: FloatArray, P: FloatArray, F: FloatArray, unit: float) -> ScalarJacobian:
    omega, plain = fit.sample_weight, bool((fit.sample_weight == 1.0).all())
    return ScalarJacobian(
        X=X,
        factor=fit.factor,
        F=F,
        P=P,
        g=P.T @ fit.w,
        a=fit.curvature if plain else omega * fit.curvature,
        r=fit.residual if plain else omega * fit.residual,
        c=omega if unit == 1.0 else omega * unit,
        y=fit.y,
        label_unit=float(unit),
    )


def _softmax(fit: Fit, X: FloatArray, P: FloatArray, F: FloatArray, unit: float) -> SoftmaxJacobian:
    omega, loss = fit.sample_weight, fit.loss
    if not isinstance(loss, Softmax):
        raise TypeError("this Jacobian is for softmax")
    return SoftmaxJacobian(
        X=X,
        factor=fit.factor,
        N=F @ fit.inner.T,
        P=P,
        V=fit.w,
        C=loss.contrast * unit,
        S=omega[:, None, None] * fit.curvature,
        rho=omega[:, None] * fit.residual,
        weight=omega,
        y=fit.y,
        label_unit=float(unit),
    )


def refuse_other_table(fit: Fit, X: FloatArray, y: FloatArray) -> None:
    """The Jacobian holds at the training table only: its margins must come out again.

    One product with w also finds what is not finite, so the table is read once here.
    """
    if X.shape != (fit.n, len(fit.coef)):
        raise Refusal(f"the fit saw a table of shape {(fit.n, len(fit.coef))}, this one has {X.shape}")
    w = fit.w.reshape(len(fit.w), -1)
    mark = np.append(fit.mark, [0.0] * fit.intercept)[:, None]
    seen = times(X, np.hstack([w, mark]))
    near = np.abs(seen[:, :-1] - fit.margin.reshape(fit.n, -1)) <= 1e-6 * fit.reach
    alike = np.abs(seen[:, -1] - fit.marks) <= 1e-9 * len(mark)
    if not (near.all() and alike.all() and np.array_equal(y, fit.y)):
        check_table(X, y)
        off = ~(near.all(axis=1) & alike)
        raise Refusal(_not_the_row(off if off.any() else y != fit.y))


def _not_the_row(wrong: Mask) -> str:
    row = int(np.argwhere(wrong)[0][0])
    return f"row {row} is not the row that the model was fitted on: pass the training table in the same order"
