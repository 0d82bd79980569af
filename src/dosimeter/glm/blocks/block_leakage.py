"""What a release leaks about some rows of a table that is read in blocks, [Hannun21] eq. 16-18.

A row's Jacobian needs the row, the weights, the factor of the Hessian and, behind a fitted scaler, the number of rows:
all of it is known after the fit. So the `Leakage` of a block is that of its rows in the whole table, exactly. Figures
of columns over all rows are sums: `column_terms` of the blocks add up, and `column_norms` reads the total.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.engine import RowBlock
from dosimeter.core.noise import Gaussian, Noise, no_noise
from dosimeter.glm.fitting.block_fit import BlockFit
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import Jacobian
from dosimeter.glm.jacobians.jacobian_of_fit import jacobian_of_margin
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.precision import refuse_imprecise
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.scalers.fitted_scaler import fold_leakage
from dosimeter.glm.scalers.scaled_jacobian import ScaledJacobian
from dosimeter.glm.scalers.scaler import Scaler


def measure_block(
    fitted: BlockFit,
    block: RowBlock,
    noise: Noise,
    *,
    include_target: bool = True,
    input_map: FloatArray | None = None,
    target_unit: float = 1.0,
    scaled: Any = None,
) -> tuple[Leakage, Fit]:
    """The `Leakage` of the rows of one block, and their `Fit`; options as in `glm.measure`."""
    X, fit = block[0], fitted.rows(block)
    d = X.shape[1]
    P = np.eye(d) if input_map is None else np.asarray(input_map, dtype=np.float64)
    P = np.vstack([P, np.zeros((1, P.shape[1]))]) if fitted.intercept else P
    has_noise = noise is not no_noise
    F = (noise if has_noise else Gaussian(1.0)).whiten(fitted.factor.matrix)
    jacobian = jacobian_of_margin(fit, X, P, F, target_unit)
    refuse_imprecise(fit, jacobian)
    leak = Leakage(jacobian, noise, include_target, has_noise)
    if scaled is None or not np.any(scaled):
        return leak, fit
    return fold_leakage(leak, fit, Scaler.of_some_rows(X, scaled, P[:d], fitted.n)), fit


def column_terms(jacobian: Jacobian) -> tuple[Any, ...]:
    """What each unknown over all rows needs of these rows: a tuple of terms that add up over blocks."""
    if isinstance(jacobian, ScaledJacobian) and isinstance(jacobian.base, ScalarJacobian):
        separate = np.zeros((0, 0)) if jacobian.separate is None else jacobian.feature_sums(jacobian.base)
        return (*jacobian.base.column_sums(), separate)
    if isinstance(jacobian, ScalarJacobian):
        return (*jacobian.column_sums(), np.zeros((0, 0)))
    raise TypeError(f"no sums over blocks are known for {type(jacobian).__name__}")


def column_norms(jacobian: Jacobian, terms: tuple[Any, ...]) -> tuple[FloatArray, Any]:
    """(m,) ||J|| of each unknown over all rows from the summed terms, and (m,) where they lost too many digits.

    jacobian: that of any block; only its constants are used.
    """
    G, q, rho, features = terms
    base = jacobian.base if isinstance(jacobian, ScaledJacobian) else jacobian
    if not isinstance(base, ScalarJacobian):
        raise TypeError(f"no sums over blocks are known for {type(jacobian).__name__}")
    out, lost = base.column_norms_from((G, q, float(rho))), np.zeros(base.m, dtype=bool)
    if isinstance(jacobian, ScaledJacobian):
        touched = jacobian.scaler.touched
        lost[touched] = True
        if jacobian.separate is not None:
            out[touched], lost[touched] = jacobian.separate_column_norms(base, jacobian.separate, features)
    return out, lost
