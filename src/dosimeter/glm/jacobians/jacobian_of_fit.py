"""The Jacobian of a fit: what `Fit` holds, whitened by the noise, as the factors of eq. 18 of [Hannun21]."""

from __future__ import annotations

from collections.abc import Callable

from dosimeter.core.arrays import FloatArray
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.jacobians.softmax_response import Response
from dosimeter.glm.losses.softmax import Softmax


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
