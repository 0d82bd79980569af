"""The fit of several classes on a sparse table: on the coordinates of its row space if few enough, else by iterations.

| route     | largest array      | figures      | when                                                  |
| primal    | (q, q), the table  | exact        | K' (d + 1) <= MOST, no more columns than rows         |
| dual      | (q, q), (n, n)     | exact        | K' (n + 1) <= MOST, more columns than rows, λ > 0     |
| iterative | (n, K'²), (d, K'²) | upper bounds | λ > 0, and neither                                    |

q is the number of released weights in the coordinates of the row space.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.progress import stage
from dosimeter.glm.fitting.fit import Fit, fit, fit_at
from dosimeter.glm.fitting.route import SolverRoute
from dosimeter.glm.fitting.wide_fit import NoFactor, WideFit, check_problem
from dosimeter.glm.fitting.wide_softmax import CentredSoftmax, SoftmaxProblem, minimise
from dosimeter.glm.linalg.inverse_hessian import Factor
from dosimeter.glm.linalg.row_space import RowSpace
from dosimeter.glm.linalg.sparse_table import Table, dense_rows, fingerprint_direction, gram_of_rows, reach
from dosimeter.glm.losses.softmax import Softmax

MOST = 8_192
"""Largest side of the matrix of all weights: half a gibibyte, and minutes of decompositions."""

WRITTEN_OUT = 1 << 26
"""Numbers of a table with few columns that is written out: half a gibibyte."""


@dataclass(frozen=True, eq=False, repr=False)
class WideSoftmaxFit(WideFit):
    """A softmax fit of a sparse table; `glm.measure` reads it.

    Examples
    --------
    >>> from scipy import sparse
    >>> from dosimeter import glm
    >>> X = sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [3.0, 0.0, 0.0]])
    >>> glm.fit(X, [0.0, 1.0, 2.0], glm.Softmax(3, "mean"), l2=0.5).route.value
    'primal'
    """

    reduced: Fit | None = None
    """The fit in the coordinates of the row space; None on the iterative route."""
    space: RowSpace | None = None
    """These coordinates; None if they are the columns themselves."""


def softmax_route(n: int, d: int, classes: int) -> SolverRoute:
    """The route by the size of the table; classes is K'.

    >>> softmax_route(2_000, 20_000, 3).value, softmax_route(20_000, 100_000, 19).value
    ('dual', 'iterative')
    """
    if classes * (min(n, d) + 1) > MOST or (d <= n and n * d > WRITTEN_OUT):
        return SolverRoute.ITERATIVE
    return SolverRoute.PRIMAL if d <= n else SolverRoute.DUAL


def fit_wide_softmax(
    X: Any,
    y: Any,
    loss: Softmax,
    l2: Any,
    sample_weight: Any = None,
    intercept: bool = False,
    *,
    start: Any = None,
    route: str | None = None,
    engine: object = None,
    at: Any = None,
) -> WideSoftmaxFit:
    """`glm.fit`, or `glm.fit_at` if parameters `at` are passed."""
    X, y, weight = check_problem(X, y, loss, l2, sample_weight, intercept, engine)
    problem = SoftmaxProblem(X, y, weight, loss, float(l2), bool(intercept))
    chosen = softmax_route(problem.n, problem.d, problem.shape[1]) if route is None else SolverRoute(route)
    if chosen is not SolverRoute.PRIMAL and problem.l2 == 0:
        raise Refusal(f"the {chosen.value} route needs a penalty: use l2 > 0")
    first = at if at is not None else start
    w = np.zeros(problem.shape) if first is None else np.asarray(first, dtype=np.float64)
    if w.shape != problem.shape or not np.isfinite(w).all():
        raise Refusal(f"parameters must be finite and of shape {problem.shape}, not {w.shape}")
    if chosen is SolverRoute.ITERATIVE:
        return _iterative(problem, w, at is not None)
    return _reduced(problem, chosen, w, at is not None)


def _reduced(problem: SoftmaxProblem, route: SolverRoute, w: FloatArray, given: bool) -> WideSoftmaxFit:
    """Through the dense fit of the table in the coordinates of its row space."""
    X, d, space = problem.X, problem.d, None
    if route is SolverRoute.DUAL:
        gram = gram_of_rows(X)
        space = RowSpace.of(X, gram, w[:d] if given else np.zeros(w[:d].shape))
    rows = dense_rows(X, slice(None)) if space is None else space.rows
    start = w if space is None else np.vstack([space.project(w[:d]), w[d:]])
    settings: dict[str, Any] = {"sample_weight": problem.weight, "intercept": problem.intercept}
    if given:
        reduced = fit_at(rows, problem.y, problem.loss, start, problem.l2, **settings)
    else:
        reduced = fit(rows, problem.y, problem.loss, problem.l2, start=start if start.any() else None, **settings)
    v = reduced.w
    w = v if space is None else np.vstack([space.lift(v[: space.width]), v[space.width :]])
    out = _fit(problem, route, w, reduced.margin, reduced.iterations, reduced.condition, reduced.decrement)
    return replace(out, reduced=reduced, space=space)


def _iterative(problem: SoftmaxProblem, w: FloatArray, given: bool) -> WideSoftmaxFit:
    steps = 0
    if given:
        m = problem.margins(w)
        if not np.isfinite(problem.value(m, w)):
            raise Refusal("the loss is not finite at these parameters: they cannot be a minimiser of this table")
    else:
        stage("fitting")
        w, m, steps = minimise(problem, w)
    g = problem.gradient(m, w)
    decrement = float(np.sqrt(max(0.0, float(np.vdot(g, CentredSoftmax.of(problem, m).solve_all(g))))))
    return _fit(problem, SolverRoute.ITERATIVE, w, m, steps, 1.0, decrement)


def _fit(
    problem: SoftmaxProblem,
    route: SolverRoute,
    w: FloatArray,
    m: FloatArray,
    steps: int,
    condition: float,
    decrement: float,
) -> WideSoftmaxFit:
    X, d = problem.X, problem.d
    direction = fingerprint_direction(X)
    constant = np.abs(w[d]).max() if problem.intercept else 0.0
    return WideSoftmaxFit(
        loss=problem.loss,
        l2_by_parameter=np.append(np.full(d, problem.l2), [0.0] * problem.intercept),
        intercept=problem.intercept,
        w=w,
        factor=cast(Factor, NoFactor(route, condition)),
        inner=np.eye(0),
        y=problem.y,
        offset=None,
        margin=m,
        curvature=problem.curvature(m),
        residual=problem.residual(m),
        sample_weight=problem.weight,
        gradient_norm=float(np.linalg.norm(problem.gradient(m, w))),
        decrement=decrement,
        iterations=steps,
        reach=_reach(X, w[:d]) + float(constant),
        fingerprint_direction=direction,
        fingerprint=np.asarray(X @ direction),
        route=route,
    )


def _reach(X: Table, w: FloatArray) -> float:
    return max(float(reach(X, column).max()) for column in w.T)
