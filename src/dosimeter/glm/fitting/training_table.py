"""Whether a table is the one that a model was fitted on."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.linalg.inverse_hessian import times
from dosimeter.glm.linalg.validation import check_table


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
