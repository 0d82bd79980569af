"""Cases in which eq. 13 has no finite or no unique minimiser, refused before any arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.glm.losses.softmax import Softmax


def refuse_if_unbounded(y: FloatArray, weight: FloatArray, loss: Any, l2: FloatArray, intercept: bool) -> None:
    """The cases that counting finds: too few rows, one class, no reference class, all counts zero; l2 (p,)."""
    used = y[weight > 0]
    free, free_columns = int((l2 == 0).sum()), int((l2[: len(l2) - intercept] == 0).sum())
    if free_columns and len(used) < free:
        raise Refusal(f"{len(used)} rows cannot determine {free} parameters without a penalty: use l2 > 0")
    if isinstance(loss, Softmax) and loss.reference is None and free:
        raise Refusal(
            "Softmax without a reference class has no unique minimiser (adding a vector to every class changes "
            "nothing): use Softmax(reference='mean'), Softmax(reference=0), or l2 > 0 without an intercept"
        )
    if not free:
        return
    cause = "l2 = 0" if free_columns else "an unpenalised intercept"
    if why := loss.no_minimiser(used):
        raise Refusal(f"{why}: with {cause} no unique finite minimiser exists")


FAR = 15.0
"""Margins beyond this make separation worth a linear programme: at 15 a logistic row is fitted to 3e-7."""


def refuse_if_separated(Z: FloatArray, y: FloatArray, loss: Any) -> None:
    """Refuse if some direction v never raises any row's loss and lowers one for ever.

    Along v the loss stays bounded iff s z·v >= 0 on every row and z·v = 0 on the fixed ones; such a v with one strict
    inequality is a direction in which eq. 13 (λ = 0) falls without end. max Σ s z·v with each term in [0, 1] finds it.
    """
    if isinstance(loss, Softmax):
        rows = _class_differences(Z, y, loss)
        fixed = np.empty((0, rows.shape[1]))
    else:
        sign, is_fixed = loss.recession(y)
        rows = sign[sign != 0, None] * Z[sign != 0]
        fixed = Z[is_fixed > 0]
    if falls_for_ever(rows, fixed):
        raise Refusal(
            "the columns separate the targets perfectly (or up to ties): without a penalty the weights grow to "
            "infinity; use l2 > 0"
        )


def falls_for_ever(rows: FloatArray, fixed: FloatArray) -> bool:
    """Whether some v has rows · v >= 0, not all zero, and fixed · v = 0: a direction in which a loss never stops
    falling. Both are (k, p).
    """
    rows, fixed = _unit_rows(rows), _unit_rows(fixed)
    if not len(rows):
        return False
    from scipy.optimize import linprog

    solution = linprog(
        -rows.sum(axis=0),
        A_ub=np.vstack([rows, -rows]),
        b_ub=np.repeat([1.0, 0.0], len(rows)),
        A_eq=fixed if len(fixed) else None,
        b_eq=np.zeros(len(fixed)) if len(fixed) else None,
        bounds=(None, None),
        method="highs",
    )
    return bool(solution.status == 0 and -solution.fun > 1e-6)


def inside_margins(Z: FloatArray, offset: FloatArray, lowest: float) -> FloatArray:
    """(p,) v with Z v + offset above `lowest` on every row, as far as a unit above it; refused if there is none."""
    scale = np.linalg.norm(Z, axis=1, keepdims=True)
    scale[scale == 0] = 1.0
    from scipy.optimize import linprog

    # max t with z·v + offset - lowest >= t |z|, t <= 1
    solution = linprog(
        np.append(np.zeros(Z.shape[1]), -1.0),
        A_ub=np.hstack([-Z / scale, np.ones((len(Z), 1))]),
        b_ub=(offset - lowest) / scale[:, 0],
        bounds=[(None, None)] * Z.shape[1] + [(None, 1.0)],
        method="highs",
    )
    if solution.status != 0 or not solution.x[-1] > 1e-9:
        raise Refusal(
            f"no weights give every row a margin above {lowest:g}, and this link has no mean at any other: add an "
            "intercept, or use the log link"
        )
    return np.asarray(solution.x[:-1])


def _unit_rows(rows: FloatArray) -> FloatArray:
    """Rows of length 1, so that the solver's tolerances mean the same for all; rows of zeros are dropped."""
    norms = np.linalg.norm(rows, axis=1)
    return np.asarray(rows[norms > 0] / norms[norms > 0, None])


def _class_differences(Z: FloatArray, y: FloatArray, loss: Softmax) -> FloatArray:
    """(n (K-1), p K') rows whose product with the parameters is margin(own class) - margin(other class)."""
    C = loss.contrast
    out = []
    for k in range(loss.n_classes):
        difference = C[y.astype(int)] - C[k]
        other = y != k
        out.append(np.einsum("nk,np->nkp", difference[other], Z[other]).reshape(int(other.sum()), -1))
    return np.concatenate(out)
