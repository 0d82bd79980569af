"""The problem that a fitted model claims to solve: its coefficients minimise [Hannun21] eq. 13 on a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dosimeter import glm
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list
from dosimeter.glm.losses.label_weights import LabelWeights


@dataclass(frozen=True, eq=False)
class Target:
    """What the model predicts, and the weights of the rows."""

    y: NDArray[Any]
    """(n,) numbers, booleans or text; (n, t) numbers for several targets."""
    weight: FloatArray | None
    """(n,) sample_weight as the caller passed it to `fit`."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the frame by name, for models that take their target from it."""

    @property
    def ones(self) -> FloatArray:
        """(n,) the weights, 1 if there are none."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    def numbers(self) -> FloatArray:
        """(n,) float64; text is refused."""
        if self.y.dtype.kind not in "fb":
            raise Refusal("the target holds text and this model needs numbers: pass the y it was fitted on")
        if self.y.ndim > 1:
            raise Refusal(f"y has {self.y.shape[1]} columns and this model predicts one: pass the y it was fitted on")
        return np.asarray(self.y, dtype=np.float64)

    def several(self, outputs: int) -> FloatArray:
        """(n, t) float64 for a model of this many outputs; text is refused."""
        if self.y.dtype.kind not in "fb":
            raise Refusal("the target holds text and this model needs numbers: pass the y it was fitted on")
        y = np.asarray(self.y, dtype=np.float64).reshape(len(self.y), -1)
        if y.shape[1] != outputs:
            raise Refusal(
                f"y has {y.shape[1]} columns and the model predicts {outputs}: pass the y it was fitted on, an array "
                "or the names of its columns"
            )
        return y

    def positions(self, classes: list[Any]) -> NDArray[np.intp]:
        """(n,) each label's position among the model's classes."""
        if self.y.ndim > 1:
            raise Refusal(f"y has {self.y.shape[1]} columns and this model predicts one: pass the y it was fitted on")
        place = {str(c): k for k, c in enumerate(classes)} | {c: k for k, c in enumerate(classes)}
        positions = np.array([place.get(cell, -1) for cell in self.y.tolist()], dtype=np.intp)
        if (positions < 0).any():
            row = int(np.argmax(positions < 0))
            raise Refusal(
                f"the label of row {row} is none of the model's classes ({safe_list(classes)}): pass the y it "
                "was fitted on"
            )
        return positions


@dataclass(frozen=True, eq=False)
class Problem:
    """Eq. 13 with the coefficients that are claimed to solve it."""

    loss: glm.ScalarLoss | glm.Softmax
    penalty: Any
    """nλ; or (p,) one for each weight, the intercept's last."""
    intercept: bool
    w: FloatArray
    """(p,), or (p, K') for softmax; the intercept last."""
    y: FloatArray
    """(n,) as the loss wants it."""
    weight: FloatArray | None = None
    """(n,) ω, or None for ones."""
    penalised_intercept: bool = False
    """The intercept is the weight of a column of ones and is penalised (liblinear)."""
    not_covered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    iterative: bool = False
    """Whether the solver stops at a tolerance, so that weights near the minimum are to be expected."""
    unconverged: str = ""
    """What is known of a solver that did not converge; "" for one that did."""
    offset: FloatArray | None = None
    """(n,) known constants added to the margins, or None."""
    label_weights: LabelWeights | None = None
    """What each row weighs with each class, if classes have weights; `weight` has that of its own."""
    held: FloatArray | None = None
    """(n, p) the columns that the fitted object holds, in the order of its weights; None if it holds none."""
    tolerance: float | None = None
    """The largest entry of the mean gradient with which its solver ends, if that is its rule."""

    @property
    def settings(self) -> dict[str, Any]:
        """The options of `glm.fit` that do not depend on the design."""
        return {"sample_weight": self.weight, "intercept": self.intercept, "offset": self.offset}

    @property
    def l2(self) -> Any:
        """λ, one number or one for each weight."""
        return self.penalty / len(self.y)


@dataclass(frozen=True)
class EstimatorKind:
    """What is said of an estimator that is not one loss: its name, and what it predicts."""

    name: str
    target: glm.TargetKind
    quadratic: ClassVar[bool] = False
    penalised_mean: ClassVar[bool] = False

    @property
    def description(self) -> str:
        """Its name in results."""
        return self.name


@dataclass(frozen=True, eq=False)
class EquationsProblem:
    """Estimating equations with the values that are claimed to solve them."""

    loss: EstimatorKind
    equations: Callable[[FloatArray], glm.EstimatingEquations]
    """The equations on a design (n, d)."""
    values: FloatArray
    """(r,) what the model releases, in the order of the equations' released map."""
    y: FloatArray
    """(n,) or (n, t) as the equations want it."""
    start: FloatArray | None = None
    """(q,) the parameters, if they can be read off the model; None for an explicit estimator."""
    weight: FloatArray | None = None
    not_covered: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    iterative: bool = False
    """Whether the solver stops at a tolerance, so that values near the solution are to be expected."""
    unconverged: str = ""
    penalised_intercept: bool = False
    """Whether the design gets a column of ones, the last, for intercepts that are penalised (liblinear)."""
    one_margin: Problem | None = None
    """The same as a problem of one margin, if it is one: sparse tables are read through it."""
    outputs: tuple[Problem, ...] = ()
    """The same as a problem of one margin for each output: large sparse tables are read through them."""
    output_moves: FloatArray | None = None
    """T (K, t): how these outputs move with the unknowns of the target."""
    intercept: ClassVar[bool] = False
    penalty: ClassVar[float] = 0.0
