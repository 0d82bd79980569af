"""Clipping: whatever a client sends, its contribution to the sum has a 2-norm of at most C, after rounding too.

A norm in float64 is off by at most (d/2 + 2)u, u = 2^-53, in any order of summation. The factor C/norm is therefore
taken (d + 8)u smaller, which covers the rounding of the product: the exact norm of the result is at most C
(docs/explanation/federated.md, The bound on one client). The rejected alternative measures the result and shrinks it
until it fits: the same answer to 10 digits, in a loop over clients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal

_UNIT = 2.0**-53
# Squares of numbers in this range neither overflow nor vanish, in sums of 2^60 of them.
_TINY, _HUGE = 1e-140, 1e140
_LEAST_BOUND, _MOST_BOUND = 1e-100, 1e100


class ClippedUpdates(NamedTuple):
    """Rows after clipping, their norms before, and which were accepted."""

    rows: FloatArray
    """(c, d) float64; zeros if refused."""
    norms: FloatArray
    """(c,) upper bounds of the norms sent, tight to (d + 8)u; 0 if refused. Internal."""
    accepted: Mask
    """(c,) False if an entry was not finite."""


def as_bound(bound: Any) -> float:
    """C, a number between 1e-100 and 1e100; refuses anything else."""
    return number("the clipping bound", bound, _LEAST_BOUND, _MOST_BOUND, strictly=False)


def clip(update: Any, bound: float) -> FloatArray:
    """An update scaled to a 2-norm of at most `bound`.

    Parameters
    ----------
    update : (d,) array
        float32 or float64.
    bound : float
        C, 1e-100 to 1e100.

    Returns
    -------
    (d,) array
        update · min(1, C/‖update‖), float64, its exact norm at most C; zeros if an entry is not finite.

    Raises
    ------
    Refusal
        If the update is not a flat vector of float32 or float64, or C is out of range.

    Notes
    -----
    The clipping of [Geyer19], Algorithm 1, line 10, with a bound on rounding (docs/explanation/federated.md).

    Examples
    --------
    >>> clip([3.0, 4.0], 10.0), clip([3.0, 4.0], 1.0).round(12), clip([1.0, np.nan], 1.0)
    (array([3., 4.]), array([0.6, 0.8]), array([0., 0.]))
    """
    vector = np.asarray(update)
    if vector.ndim != 1 or not is_number_type(vector.dtype):
        raise Refusal(f"an update is a flat vector of float32 or float64, not {vector.dtype} of shape {vector.shape}")
    return np.asarray(clip_rows(vector[None], bound).rows[0])


def clip_rows(block: Any, bound: float) -> ClippedUpdates:
    """`clip` for every row of a block.

    Parameters
    ----------
    block : (c, d) array
        One update per row, float32 or float64.
    bound : float
        C, 1e-100 to 1e100.

    Returns
    -------
    ClippedUpdates
        The clipped rows (c, d), the norms before clipping (c,), and which rows were finite (c,).

    Raises
    ------
    Refusal
        If the block is not (c, d) in float32 or float64, or C is out of range.

    Examples
    --------
    >>> clip_rows(np.array([[3.0, 4.0], [np.inf, 0.0]]), 5.5)
    ClippedUpdates(rows=array([[3., 4.], [0., 0.]]), norms=array([5., 0.]), accepted=array([ True, False]))
    """
    C = as_bound(bound)
    X = np.asarray(block)
    if X.ndim != 2 or not is_number_type(X.dtype):
        raise Refusal(f"a block of updates is (clients, d) in float32 or float64, not {X.dtype} of shape {X.shape}")
    rows = X.astype(np.float64)
    norms, accepted = _norms(rows)
    slack = (rows.shape[1] + 8) * _UNIT
    over = accepted & (norms > C)
    if not accepted.all():
        rows[~accepted] = 0.0
    plain = np.flatnonzero(over & (norms < _HUGE))
    rows[plain] *= (C * (1 - slack) / norms[plain])[:, None]
    for i in np.flatnonzero(over & (norms >= _HUGE)):
        _scale(rows[i], float(norms[i]), C * (1 - slack))
    return ClippedUpdates(rows, norms, accepted)


def is_number_type(dtype: np.dtype[Any]) -> bool:
    """True if entries are float32 or float64."""
    return dtype.kind == "f" and dtype.itemsize in (4, 8)


def _norms(rows: FloatArray) -> tuple[FloatArray, Mask]:
    """(c,) upper bounds of the 2-norms, capped at the largest float64, and (c,) whether all entries are finite."""
    d = rows.shape[1]
    slack = 1 + (d + 8) * _UNIT
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        # The norm first, not the largest entry: one pass over the block. It is nan or inf if an entry is.
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        doubtful = np.flatnonzero(~((norms > _TINY) & (norms < _HUGE)))
        norms *= slack
    accepted = np.ones(len(rows), dtype=np.bool_)
    for i in doubtful:
        peak = float(np.abs(rows[i]).max(initial=0.0))
        accepted[i] = np.isfinite(peak)
        norms[i] = _rescaled_norm(rows[i], peak) * slack if accepted[i] else 0.0
    return np.minimum(norms, np.finfo(np.float64).max), accepted


def _rescaled_norm(row: FloatArray, peak: float) -> float:
    """‖row‖ through a power of two, for rows whose squares would overflow or vanish; at most √d · peak."""
    if peak == 0.0:
        return 0.0
    power = int(np.frexp(peak)[1])
    with np.errstate(over="ignore", under="ignore"):
        unit = float(np.linalg.norm(np.ldexp(row, -power)))
        return float(np.ldexp(unit, power))


def _scale(row: FloatArray, norm: float, target: float) -> None:
    """row · target/norm for a norm of 1e140 or more, in place, without overflow."""
    np.ldexp(row, -int(np.frexp(norm)[1]), out=row)
    # Compute the norm of the shrunk row: the upper bound may have been capped.
    with np.errstate(under="ignore"):
        row *= target / (float(np.linalg.norm(row)) * (1 + (len(row) + 8) * _UNIT))
