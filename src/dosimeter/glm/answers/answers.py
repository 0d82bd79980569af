"""What answers to queries leak about the table: the leakage of functions of the weights, with noise on each answer.

    η = ‖R Jᵢ‖₂,   J = d(parameters)/d(unknowns of row i),   R of `answer_information.py`

The model itself is not released. Noise is on the answers in their own unit, so a scaler that was fitted on the table
has no part that noise does not remove: its mean and deviation count only through the answers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.glm.answers.answer_information import Answer, AnswerInformation
from dosimeter.glm.equations.estimating_jacobian import EstimatingJacobian
from dosimeter.glm.fisher import measure
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Jacobian, Rows
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.jacobians.softmax_response import Response
from dosimeter.glm.row_maps.mapped_jacobian import MappedJacobian
from dosimeter.glm.scalers.scaled_jacobian import ScaledJacobian
from dosimeter.glm.scalers.statistic_jacobian import LargerOf, StatisticJacobian
from dosimeter.glm.wide.wide_leakage import WideLeakage


def measure_answers(
    fit: Fit,
    X: Any,
    y: Any,
    queries: Any,
    noise: Noise,
    *,
    answer: Answer | str = Answer.MARGINS,
    include_target: bool = True,
    input_map: Any = None,
    target_unit: float = 1.0,
    scaled: Any = None,
) -> Leakage:
    """Fisher information loss of noised answers to public queries about the training table.

    Parameters
    ----------
    fit : Fit
        The exact fit that answers.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    queries : array_like of shape (k, d)
        Public rows, in the columns of X.
    noise : Noise
        Independent noise on each answer, or `no_noise`.
    answer : {"margins", "predictions", "labels"}
        What is answered: `Answer`.
    include_target, input_map, target_unit, scaled
        As for `glm.measure`. With `scaled` the queries are standardised by the same mean and deviation.

    Returns
    -------
    Leakage
        η of rows, cells, columns, groups and the table. Internal. An upper bound where `AnswerInformation.standing`
        is one.

    Raises
    ------
    Refusal
        If queries or table do not fit.
    CannotMeasure
        If such answers have no Fisher information: exact labels, or noise without one.

    Notes
    -----
    Answers are functions of the weights, so η never exceeds that of weights released with noise of which the answers'
    noise is a function, and never falls as queries are added.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> fit = glm.fit(X, y, glm.Squared())
    >>> measure_answers(fit, X, y, [[1.0]], Gaussian(0.5)).labels.round(4)       # x / Σx² / σ, as for the weight itself
    array([0.1429, 0.2857, 0.4286])
    >>> measure_answers(fit, X, y, [[1.0]] * 4, Gaussian(0.5)).labels.round(4)   # four answers: twice as much
    array([0.2857, 0.5714, 0.8571])
    """
    options = {"include_target": include_target, "input_map": input_map, "target_unit": target_unit, "scaled": scaled}
    information = AnswerInformation.of(fit, queries, noise, answer)
    return leakage_of_answers(measure(fit, X, y, Gaussian(1.0), **options), information)


def leakage_of_answers(unit: Leakage, information: AnswerInformation) -> Leakage:
    """The leakage of answers, from that of the parameters themselves with `Gaussian(1.0)` on each.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> fit = glm.fit(X, y, glm.Squared())
    >>> answers = AnswerInformation.of(fit, [[3.0]], Gaussian(0.5))
    >>> leakage_of_answers(glm.measure(fit, X, y, Gaussian(1.0)), answers).labels.round(4)
    array([0.4286, 0.8571, 1.2857])
    """
    if unit.noise != Gaussian(1.0):
        raise Refusal(f"the leakage of the parameters must be with Gaussian(1.0), not {unit.noise}")
    if isinstance(unit, WideLeakage):
        raise CannotMeasure("answers of a model with more columns than rows, or of a sparse table, have no figure here")
    return replace(
        unit,
        jacobian=through(unit.jacobian, information.root),
        noise=None,
        has_noise=information.has_noise,
        of=f"{information.answers} answers",
        members=None,
    )


@singledispatch
def through(jacobian: Any, root: FloatArray) -> Jacobian:
    """R J for every row."""
    raise CannotMeasure(f"answers of this model are not measured ({type(jacobian).__name__})")


@through.register
def _(jacobian: ScalarJacobian, root: FloatArray) -> Jacobian:
    return replace(jacobian, F=root @ jacobian.F)


@through.register
def _(jacobian: SoftmaxJacobian, root: FloatArray) -> Jacobian:
    return replace(jacobian, response=Response(root @ jacobian.N, jacobian.response.classes))


@through.register
def _(jacobian: ScaledJacobian, root: FloatArray) -> Jacobian:
    """The mean alone: noise on answers does not pass through the fold, so that it has no floor."""
    none = np.zeros((0, 2 * len(jacobian.scaler.features)))
    return replace(
        jacobian,
        base=through(jacobian.base, root),
        moved=root @ jacobian.moved,
        shifted=root @ jacobian.shifted,
        root=none,
        floor=replace(jacobian.floor, root=none),
    )


@through.register
def _(jacobian: StatisticJacobian, root: FloatArray) -> Jacobian:
    return replace(
        jacobian,
        base=through(jacobian.base, root),
        by_scale=root @ jacobian.by_scale,
        by_mean=root @ jacobian.by_mean,
    )


@through.register
def _(jacobian: LargerOf, root: FloatArray) -> Jacobian:
    return LargerOf(through(jacobian.outwards, root), through(jacobian.inwards, root))


@through.register
def _(jacobian: MappedJacobian, root: FloatArray) -> Jacobian:
    return replace(jacobian, inner=through(jacobian.inner, root))


@through.register
def _(jacobian: EstimatingJacobian, root: FloatArray) -> Jacobian:
    return AnswersJacobian(jacobian, root)


@dataclass(frozen=True, eq=False)
class AnswersJacobian(DenseJacobian):
    """R J written out, for a Jacobian that has no factors of its own."""

    inner: Jacobian
    root: FloatArray
    """(r, q)."""

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.inner.n

    @property
    def m(self) -> int:  # type: ignore[override]
        return self.inner.m

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return self.inner.target_width

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.root)

    def dense(self, rows: Rows) -> FloatArray:
        return np.asarray(self.root @ self.inner.dense(rows))
