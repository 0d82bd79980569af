"""Slopes by differences against derivatives in closed form, and what is told from a jump or a bend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.adapters.steps.differences import AGREE, slopes_by_differences
from dosimeter.adapters.steps.row_checks import jumping_inputs

RNG = np.random.default_rng(3)
X = np.sort(RNG.normal(size=80))
Function = Callable[[Any], Any]
SMOOTH: dict[str, tuple[Any, Function, Function]] = {
    "a polynomial": (X, lambda x: x**5 - 3 * x**2, lambda x: 5 * x**4 - 6 * x),
    "a wave": (50 + 12 * X, np.sin, np.cos),
    "a fast wave": (X, lambda x: np.sin(60 * x), lambda x: 60 * np.cos(60 * x)),
    "a steep step": (X, lambda x: np.tanh(300 * x), lambda x: 300 * (1 - np.tanh(300 * x) ** 2)),
    "a logarithm near zero": (np.exp(3 * X), np.log, lambda x: 1 / x),
    "seconds since 1970": (
        1.7e9 + 1e5 * X,
        lambda x: np.cos((x - 1.7e9) / 3e4),
        lambda x: -np.sin((x - 1.7e9) / 3e4) / 3e4,
    ),
    "tiny": (1e-9 * X, lambda x: np.exp(1e9 * x), lambda x: 1e9 * np.exp(1e9 * x)),
    "straight": (X, lambda x: 4.0 - 3.0 * x, lambda x: np.full_like(x, -3.0)),
    "constant": (X, lambda x: np.full_like(x, 7.0), np.zeros_like),
    "bends between the rows": (X, lambda x: np.maximum(x - 0.1234567, 0.0), lambda x: (x > 0.1234567).astype(float)),
}


def by_differences(x: Any, function: Function) -> Any:
    def evaluate(columns: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.column_stack([function(columns[0]), columns[1] * function(columns[0])])

    columns = [x, RNG.normal(size=len(x))]
    scales = np.array([x.std(), 1.0])
    result = slopes_by_differences("f", evaluate, columns, [0, 1], scales, {})
    return columns[1], result


@pytest.mark.parametrize("name", SMOOTH)
def test_slopes_are_those_of_the_derivative(name: str) -> None:
    x, function, derivative = SMOOTH[name]
    other, result = by_differences(x, function)
    true = derivative(x)
    size = max(float(np.abs(true).max()), 1e-12)
    np.testing.assert_allclose(result.slopes[:, 0, 0], true, rtol=1e-6, atol=1e-9 * size)
    np.testing.assert_allclose(result.slopes[:, 1, 0], other * true, rtol=1e-6, atol=1e-8 * size)
    np.testing.assert_allclose(result.slopes[:, 1, 1], function(x), rtol=1e-6, atol=1e-9)
    assert result.error <= AGREE
    assert result.bends == 0


@pytest.mark.parametrize(("left", "right"), [(0.0, 1.0), (-2.0, 0.5), (1.0, 1.001)])
def test_a_row_at_a_bend_has_the_steeper_side_and_not_the_mean(left: float, right: float) -> None:
    knot = X[31]
    _, result = by_differences(X, lambda x: np.where(x < knot, left, right) * (x - knot))
    steeper = left if abs(left) > abs(right) else right
    assert result.slopes[31, 0, 0] == pytest.approx(steeper, rel=1e-6)
    assert result.bends == 1
    np.testing.assert_allclose(result.slopes[:31, 0, 0], left, atol=1e-9)
    np.testing.assert_allclose(result.slopes[32:, 0, 0], right, rtol=1e-9)


def test_an_edge_of_the_domain_is_read_from_inside() -> None:
    x = np.abs(X)
    x[5] = 0.0
    _, result = by_differences(x, lambda x: np.where(x >= 0, x**2 + x, np.nan))
    np.testing.assert_allclose(result.slopes[:, 0, 0], 2 * x + 1.0, rtol=1e-6)


@pytest.mark.parametrize("function", [np.sqrt, lambda x: np.where(x >= X[40], 1.0, 0.0)], ids=["infinite", "jump"])
def test_a_row_without_a_slope_is_refused(function: Function) -> None:
    x = X.copy() if function is not np.sqrt else np.abs(X)
    if function is np.sqrt:
        x[5] = 0.0
    with pytest.raises(dm.CannotMeasure, match="row 5 " if function is np.sqrt else "row 40 "):
        by_differences(x, function)


JUMPS: dict[str, tuple[Function, bool]] = {
    "whole numbers": (np.floor, True),
    "a threshold": (lambda x: (x > 0.3).astype(float), True),
    "a small step on a slope": (lambda x: x + 1e-3 * (x > 0.3), True),
    "a steep tanh": (lambda x: np.tanh(3000 * x), False),
    "a bend": (lambda x: np.maximum(x, 0.3), False),
    "a vertical tangent": (np.cbrt, True),
    "a wave": (lambda x: np.sin(40 * x), False),
    "nothing": (np.zeros_like, False),
}


@pytest.mark.parametrize("name", JUMPS)
def test_jumps_are_told_from_what_is_only_steep(name: str) -> None:
    function, jumps = JUMPS[name]

    def evaluate(columns: Any) -> Any:
        return np.column_stack([columns[1], function(columns[0])])

    assert jumping_inputs(evaluate, [X, RNG.normal(size=len(X))], [0, 1]) == ([0] if jumps else [])
