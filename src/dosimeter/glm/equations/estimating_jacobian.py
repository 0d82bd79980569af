"""The whitened Jacobian of R(θ), θ a root of estimating equations, and its `Leakage`.

    W Jᵢ = W R'(θ) · -(dG/dθ)⁻¹ dG/d(xᵢ, yᵢ) · [P, unit]            (r, m + t)

P = dx/dz maps the unknowns z of a row to its columns; it may differ from row to row. Every reading is taken from these
matrices written out, a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.noise import Gaussian, Noise, no_noise
from dosimeter.glm.equations.estimating_equations import Solution
from dosimeter.glm.equations.released_map import ReleasedMap
from dosimeter.glm.jacobians.dense_jacobian import DenseJacobian, Jacobian, Rows
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.linalg.validation import HUGE, TINY, as_floats
from dosimeter.glm.row_maps.mapped_jacobian import with_row_map
from dosimeter.glm.row_maps.row_maps import RowMap

RowMaps = Callable[[Rows], FloatArray]
"""rows -> (k, d, m)."""

BLOCK = 32 << 20
"""Bytes of derivatives by the columns at a time; there may be far more columns than unknowns."""


@dataclass(frozen=True, eq=False)
class EstimatingJacobian(DenseJacobian):
    """The whitened Jacobian of a released map of a root; `measure_solution` makes it. Internal.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[0.0], [2.0], [4.0], [6.0]]), np.array([0.0, 0.0, 1.0, 1.0])
    >>> leak = measure_solution(glm.LinearDiscriminant(X, y, 2).solve(), Gaussian(1.0))
    >>> leak.jacobian.dense(slice(0, 1)).shape      # one row; two released values; its cell and its class
    (1, 2, 2)
    """

    solution: Solution
    released: ReleasedMap
    noise: Noise
    """Its whitening; Gaussian(1) for an exact release."""
    P: FloatArray | RowMaps
    """(d, m), or a map for each row: rows -> (k, d, m)."""
    unit: FloatArray
    """(t,) how much of each target one unit of the unknown is."""
    m: int

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.solution.equations.n

    @property
    def target_width(self) -> int:  # type: ignore[override]
        return len(self.unit)

    @property
    def width(self) -> int:  # type: ignore[override]
        return len(self.released.names)

    def dense(self, rows: Rows) -> FloatArray:
        equations = self.solution.equations
        index, d = np.arange(self.n, dtype=np.intp)[rows], equations.d
        out = np.empty((len(index), self.width, self.m + self.target_width))
        step = max(1, BLOCK // (8 * equations.row_size(self.released)))
        for i in range(0, len(index), step):
            part = index[i : i + step]
            moves = equations.moves(self.solution, self.released, part)
            P = self.P(part) if callable(self.P) else self.P
            out[i : i + step, :, : self.m] = moves[:, :, :d] @ P
            out[i : i + step, :, self.m :] = moves[:, :, d:] * self.unit
        return np.asarray(self.noise.whiten(out)) if len(index) else out


def measure_solution(
    solution: Solution,
    noise: Noise,
    *,
    released: ReleasedMap | None = None,
    include_target: bool = True,
    input_map: Any = None,
    target_unit: Any = 1.0,
) -> Leakage:
    """Fisher information loss of R(θ) + noise about the table of the estimating equations.

    Parameters
    ----------
    solution : Solution
        From `EstimatingEquations.solve`.
    noise : Noise
        The noise on the released values, e.g. `Gaussian(0.1)`, or `no_noise` for an exact release.
    released : ReleasedMap, optional
        R; default: `solution.equations.released`.
    include_target : bool, default True
        Whether a row's target is unknown too.
    input_map : array_like of shape (d, m), or callable, optional
        P = dx/dz, the frozen map from the unknown quantities z to the columns of X; or rows -> (k, d, m), a map for
        each row. Default: the identity.
    target_unit : float or array_like of shape (t,), default 1
        How much of each target one unit of the unknown is. A step between two of several classes has length √2 in
        their indicators, so √2 makes it one.

    Returns
    -------
    Leakage
        η of rows, cells, columns, groups and the table. Internal.

    Raises
    ------
    Refusal
        If a shape is wrong.
    CannotMeasure
        If the noise has no Fisher information.

    Notes
    -----
    η = ||W R'(θ) (dG/dθ)⁻¹ dG/dz||₂; docs/explanation/estimating-equations.md. Choices made from the data that it does
    not cover are in `solution.not_covered`.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0, 0.0], [2.0, 1.0], [4.0, 0.0]])
    >>> leak = measure_solution(glm.ridge_outputs(X, Y, 0.0).solve(), Gaussian(0.5))
    >>> leak.labels.round(4)                     # x / Σx² / σ: two outputs, each moved by its own target
    array([0.1429, 0.2857, 0.4286])
    """
    if not isinstance(noise, Noise):
        raise Refusal(f"noise must be a noise such as Gaussian(0.1), or no_noise, not {noise!r}")
    equations = solution.equations
    R = equations.released if released is None else released
    has_noise = noise is not no_noise
    whitening: Noise = noise if has_noise else Gaussian(1.0)
    whitening.whiten(np.zeros((len(R.names), 1)))  # a noise of another size, or without information, is refused here
    row_map = input_map if isinstance(input_map, RowMap) else None
    if row_map is not None and (row_map.d != equations.d or row_map.m == 0):
        raise Refusal(f"input_map must map unknowns to the {equations.d} columns of X, not to {row_map.d}")
    P, m = _input_map(None if row_map is not None else input_map, equations.d)
    unit = _units(target_unit, equations.target_width)
    jacobian: Jacobian | None = equations.closed_form(solution, R, whitening, P, unit)
    if jacobian is None:
        jacobian = EstimatingJacobian(solution, R, whitening, P, unit, m)
    leak = Leakage(jacobian, noise, include_target, has_noise, R.of)
    return leak if row_map is None else with_row_map(leak, row_map)


def _input_map(input_map: Any, d: int) -> tuple[FloatArray | RowMaps, int]:
    if callable(input_map):
        first = np.asarray(input_map(np.array([0], dtype=np.intp)))
        if first.ndim != 3 or first.shape[:2] != (1, d) or first.shape[2] == 0:
            raise Refusal(f"input_map must return (k, {d}, m) arrays for k rows, not of shape {first.shape} for one")
        return input_map, int(first.shape[2])
    P = np.eye(d) if input_map is None else as_floats(input_map, "input_map")
    if P.ndim != 2 or len(P) != d or P.shape[1] == 0 or not np.abs(P).max() <= HUGE:
        raise Refusal(f"input_map must be a ({d}, m) array, m > 0, of numbers up to {HUGE:g}, not of shape {P.shape}")
    return P, int(P.shape[1])


def _units(target_unit: Any, width: int) -> FloatArray:
    unit = as_floats(target_unit, "target_unit")
    if unit.shape not in ((1,), (width,)) or not ((unit >= TINY) & (unit <= HUGE)).all():
        raise Refusal(
            f"target_unit must be a number from {TINY:g} to {HUGE:g}, or one for each of the {width} unknowns of a "
            f"target, not {target_unit!r}"
        )
    return np.broadcast_to(unit, (width,)).astype(np.float64)
