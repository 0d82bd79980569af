"""Choosing shaped noise: its scale for a target η, the exponent of its shape, and the frontier.

The released scale is the rung above the exact one. Scale and exponent are choices from the data, which no figure covers
(docs/explanation/sharp-edges.md, 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.scale_ladder import rung_above
from dosimeter.glm.fitting.minimiser import Fit
from dosimeter.glm.jacobians.leakage import Leakage
from dosimeter.glm.releases.calibrate import (
    HIGHEST,
    Calibration,
    DoseAtScale,
    check_target,
    least_rung,
)
from dosimeter.glm.releases.shaped_noise import EXPONENTS, ShapedNoise, shape_noise

EXPONENT_CHOSEN = "the exponent of the shape was chosen from the data: the choice itself is not covered"


def calibrate_shape(
    fit: Fit, X: Any, y: Any, target: float, reading: DoseAtScale = HIGHEST, *, p: float = 1.0, **options: Any
) -> Calibration:
    """The smallest rung √c at which a reading under noise N(0, c H⁻ᵖ) is at most `target`.

    Parameters
    ----------
    fit : Fit
        The exact fit, squared loss.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    target : float
        The highest η allowed.
    reading : DoseAtScale
        The figure that is limited; default: the highest row.
    p : float, default 1
        Exponent of the shape.
    **options
        As in `shape_noise`.

    Returns
    -------
    Calibration
        Its scale is √c, a choice from the data that is not covered.

    Raises
    ------
    Refusal
        If the shape itself leaks more than the target at any scale.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> calibrate_shape(glm.fit(X, y, glm.Squared()), X, y, target=2.0).reached <= 2.0
    True
    """
    check_target(target)
    at_one = shape_noise(fit, X, y, c=1.0, p=p, **options)
    least, constant = reading(at_one.floor), reading(at_one.frozen)
    if target <= least:
        raise Refusal(
            f"no scale brings the {reading.name} to η = {target:g}: the shape is computed from the data and leaks "
            f"{least:.4g} at any scale (internal); allow a higher dose, or use p = 0 or a public shape"
        )
    if not constant > 0:
        raise Refusal(
            f"the {reading.name} is zero at every scale: nothing leaks there, so no target determines a scale"
        )

    def leak(scale: float) -> Leakage:
        return shape_noise(fit, X, y, c=scale**2, p=p, **options).leakage

    return least_rung(rung_above(constant / target), target, reading, leak, f"shaped noise, p = {p:g}", exactly=True)


def best_exponent(
    fit: Fit,
    X: Any,
    y: Any,
    *,
    excess_loss: float,
    reading: DoseAtScale = HIGHEST,
    exponents: Sequence[float] = EXPONENTS,
    **options: Any,
) -> ShapedNoise:
    """The shaped noise whose exponent gives the lowest reading at a given expected loss.

    Parameters
    ----------
    fit : Fit
        The exact fit, squared loss.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    excess_loss : float
        ½ tr(HΣ), the expected increase of the objective.
    reading : DoseAtScale
        The figure to minimise, including the part of the covariance; default: the highest row.
    exponents : sequence of float
        The public grid of exponents.
    **options
        As in `shape_noise`.

    Returns
    -------
    ShapedNoise
        If the grid has several exponents, the choice is named as not covered.

    Raises
    ------
    Refusal
        If the grid is empty.

    Notes
    -----
    The figure with the covariance regarded as public is a cheap lower bound. Exponents are tried in its order until it
    exceeds the best figure.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> best_exponent(glm.fit(X, y, glm.Squared()), X, y, excess_loss=1.0, exponents=[0.5, 1.0]).p in (0.5, 1.0)
    True
    """
    tried = sorted(
        (reading(noise.frozen), k, noise)
        for k, noise in enumerate(shape_noise(fit, X, y, excess_loss=excess_loss, p=p, **options) for p in exponents)
    )
    if not tried:
        raise Refusal("exponents is empty: give at least one")
    best, lowest = tried[0][2], np.inf
    for bound, _, noise in tried:
        if bound >= lowest and options.get("scaled") is None:  # with a fitted scaler the frozen figure is not a bound
            break
        figure = reading(noise.leakage)
        if figure < lowest:
            best, lowest = noise, figure
    return replace(best, not_covered=(EXPONENT_CHOSEN,)) if len(tried) > 1 else best


@dataclass(frozen=True)
class ShapeFrontierPoint:
    """One shape at one loss. Internal: every figure is an unprotected statistic of the table."""

    shape: str
    p: float
    excess_loss: float
    highest: float
    """Highest η of a row, including the part of the covariance."""
    typical: float
    """Median η of the rows."""
    frozen: float
    """Highest η with the covariance regarded as public."""
    floor: float
    """The part of the highest that no scale removes."""


SHAPES: dict[str, tuple[float, ...]] = {"isotropic": (0.0,), "inverse Hessian": (1.0,), "best exponent": EXPONENTS}
"""Name of a shape, and the exponents it may take."""


def frontier(
    fit: Fit, X: Any, y: Any, losses: Iterable[float], shapes: dict[str, tuple[float, ...]] = SHAPES, **options: Any
) -> tuple[ShapeFrontierPoint, ...]:
    """Leakage of each shape of noise at each expected loss.

    Parameters
    ----------
    fit : Fit
        The exact fit, squared loss.
    X, y : array_like of shape (n, d) and (n,)
        The training table.
    losses : iterable of float
        Values of ½ tr(HΣ), the expected increase of the objective.
    shapes : dict of str to tuple of float
        Name of each shape and the exponents it may take; default: isotropic, inverse Hessian, best exponent.
    **options
        As in `shape_noise`.

    Returns
    -------
    tuple of ShapeFrontierPoint
        Ordered by loss, then shape. Internal.

    Raises
    ------
    CannotMeasure
        For losses other than the squared.

    Examples
    --------
    >>> from dosimeter import glm
    >>> X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.0, 4.0])
    >>> [point.shape for point in frontier(glm.fit(X, y, glm.Squared()), X, y, [1.0], {"isotropic": (0.0,)})]
    ['isotropic']
    """
    points = []
    for loss in losses:
        for name, exponents in shapes.items():
            noise = best_exponent(fit, X, y, excess_loss=loss, exponents=exponents, **options)
            eta = noise.leakage.examples
            figures = (leak.examples.max() for leak in (noise.frozen, noise.floor))
            points.append(
                ShapeFrontierPoint(name, noise.p, loss, float(eta.max()), float(np.median(eta)), *map(float, figures))
            )
    return tuple(points)
