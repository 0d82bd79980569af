"""Several releases of one table together: docs/explanation/fisher.md, section 6."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.glm.cox.cox_jacobian import CoxJacobian
from dosimeter.glm.jacobians.dense_jacobian import Jacobian, StackedJacobian
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.jacobians.scalar_jacobian import ScalarJacobian
from dosimeter.glm.jacobians.softmax_jacobian import SoftmaxJacobian
from dosimeter.glm.row_maps.mapped_jacobian import MappedJacobian
from dosimeter.glm.scalers.scaled_jacobian import ScaledJacobian


def compose(leaks: Iterable[Leakage]) -> Leakage:
    """Several releases of one table with independent noise, together: their Fisher matrices add exactly.

    Parameters
    ----------
    leaks : iterable of Leakage
        One per release, of the same table in the same units.

    Returns
    -------
    Leakage
        Internal.

    Raises
    ------
    Refusal
        If the tables, units or targets differ.

    Examples
    --------
    >>> import numpy as np
    >>> import dosimeter as dm
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> leak = glm.measure(glm.fit(X, y, glm.Squared()), X, y, dm.Gaussian(0.5))
    >>> bool(np.allclose(glm.compose([leak, leak]).examples, np.sqrt(2) * leak.examples))
    True
    """
    parts = tuple(leaks)
    if not parts:
        raise Refusal("compose needs at least one release")
    first = parts[0]
    for other in parts[1:]:
        if (other.n, other.m, other.include_target) != (first.n, first.m, first.include_target) or not _same_table(
            other.jacobian, first.jacobian
        ):
            raise Refusal(
                "only releases of the same table, in the same units and with the same include_target, compose exactly"
            )
    has_noise = all(k.has_noise for k in parts)
    stacked = StackedJacobian(tuple(k.jacobian for k in parts))
    kinks = (lambda: np.min([k.kink_distances for k in parts], axis=0)) if any(k.kinks for k in parts) else None
    return Leakage(stacked, None, first.include_target, has_noise, f"{len(parts)} releases", kinks=kinks)


def _same_table(a: Jacobian, b: Jacobian) -> bool:
    """Whether two Jacobians are about the same cells: one table, one map from unknowns to columns."""
    a, b = (j.parts[0] if isinstance(j, StackedJacobian) else j for j in (a, b))
    if isinstance(a, MappedJacobian) and isinstance(b, MappedJacobian):
        return a.n == b.n and a.maps.equals(b.maps, a.n) and _same_table(a.inner, b.inner)
    a, b = (j.base if isinstance(j, ScaledJacobian) else j for j in (a, b))
    known = ScalarJacobian | SoftmaxJacobian | CoxJacobian
    if not (isinstance(a, known) and isinstance(b, known)):
        return False
    if getattr(a, "target", None) != getattr(b, "target", None):  # another part of a Cox model's outcome
        return False
    d = a.X.shape[1]
    same_map = np.array_equal(a.P[:d], b.P[: b.X.shape[1]])
    same_target = a.target_unit == b.target_unit and a.target_width == b.target_width and np.array_equal(a.y, b.y)
    return same_map and same_target and (a.X is b.X or np.array_equal(a.X, b.X))
