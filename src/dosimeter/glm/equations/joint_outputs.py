"""Several outputs on one table, released together: K scalar losses of K margins, one minimisation each.

Output b minimises Σ ω l_b(w_b·x̃ᵢ, Y_ib) + (penalty_b/2) ||w_b||² (eq. 13 of [Hannun21]), so dG/dθ is block diagonal
and H_b⁻¹ is all that is needed. The outputs share the row x and the target, whose t unknowns move Y by the matrix T:

    J_ib = -ω H_b⁻¹ [ a_b x̃ (Pᵀw_b)ᵀ + r_b P ,  -c_b x̃ T_b ]            (p, m + t), stacked over b

Released alone, output b is a scalar model; together they say more about a row, because each sees it through its own
weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Noise
from dosimeter.glm.equations.estimating_equations import EstimatingEquations, Kink, Solution, accept
from dosimeter.glm.equations.outputs_jacobian import OutputsJacobian, WhitenedOutputs
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.fisher import measure
from dosimeter.glm.fitting.fit import fit, fit_at
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import Jacobian, Rows
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.linalg.inverse_blocks import InverseBlocks
from dosimeter.glm.linalg.validation import check_table
from dosimeter.glm.losses.label_weights import LabelWeights
from dosimeter.glm.losses.loss import ScalarLoss, TargetKind

SIDES = "on which side of its loss's kink a row stands depends on the table: the choice is not covered"


@dataclass(frozen=True, eq=False, repr=False)
class JointOutputs(EstimatingEquations):
    """K outputs of scalar losses on one table; see `ridge_outputs`, `one_versus_rest` and `several_outputs`.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0, 0.0], [2.0, 1.0], [4.0, 0.0]])
    >>> glm.ridge_outputs(X, Y, 0.0).solve().theta.round(4)
    array([1.2143, 0.1429])
    """

    X: FloatArray
    y: FloatArray
    """(n,) or (n, t) the targets as the table has them."""
    outputs: FloatArray
    """(n, K) Y, the target of each output."""
    losses: tuple[ScalarLoss, ...]
    penalty: FloatArray
    """(K,) nλ of each output."""
    weight: FloatArray
    """(n, K) ω of each row in each output."""
    intercept: bool
    """Whether each output has an unpenalised intercept, its last parameter."""
    T: FloatArray
    """(K, t) dY/d(target)."""
    target: TargetKind
    label_weights: tuple[LabelWeights, ...] = ()
    """What each row weighs with each label, of each output, if classes have weights."""

    @property
    def target_width(self) -> int:
        """t."""
        return int(self.T.shape[1])

    @property
    def p(self) -> int:
        """Parameters of one output."""
        return self.d + self.intercept

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Output after output, the intercept last."""
        each = [*(f"weight {j}" for j in range(self.d)), *(["intercept"] if self.intercept else [])]
        return tuple(f"output {b}: {name}" for b in range(len(self.losses)) for name in each)

    @cached_property
    def released(self) -> ReleasedMap:
        """The weights of all outputs."""
        return ReleasedMap.identity(self.parameter_names, f"the weights of {len(self.losses)} outputs")

    def value(self, theta: FloatArray) -> FloatArray:
        """(K p,) the gradients."""
        W, ridge = theta.reshape(-1, self.p), self._ridge()
        residual = self._scalars(theta, np.s_[:])[1]
        return np.asarray((residual.T @ self._rows(np.s_[:]) + ridge * W).ravel())

    def derivative(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        """K Hessians (p, p)."""
        X, curvature = self._rows(np.s_[:]), self._scalars(theta, np.s_[:])[0]
        return tuple((X.T * a) @ X + np.diag(ridge) for a, ridge in zip(curvature.T, self._ridge(), strict=True))

    def row_derivative(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """(k, K p, d + t)."""
        X, W, p, d = self._rows(rows), theta.reshape(-1, self.p), self.p, self.d
        a, r, _ = self._scalars(theta, rows)
        out = np.zeros((len(X), len(W), p, d + self.target_width))
        out[:, :, :, :d] = a[:, :, None, None] * X[:, None, :, None] * W[:, None, :d]
        out[:, :, np.arange(d), np.arange(d)] += r[:, :, None]
        out[:, :, :, d:] = -X[:, None, :, None] * self._label_moves(theta, rows)[:, :, None, :]
        return out.reshape(len(X), len(W) * p, -1)

    def start(self) -> FloatArray:
        return np.zeros(len(self.losses) * self.p)

    def solve(self, start: Any = None) -> Solution:
        """K exact fits (`glm.fit`), each from its part of `start`."""
        parts = [None] * len(self.losses) if start is None else self._parameters(start).reshape(-1, self.p)
        fits = [
            fit(self.X, self.outputs[:, b], self.losses[b], start=parts[b], **self._settings(b))
            for b in range(len(self.losses))
        ]
        return accept(self._solution(fits))

    def at(self, theta: Any) -> Solution:
        """The state of the K outputs at given parameters."""
        W = self._parameters(theta).reshape(-1, self.p)
        fits = [
            fit_at(self.X, self.outputs[:, b], self.losses[b], W[b], **self._settings(b))
            for b in range(len(self.losses))
        ]
        return self._solution(fits)

    def closed_form(
        self, solution: Solution, released: ReleasedMap, noise: Noise, P: Any, unit: FloatArray
    ) -> Jacobian | None:
        """The stack of the outputs' own Jacobians, if the weights themselves are released through one map P."""
        if callable(P) or released is not self.released:
            return None
        if len(solution.fits) == self.target_width == 1:  # a scalar model: its readings are cheaper
            unit_of_output = float(self.T[0, 0] * unit[0])
            only = replace(solution.fits[0], label_weights=next(iter(self.label_weights), None))
            return measure(only, self.X, self.outputs[:, 0], noise, input_map=P, target_unit=unit_of_output).jacobian
        independent = isinstance(noise, Density)
        labels = self._label_moves(solution.theta, np.s_[:]) * unit if self.label_weights else None
        parts = [
            measure(k, self.X, self.outputs[:, b], noise if independent else Gaussian(1.0), input_map=P).jacobian
            for b, k in enumerate(solution.fits)
        ]
        scalar = tuple(part for part in parts if isinstance(part, ScalarJacobian))
        stacked = OutputsJacobian(scalar, self.T * unit, self.y, labels)
        return stacked if independent else WhitenedOutputs(scalar, self.T * unit, self.y, labels, noise=noise)

    def _label_moves(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """(k, K, t) how the weighted gradient by each margin moves with the unknowns of the target."""
        c = self._scalars(theta, rows)[2]
        if not self.label_weights or len(self.label_weights[0].labels) == 2:  # an output has a label of its own
            return np.asarray(c[:, :, None] * self.T)
        margin = self._rows(rows) @ theta.reshape(-1, self.p).T
        each = zip(self.label_weights, self.losses, margin.T, strict=True)
        return np.stack([weights.moves(loss, m, rows) for weights, loss, m in each], axis=1)

    def _settings(self, b: int) -> dict[str, Any]:
        return {
            "l2": float(self.penalty[b]) / self.n,
            "sample_weight": self.weight[:, b],
            "intercept": self.intercept,
        }

    @property
    def not_covered(self) -> tuple[str, ...]:
        smooth = not any(np.isfinite(loss.distance_to_kink(np.zeros(1), np.zeros(1))[0]) for loss in self.losses)
        return () if smooth else (SIDES,)

    def _kinks(self, fits: Sequence[Fit]) -> tuple[Kink, ...]:
        """The row nearest to a kink of its loss, relative to the largest margin of that output."""
        nearest: list[Kink] = []
        for b, part in enumerate(fits):
            distances = part.kink_distances / (1.0 + float(np.abs(part.margin).max()))
            row = int(distances.argmin())
            if np.isfinite(distances[row]):
                nearest.append(Kink(f"row {row} is at a kink of the loss of output {b}", float(distances[row])))
        return (min(nearest, key=lambda kink: kink.distance),) if nearest else ()

    def _solution(self, fits: Sequence[Fit]) -> Solution:
        theta = np.concatenate([k.w for k in fits])
        inverses = tuple(k.factor.matrix @ k.factor.matrix.T for k in fits)
        curvature = self._scalars(theta, np.s_[:])[0]
        scale = np.sqrt(curvature.T @ self._rows(np.s_[:]) ** 2 + self._ridge()).ravel()
        return Solution(
            equations=self,
            theta=theta,
            inverse=InverseBlocks(inverses, max(k.condition for k in fits) ** 2, scale),
            gradient_norm=float(np.linalg.norm([k.gradient_norm for k in fits])),
            decrement=float(np.linalg.norm([k.decrement for k in fits])),
            iterations=max(k.iterations for k in fits),
            kinks=self._kinks(fits),
            fits=tuple(fits),
        )

    def _rows(self, rows: Rows) -> FloatArray:
        X = self.X[rows]
        return np.column_stack([X, np.ones(len(X))]) if self.intercept else X

    def _ridge(self) -> FloatArray:
        """(K, p) nλ of each parameter."""
        ridge = np.repeat(self.penalty[:, None], self.p, axis=1)
        ridge[:, self.d :] = 0.0
        return ridge

    def _scalars(self, theta: FloatArray, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(k, K) curvature, residual and target derivative of each row and output, times ω."""
        margin, Y, weight = self._rows(rows) @ theta.reshape(-1, self.p).T, self.outputs[rows], self.weight[rows]
        out = []
        for method in ("curvature", "residual", "target_derivative"):
            values = np.column_stack(
                [getattr(loss, method)(margin[:, b], Y[:, b]) for b, loss in enumerate(self.losses)]
            )
            out.append(weight * np.where(weight > 0, values, 0.0))
        if self.label_weights:
            each = zip(self.label_weights, self.losses, margin.T, strict=True)
            out[2] = np.column_stack([weights.response(loss, m, rows) for weights, loss, m in each])
        return out[0], out[1], out[2]


def several_outputs(
    X: Any,
    Y: Any,
    losses: ScalarLoss | Sequence[ScalarLoss],
    penalty: Any = 0.0,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
) -> JointOutputs:
    """Several targets of a row, each with a scalar loss of its own: MultiOutputRegressor, MultiOutputClassifier.

    Parameters
    ----------
    X : array_like of shape (n, d)
        The table.
    Y : array_like of shape (n, K)
        The targets: K unknowns of each row.
    losses : ScalarLoss or sequence of K
        The loss of each output, e.g. `Logistic()` for targets of 0 and 1.
    penalty : float or array_like of shape (K,), default 0
        nλ of each output: alpha of Ridge, 1/C of LogisticRegression.
    sample_weight : array_like of shape (n,) or (n, K), optional
        ω, of each output if there are K columns; default ones.
    intercept : bool, default False
        Whether each output has an unpenalised intercept.

    Returns
    -------
    JointOutputs
        Internal.

    Raises
    ------
    Refusal
        If a shape is wrong or a loss refuses its targets.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, Y = np.array([[1.0], [2.0], [-1.0]]), np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    >>> several_outputs(X, Y, glm.Logistic(), 1.0).solve().theta.shape
    (2,)
    """
    columns = _columns(Y)
    K = columns.shape[1]
    each = (losses,) * K if isinstance(losses, ScalarLoss) else tuple(losses)
    if len(each) != K:
        raise Refusal(f"{K} targets need {K} losses, not {len(each)}")
    kinds = {loss.target for loss in each}
    kind = kinds.pop() if len(kinds) == 1 else TargetKind.NUMBER
    return joint_outputs(X, columns, columns, each, penalty, sample_weight, intercept, np.eye(K), kind)


def joint_outputs(
    X: Any,
    y: FloatArray,
    outputs: FloatArray,
    losses: Sequence[ScalarLoss],
    penalty: Any,
    sample_weight: Any,
    intercept: bool,
    T: FloatArray,
    kind: TargetKind,
    label_weights: tuple[LabelWeights, ...] = (),
) -> JointOutputs:
    """The checked outputs; T (K, t) moves of them with the unknowns of the target; label_weights: one each, or none."""
    n, K = outputs.shape
    nl = np.atleast_1d(np.asarray(penalty, dtype=np.float64))
    if nl.shape not in ((1,), (K,)) or not (np.isfinite(nl) & (nl >= 0)).all():
        raise Refusal(f"penalty must be a number >= 0, or one for each of the {K} outputs, not {penalty!r}")
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape not in ((n,), (n, K)):
        raise Refusal(f"sample_weight must have shape ({n},) or ({n}, {K}), not {weight.shape}")
    weight = np.broadcast_to(weight if weight.ndim == 2 else weight[:, None], (n, K))
    for b, loss in enumerate(losses):
        X, Y_b, _ = check_table(X, outputs[:, b], weight[:, b])
        loss.check(Y_b)
    return JointOutputs(
        X=X,
        y=y,
        outputs=outputs,
        losses=tuple(losses),
        penalty=np.broadcast_to(nl, (K,)),
        weight=np.array(weight),
        intercept=bool(intercept),
        T=T,
        target=kind,
        label_weights=label_weights,
    )


def _columns(Y: Any) -> FloatArray:
    columns = np.asarray(Y, dtype=np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.ndim != 2 or not columns.size:
        raise Refusal(f"the targets must be an (n, K) array, not of shape {columns.shape}")
    return columns
