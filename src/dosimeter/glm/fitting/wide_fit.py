"""The fit of a wide or sparse table: the minimiser of eq. 13 of [Hannun21] by a route of `fitting/route.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.progress import stage
from dosimeter.glm.fitting.existence import refuse_if_unbounded
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.fitting.route import SolverRoute, choose_route, forced_route
from dosimeter.glm.fitting.wide_inverse import DualInverse, PrimalInverse
from dosimeter.glm.fitting.wide_newton import Inverse, WideProblem, minimise
from dosimeter.glm.linalg.conjugate_gradients import Centred, IterativeInverse
from dosimeter.glm.linalg.inverse_hessian import EASY, Factor
from dosimeter.glm.linalg.sparse_table import (
    Table,
    check_wide,
    fingerprint_direction,
    gram_of_rows,
    is_sparse,
    reach,
    row_squares,
)
from dosimeter.glm.linalg.validation import HUGE
from dosimeter.glm.losses.loss import LOSSES, ScalarLoss, is_registered
from dosimeter.glm.losses.softmax import Softmax

NEWTON_TOLERANCE = 1e-7
"""Residual of a Newton step by conjugate gradients: each step gains as many digits, and the last states the error."""


class NoFactor:
    """Stands for the (p, p) factor that a wide fit does not keep: what needs it is refused by name."""

    def __init__(self, route: SolverRoute, condition: float) -> None:
        self.route, self.condition = route, condition

    @property
    def easy(self) -> bool:
        """Whether plain products keep their digits."""
        return self.condition <= EASY

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotMeasure(
            f"this needs a matrix with a row and a column for every parameter, which the {self.route.value} route does "
            f"not form; glm.measure works on it. For a smaller table, fit with {option('route', 'primal')}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class WideFit(Fit):
    """A fit by one of the routes for wide and sparse tables; `glm.measure` reads it.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([1.0, 2.0])
    >>> fitted = glm.fit(X, y, glm.Squared(), l2=0.5, route="dual")
    >>> fitted.route.value, bool(np.allclose(fitted.w, glm.fit(X, y, glm.Squared(), l2=0.5).w))
    ('dual', True)
    """

    route: SolverRoute = SolverRoute.DUAL
    gram: FloatArray | None = None
    """X Xᵀ (n, n) on the dual route."""


def goes_wide(X: Any, loss: object, l2: float, route: str | None, engine: object) -> bool:
    """Whether `fit_wide` takes this table: it is sparse, or too wide for (p, p) matrices, or its route was named."""
    if is_sparse(X):
        return True
    if route is not None:
        return SolverRoute(forced_route(route, 1, 1, sparse=False)) is not SolverRoute.PRIMAL
    shape = getattr(X, "shape", ())
    penalised = isinstance(l2, int | float | np.number) and l2 > 0
    return (
        len(shape) == 2
        and isinstance(loss, ScalarLoss)
        and penalised
        and engine is None
        and choose_route(*shape) is not SolverRoute.PRIMAL
    )


def fit_wide(
    X: Any,
    y: Any,
    loss: Any,
    l2: float,
    *,
    sample_weight: Any = None,
    intercept: bool = False,
    start: Any = None,
    route: str | None = None,
    engine: object = None,
    at: Any = None,
) -> WideFit:
    """`glm.fit`, or `glm.fit_at` if parameters `at` are passed, for a table that `goes_wide`."""
    if type(loss) is Softmax:
        from dosimeter.glm.fitting.wide_softmax_fit import fit_wide_softmax  # imported late: it imports this module

        return fit_wide_softmax(
            X, y, loss, l2, sample_weight, intercept, start=start, route=route, engine=engine, at=at
        )
    problem = _problem(X, y, loss, l2, sample_weight, intercept, engine)
    chosen = forced_route(route, problem.n, problem.d, is_sparse(problem.X))
    if chosen is not SolverRoute.PRIMAL and problem.l2 == 0:
        raise Refusal(f"the {chosen.value} route needs a penalty: use l2 > 0")
    if is_sparse(problem.X) and problem.l2 == 0 and not problem.loss.quadratic:
        raise Refusal(
            f"whether the columns separate the targets is not checked for a sparse table, so the {problem.loss.name} "
            "loss needs a penalty: use l2 > 0, or pass a dense array"
        )
    gram = gram_of_rows(problem.X) if chosen is SolverRoute.DUAL else None
    inverse_at = _inverse(problem, chosen, gram)
    if at is not None:
        w, steps = _parameters(problem, at), 0
        m = problem.margins(w)
        if not np.isfinite(problem.value(m, w)):
            raise Refusal("the loss is not finite at these parameters: they cannot be a minimiser of this table")
    else:
        stage("fitting")
        first = np.zeros(problem.p) if start is None else _parameters(problem, start)
        w, m, steps = minimise(problem, inverse_at, first)
    return _finish(problem, chosen, gram, inverse_at, w, m, steps)


def _problem(X: Any, y: Any, loss: Any, l2: float, sample_weight: Any, intercept: bool, engine: object) -> WideProblem:
    if not is_registered(loss):
        known = ", ".join(f"{kind.__name__}()" for kind in LOSSES.values())
        raise Refusal(f"a sparse table, or a named route, needs a loss of {known}, Softmax(...), not {loss!r}")
    X, y, weight = check_problem(X, y, loss, l2, sample_weight, intercept, engine)
    return WideProblem(X, y, weight, loss, float(l2), bool(intercept))


def check_problem(
    X: Any, y: Any, loss: Any, l2: Any, sample_weight: Any, intercept: bool, engine: object
) -> tuple[Table, FloatArray, FloatArray]:
    """X, y, ω after the checks that every loss has."""
    if engine is not None:
        raise Refusal("a sparse or wide table is fitted in this process: leave the engine out")
    X, y, weight = check_wide(X, y, sample_weight)
    loss.check(y)
    if isinstance(l2, bool) or not isinstance(l2, int | float | np.number) or not 0 <= l2 <= HUGE:
        raise Refusal(f"l2 must be a finite number >= 0 (and at most {HUGE:g}), not {l2!r}")
    strengths = np.append(np.full(X.shape[1], float(l2)), [0.0] * bool(intercept))
    refuse_if_unbounded(y, weight, loss, strengths, bool(intercept))
    return X, y, weight


def _parameters(problem: WideProblem, values: Any) -> FloatArray:
    w = np.asarray(values, dtype=np.float64)
    if w.shape != (problem.p,) or not np.isfinite(w).all():
        raise Refusal(f"parameters must be finite and of shape {(problem.p,)}, not {w.shape}")
    return w


def _inverse(problem: WideProblem, route: SolverRoute, gram: FloatArray | None) -> Callable[[FloatArray], Inverse]:
    """ω times the curvature (n,) ↦ f ↦ H⁻¹f."""
    if route is SolverRoute.PRIMAL:
        return lambda D: PrimalInverse.of(problem, D)
    if gram is not None:
        return lambda D: DualInverse.of(problem, gram, D)
    return lambda D: IterativeInverse(Centred(problem.X, D, problem.ridge, problem.intercept), NEWTON_TOLERANCE)


def _finish(
    problem: WideProblem,
    route: SolverRoute,
    gram: FloatArray | None,
    inverse_at: Callable[[FloatArray], Inverse],
    w: FloatArray,
    m: FloatArray,
    steps: int,
) -> WideFit:
    """The certificate, the fingerprint of the table, and the factor where the route has one."""
    curvature = problem.curvature(m)
    D = problem.weight * curvature
    inverse, gradient = inverse_at(D), problem.gradient(m, w)
    if isinstance(inverse, PrimalInverse):
        factor = inverse.factor(problem, D)
    else:
        factor = cast(Factor, NoFactor(route, _condition(problem, D)))
    direction = fingerprint_direction(problem.X)
    constant = abs(float(w[-1])) if problem.intercept else 0.0
    return WideFit(
        loss=problem.loss,
        l2_by_parameter=np.append(np.full(problem.d, problem.l2), [0.0] * problem.intercept),
        intercept=problem.intercept,
        w=w,
        factor=factor,
        inner=np.eye(problem.p if route is SolverRoute.PRIMAL else 0),
        y=problem.y,
        offset=None,
        margin=m,
        curvature=curvature,
        residual=problem.residual(m),
        sample_weight=problem.weight,
        gradient_norm=float(np.linalg.norm(gradient)),
        decrement=float(np.sqrt(max(0.0, float(gradient @ inverse.solve(gradient))))),
        iterations=steps,
        reach=float(reach(problem.X, w[: problem.d]).max()) + constant,
        fingerprint_direction=direction,
        fingerprint=np.asarray(problem.X @ direction),
        route=route,
        gram=gram,
    )


def _condition(problem: WideProblem, D: FloatArray) -> float:
    """√(λ₁/nλ) of H without its intercept, λ₁ by power iteration: a scale for rounding, good to a few per cent."""
    v = np.sqrt(D * row_squares(problem.X)) + np.finfo(float).tiny
    e, top = np.sqrt(D), 0.0
    for _ in range(30):
        v /= np.linalg.norm(v)
        image = e * (problem.X @ (problem.X.T @ (e * v)))
        top, v = float(np.linalg.norm(image)), image
        if top == 0:
            break
    return float(np.sqrt(1.0 + top / problem.ridge))
