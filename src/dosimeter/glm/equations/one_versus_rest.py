"""One-versus-rest classification: a scalar loss for each class against the others, released together.

Output k has the indicator of class k as its target. A row has one class, so its target moves all outputs: from a to b
the outputs a and b move, and all others stay (`equations/class_target.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.glm.equations.class_target import check_classes, class_kind, indicator_moves, indicators
from dosimeter.glm.equations.joint_outputs import JointOutputs, joint_outputs
from dosimeter.glm.losses.loss import ScalarLoss


def one_versus_rest(
    X: Any,
    y: Any,
    n_classes: int,
    loss: ScalarLoss,
    penalty: Any = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
) -> JointOutputs:
    """OneVsRestClassifier of a scalar loss: one output for each class, or one for two classes.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table and the class number of each row, from 0.
    n_classes : int
        K.
    loss : ScalarLoss
        The loss of each output, with targets 0 and 1: `Logistic()`, or `Squared()`.
    penalty : float or array_like of shape (K,), default 0
        nλ: 1/C of LogisticRegression.
    sample_weight : array_like of shape (n,) or (n, K), optional
        ω; one column for each output if classes are weighted in each of them.
    intercept : bool, default False
        Whether each output has an unpenalised intercept.

    Returns
    -------
    JointOutputs
        Internal.

    Raises
    ------
    Refusal
        If a class has no row.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [-1.0], [0.5]]), np.array([0.0, 1.0, 2.0, 1.0])
    >>> one_versus_rest(X, y, 3, glm.Logistic(), 1.0).solve().theta.shape
    (3,)
    """
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight is not None and weight.ndim == 2 and len(weight) != len(np.asarray(y)):
        raise Refusal(f"sample_weight must have one row for each of the {len(np.asarray(y))} rows")
    row_weight = weight.max(axis=1) if weight is not None and weight.ndim == 2 else weight
    X, y, _ = check_classes(X, y, n_classes, row_weight)
    e, T = indicators(y, n_classes), indicator_moves(n_classes)
    if n_classes == 2:
        e, T = e[:, 1:], T[1:]
    kind = class_kind(n_classes)
    return joint_outputs(X, y, e, [loss] * e.shape[1], penalty, weight, intercept, T, kind)
