"""Fisher information loss of a noised linear model: from a fit and its table to a `Leakage` ([Hannun21] eq. 16 to 18)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dosimeter.core.noise import Gaussian, Noise, no_noise
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import Refusal
from dosimeter.glm.dense import Jacobian, SoftmaxJacobian, StackedJacobian
from dosimeter.glm.factor import times
from dosimeter.glm.fit import Fit
from dosimeter.glm.leakage import Leakage
from dosimeter.glm.scalar import ScalarJacobian
from dosimeter.glm.softmax import Softmax
from dosimeter.glm.table import check_table


def measure(
    fit: Fit,
    X: Any,
    y: Any,
    noise: Noise,
    *,
    label: bool = True,
    through: Any = None,
    label_unit: float = 1.0,
) -> Leakage:
    """The leakage of fit.w + noise about its training table X (n, d), y (n,).

    through: (d, m) frozen map from the unknown quantities to the columns of X (a scaler, a change of unit); identity
    if None. label_unit: how much of y one unit of the unknown label is.
    """
    X, y = (np.ascontiguousarray(v, dtype=np.float64) for v in (X, y))
    _refuse_other_table(fit, X, y)
    d = X.shape[1]
    P = np.eye(d) if through is None else np.asarray(through, dtype=np.float64)
    if P.ndim != 2 or len(P) != d or not np.isfinite(P).all():
        raise Refusal(f"`through` is a finite ({d}, m) array, not of shape {P.shape}")
    if not (np.isfinite(label_unit) and label_unit > 0):
        raise Refusal(f"label_unit is a finite number > 0, not {label_unit}")
    P = np.vstack([P, np.zeros((1, P.shape[1]))]) if fit.intercept else P
    bounded = noise is not no_noise
    F = (noise if bounded else Gaussian(1.0)).whiten(fit.factor)
    jacobian: Jacobian
    if isinstance(fit.loss, Softmax):
        jacobian = _softmax(fit, X, y, P, F, label_unit)
    else:
        jacobian = _scalar(fit, X, y, P, F, label_unit)
    return Leakage(jacobian, noise, label, bounded)


def compose(leaks: Iterable[Leakage]) -> Leakage:
    """Several releases of one table with independent noise, exactly: their Fisher matrices add."""
    parts = tuple(leaks)
    if not parts:
        raise Refusal("compose needs at least one release")
    shapes = {(k.n, k.m, k.jacobian.label_width, k.label) for k in parts}
    if len(shapes) > 1:
        raise Refusal("only releases of the same table compose exactly (same rows, columns and label)")
    bounded = all(k.bounded for k in parts)
    return Leakage(StackedJacobian(tuple(k.jacobian for k in parts)), None, parts[0].label, bounded)


def _scalar(fit: Fit, X: FloatArray, y: FloatArray, P: FloatArray, F: FloatArray, unit: float) -> ScalarJacobian:
    omega, loss = fit.sample_weight, fit.loss
    if isinstance(loss, Softmax):
        raise TypeError("softmax has its own Jacobian")
    return ScalarJacobian(
        X=X,
        T=fit.factor,
        F=F,
        P=P,
        g=P.T @ fit.w,
        a=omega * loss.curvature(fit.margin),
        r=omega * loss.residual(fit.margin, y),
        c=omega * unit,
        condition=fit.condition,
    )


def _softmax(fit: Fit, X: FloatArray, y: FloatArray, P: FloatArray, F: FloatArray, unit: float) -> SoftmaxJacobian:
    omega, loss = fit.sample_weight, fit.loss
    if not isinstance(loss, Softmax):
        raise TypeError("this Jacobian is for softmax")
    return SoftmaxJacobian(
        X=X,
        N=F @ fit.factor.T,
        P=P,
        V=fit.w,
        C=loss.contrast * unit,
        S=omega[:, None, None] * loss.curvature(fit.margin),
        rho=omega[:, None] * loss.residual(fit.margin, y),
        weight=omega,
    )


def _refuse_other_table(fit: Fit, X: FloatArray, y: FloatArray) -> None:
    """The Jacobian holds at the training table only: its margins must come out again.

    One product with w also finds what is not finite, so the table is read once here.
    """
    if X.shape != (fit.n, len(fit.coef)):
        raise Refusal(f"the fit saw a table of shape {(fit.n, len(fit.coef))}, this one has {X.shape}")
    margin = times(X, fit.w.reshape(len(fit.w), -1)).reshape(fit.margin.shape)
    off = ~(np.abs(margin - fit.margin) <= 1e-6 * fit.reach + 1e-12)
    if off.any() or y.shape != (fit.n,) or not np.isfinite(y).all():
        check_table(X, y)
        raise Refusal(
            f"row {int(np.argwhere(off)[0][0])} is not the row that the model was fitted on: pass the training table in "
            "the same order"
        )
    fit.loss.check(y)
