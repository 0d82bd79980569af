"""Estimators that are not one loss of one margin: parameters θ (q,) that solve G(θ; rows) = 0.

Moving a cell moves G, and θ follows so that G stays zero (implicit function theorem):

    dθ/d(xᵢ, yᵢ) = -(dG/dθ)⁻¹ dG/d(xᵢ, yᵢ)

The release is R(θ) plus noise, R a differentiable map. An explicit estimator θ = f(rows) is G = θ - f, with dG/dθ the
identity. Derivation: docs/explanation/estimating-equations.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.noise import Noise
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.dense_jacobian import Jacobian, Rows
from dosimeter.glm.linalg.inverse_blocks import InverseBlocks, invert
from dosimeter.glm.losses.loss import TargetKind

STEPS = 100
SETTLED, ROUNDING = 1e-14, 1e-8
"""Newton ends when its relative step is below the first, or below the second and no longer shrinking."""

AT_A_KINK = 1e-6
"""Relative distance to a kink below which rounding decides on which side the estimator is."""


@dataclass(frozen=True)
class Kink:
    """The nearest point of one kind at which the derivative of an estimator jumps.

    Examples
    --------
    >>> Kink("row 3 at the end of the quadratic part", 0.25).distance
    0.25
    """

    what: str
    distance: float
    """Relative: 0 at the kink. Figures hold on this side of it."""


class EstimatingEquations(ABC):
    """An estimator on its table: what its leakage needs. Internal: it holds the rows.

    A subclass defines the abstract members. `measure_solution` reads the leakage of what `solve` returns.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0], [5.0]]), np.array([1.0, 2.0, 4.0, 4.0])
    >>> isinstance(glm.HuberRegression(X, y), EstimatingEquations)
    True
    """

    X: FloatArray
    """(n, d) the table."""
    y: FloatArray
    """(n,) or (n, t) the targets, or class numbers."""
    target: TargetKind
    """What is predicted."""

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.X)

    @property
    def d(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    @property
    def target_width(self) -> int:
        """t: unknowns of a row's target."""
        return 1

    @property
    @abstractmethod
    def parameter_names(self) -> tuple[str, ...]:
        """The q parameters in their order."""

    @abstractmethod
    def value(self, theta: FloatArray) -> FloatArray:
        """(q,) G."""

    @abstractmethod
    def derivative(self, theta: FloatArray) -> tuple[FloatArray, ...]:
        """The diagonal blocks of dG/dθ, one (q, q) block if all parameters are coupled; () if it is the identity."""

    @abstractmethod
    def row_derivative(self, theta: FloatArray, rows: Rows) -> FloatArray:
        """(k, q, d + t) dG/d(xᵢ, yᵢ) of some rows."""

    @abstractmethod
    def start(self) -> FloatArray:
        """(q,) where Newton starts if no parameters are given; the estimate itself if it is explicit."""

    @cached_property
    def released(self) -> ReleasedMap:
        """What is released by default."""
        return ReleasedMap.identity(self.parameter_names)

    def admissible(self, theta: FloatArray) -> bool:
        """Whether G is defined at θ."""
        return True

    def kinks(self, theta: FloatArray) -> tuple[Kink, ...]:
        """The nearest points at which the derivative jumps, one for each kind of kink."""
        return ()

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Choices made from the data that no derivative covers."""
        return ()

    def moves(self, solution: Solution, released: ReleasedMap, rows: Rows) -> FloatArray:
        """(k, r, d + t) how the released values move with each cell and target of some rows."""
        moves = -solution.inverse.times(self.row_derivative(solution.theta, rows))
        return released.push(solution.theta, moves)

    def row_size(self, released: ReleasedMap) -> int:
        """Numbers that `moves` holds at a time for one row."""
        return 2 * max(len(self.parameter_names), len(released.names)) * (self.d + self.target_width)

    def closed_form(
        self, solution: Solution, released: ReleasedMap, noise: Noise, P: Any, unit: FloatArray
    ) -> Jacobian | None:
        """A whitened Jacobian with cheaper readings than the dense one, if there is one for these arguments."""
        return None

    def solve(self, start: Any = None) -> Solution:
        """The exact root, by Newton's method from `start` (q,) or from a start of its own.

        Raises
        ------
        Refusal
            If the equations do not determine the parameters, or Newton does not converge.
        CannotMeasure
            If the root is at a kink, where no derivative exists.
        """
        theta, steps = newton(self, self._parameters(self.start() if start is None else start))
        return accept(state_at(self, theta, steps))

    def at(self, theta: Any) -> Solution:
        """The state at given parameters (q,), root or not; `decrement` states how far off they are."""
        return state_at(self, self._parameters(theta), 0)

    def _parameters(self, theta: Any) -> FloatArray:
        values = np.asarray(theta, dtype=np.float64)
        if values.shape != (len(self.parameter_names),) or not np.isfinite(values).all():
            raise Refusal(f"parameters must be {len(self.parameter_names)} finite numbers, not of shape {values.shape}")
        if not self.admissible(values):
            raise Refusal("the equations are not defined at these parameters: start elsewhere")
        return values

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.n} rows x {self.d} columns, {len(self.parameter_names)} parameters>"


@dataclass(frozen=True, eq=False, repr=False)
class Solution:
    """A root of estimating equations with its certificate. Internal.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0], [5.0]]), np.array([1.0, 2.0, 4.0, 4.0])
    >>> glm.HuberRegression(X, y).solve().gradient_norm < 1e-12
    True
    """

    equations: EstimatingEquations
    theta: FloatArray
    """(q,) the parameters."""
    inverse: InverseBlocks
    """(dG/dθ)⁻¹ at them."""
    gradient_norm: float
    """||G||: the certificate."""
    decrement: float
    """√|Gᵀ(dG/dθ)⁻¹G|: the distance to the root, in the metric of the derivative."""
    iterations: int
    """Newton steps; 0 if the parameters were given."""
    kinks: tuple[Kink, ...] = ()
    """The nearest points at which the derivative jumps."""
    fits: tuple[Fit, ...] = ()
    """The fits behind it, if the estimator is several fits."""

    @property
    def condition(self) -> float:
        """Condition number of dG/dθ in the units of its diagonal."""
        return self.inverse.condition

    @property
    def released(self) -> FloatArray:
        """(r,) the values that are released by default, before noise."""
        return self.equations.released.value(self.theta)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Choices made from the data that no figure covers."""
        return self.equations.not_covered

    def __repr__(self) -> str:
        name, rows, q = type(self.equations).__name__, self.equations.n, len(self.theta)
        return f"<Solution of {name}, {rows} rows, {q} parameters, gradient norm {self.gradient_norm:.1e}>"


def newton(equations: EstimatingEquations, theta: FloatArray) -> tuple[FloatArray, int]:
    """A root and the number of steps, damped by the natural monotonicity test (Deuflhard 2004).

    A trial point is accepted if the next step with the *old* derivative would be shorter. Unlike ||G|| this does not
    depend on the units of the equations.
    """
    G, size, least, stalled = equations.value(theta), 0.0, np.inf, 0
    for step in range(1, STEPS + 1):
        inverse = invert(equations.derivative(theta), len(theta))
        move = inverse.times(G[:, None])[:, 0]
        length = float(np.linalg.norm(inverse.scale * move))
        size = max(size, float(np.linalg.norm(inverse.scale * theta)), length)
        relative = length / size if size > 0 else 0.0
        stalled = stalled + 1 if relative > 0.5 * least else 0
        if relative <= SETTLED or (stalled >= 2 and relative <= ROUNDING):
            return theta, step
        least = min(least, relative)
        theta, G = _shorter(equations, theta, move, inverse, length, relative <= ROUNDING)
    raise Refusal(f"Newton did not converge in {STEPS} steps (relative step {relative:.1e}): start nearer to the root")


def _shorter(
    equations: EstimatingEquations,
    theta: FloatArray,
    move: FloatArray,
    inverse: InverseBlocks,
    length: float,
    rounding: bool,
) -> tuple[FloatArray, FloatArray]:
    """The next point and G there: the longest step of 1, 1/2, ... after which the next one would be shorter."""
    share = 1.0
    while share >= 1e-10:
        trial = theta - share * move
        if equations.admissible(trial):
            G = equations.value(trial)
            if np.isfinite(G).all():
                following = float(np.linalg.norm(inverse.scale * inverse.times(G[:, None])[:, 0]))
                if rounding or following <= (1.0 - share / 4.0) * length:
                    return trial, G
        share /= 2.0
    raise Refusal("no Newton step comes nearer to a root of the estimating equations: start nearer to it")


def state_at(equations: EstimatingEquations, theta: FloatArray, steps: int) -> Solution:
    """The certificate at θ."""
    G, inverse = equations.value(theta), invert(equations.derivative(theta), len(theta))
    move = inverse.times(G[:, None])[:, 0]
    return Solution(
        equations=equations,
        theta=theta,
        inverse=inverse,
        gradient_norm=float(np.linalg.norm(G)),
        decrement=float(np.sqrt(abs(G @ move))),
        iterations=steps,
        kinks=equations.kinks(theta),
    )


def accept(solution: Solution) -> Solution:
    """The solution, refused at a kink."""
    for kink in solution.kinks:
        if not kink.distance > AT_A_KINK:
            raise CannotMeasure(
                f"{kink.what} (relative distance {kink.distance:.1e}, more than {AT_A_KINK:g} is needed): the "
                "estimator has no derivative there, so no figure holds on both sides"
            )
    return solution
