"""Which way a table is fitted and measured: the rule by its size, and the ways that can be forced.

| route     | largest array | figures      | when                                                                      |
| primal    | (p, p)        | exact        | no more columns than rows, or a dense table of at most PRIMAL columns     |
| dual      | (n, n)        | exact        | more columns than rows, a penalty, and at most DIRECT rows                |
| iterative | (n, k), (d, k)| upper bounds | a penalty, and neither (n, n) nor (p, p) is practical                     |

The rule looks at the shape only, which is public if the number of rows is. Derivations: docs/explanation/wide.md.
"""

from __future__ import annotations

from enum import StrEnum

from dosimeter.core.errors import Refusal
from dosimeter.core.face import option

PRIMAL = 3_000
"""A dense table with more columns than rows stays on the primal route up to here: it has every reading."""

DIRECT = 4_096
"""Largest side of a matrix that is decomposed: 134 MB, and its eigenvalues take about a minute on two cores."""


class SolverRoute(StrEnum):
    """How the minimiser and its derivatives are computed.

    Examples
    --------
    >>> SolverRoute.DUAL.value
    'dual'
    """

    PRIMAL = "primal"
    DUAL = "dual"
    ITERATIVE = "iterative"


def choose_route(n: int, d: int, *, sparse: bool = False) -> SolverRoute:
    """The route for a table of this shape.

    Parameters
    ----------
    n, d : int
        Rows and columns.
    sparse : bool, default False
        Whether it is a scipy.sparse table, which is never written out.

    Returns
    -------
    SolverRoute

    Examples
    --------
    >>> choose_route(50_000, 200).value, choose_route(2_000, 20_000).value
    ('primal', 'dual')
    >>> choose_route(20_000, 100_000, sparse=True).value
    'iterative'
    """
    if not sparse and d <= max(n, PRIMAL):
        return SolverRoute.PRIMAL
    if min(n, d) > DIRECT:
        return SolverRoute.ITERATIVE
    return SolverRoute.PRIMAL if d <= n else SolverRoute.DUAL


def forced_route(route: str | SolverRoute | None, n: int, d: int, sparse: bool) -> SolverRoute:
    """The route that was named, or that of the rule."""
    if route is None:
        return choose_route(n, d, sparse=sparse)
    try:
        return SolverRoute(route)
    except ValueError:
        names = ", ".join(option("route", r.value) for r in SolverRoute)
        raise Refusal(f"route must be one of {names}, or None for the rule by size, not {route!r}") from None
