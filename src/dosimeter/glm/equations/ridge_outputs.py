"""Ridge regression of several targets, and the ridge classifier: squared losses on one table, released together.

| model                | outputs Y              | penalty nλ       | target                    |
| Ridge, several targets | the K targets        | alpha, of each   | K numbers                 |
| RidgeClassifier, two classes | ±1, one output | alpha            | one class, dY/dy = 2      |
| RidgeClassifier, K > 2 | ±1 for each class    | alpha            | one class of K, dY/de = 2 |
"""

from __future__ import annotations

from typing import Any

from dosimeter.glm.equations.class_target import check_classes, class_kind, indicator_moves, indicators
from dosimeter.glm.equations.joint_outputs import JointOutputs, joint_outputs, several_outputs
from dosimeter.glm.losses.label_weights import LabelWeights
from dosimeter.glm.losses.loss import Squared


def ridge_outputs(
    X: Any, Y: Any, alpha: Any = 1.0, *, sample_weight: Any = None, intercept: bool = False
) -> JointOutputs:
    """Ridge with several targets: argmin Σ ω ||Wᵀx + b - y||² + Σ_k alpha_k ||w_k||².

    Parameters
    ----------
    X, Y : array_like of shape (n, d) and (n, K)
        The table and its targets.
    alpha : float or array_like of shape (K,), default 1
        The penalty, or one for each target; 0 for LinearRegression.
    sample_weight : array_like of shape (n,), optional
        ω; default ones.
    intercept : bool, default False
        Whether each target has an unpenalised intercept.

    Returns
    -------
    JointOutputs
        Internal.

    Raises
    ------
    Refusal
        If a shape is wrong.

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0, 0.0], [2.0, 1.0], [4.0, 0.0]])
    >>> ridge_outputs(X, Y, [0.0, 14.0]).solve().theta.round(4)
    array([1.2143, 0.0714])
    """
    return several_outputs(X, Y, Squared(), alpha, sample_weight=sample_weight, intercept=intercept)


def ridge_classifier(
    X: Any, y: Any, n_classes: int, alpha: float = 1.0, *, sample_weight: Any = None, intercept: bool = False,
    label_weights: tuple[LabelWeights, ...] = (),
) -> JointOutputs:  # fmt: skip
    """RidgeClassifier: a ridge regression of ±1 for each class, released together; one output for two classes.

    Parameters
    ----------
    X, y : array_like of shape (n, d) and (n,)
        The table and the class number of each row, from 0.
    n_classes : int
        K.
    alpha, sample_weight, intercept
        As in `ridge_outputs`.
    label_weights
        What each row weighs with each class, for each output, if that depends on the class.

    Returns
    -------
    JointOutputs
        The target of a row is its class: a step from one to another moves two outputs. Internal.

    Raises
    ------
    Refusal
        If a class has no row.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[1.0], [2.0], [-1.0]]), np.array([1.0, 1.0, 0.0])
    >>> ridge_classifier(X, y, 2, 0.0).solve().theta.round(4)
    array([0.6667])
    """
    X, y, weight = check_classes(X, y, n_classes, sample_weight)
    e, T = indicators(y, n_classes), indicator_moves(n_classes)
    if n_classes == 2:
        e, T = e[:, 1:], T[1:]
    losses = [Squared()] * e.shape[1]
    kind = class_kind(n_classes)
    return joint_outputs(X, y, 2.0 * e - 1.0, losses, alpha, weight, intercept, 2.0 * T, kind, label_weights)
