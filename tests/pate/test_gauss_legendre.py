"""The nodes of a piece suffice: against forty nodes on every quarter of a scale."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dosimeter.pate.gauss_legendre import FEW, NODES_FOR_ANY, NODES_FOR_FEW, rule

ROUNDING = 1e-14
"""Of the nodes and the integrand; the sums themselves are rounded once (`math.fsum`)."""
X, W = np.polynomial.legendre.leggauss(40)


def finely(f: object, width: float) -> float:
    """∫ over [0, width] by 40 nodes on each quarter of a scale."""
    ends = np.linspace(0, width, int(np.ceil(4 * width)) + 1)
    half = np.diff(ends)[:, None] / 2
    t = ends[:-1, None] + half * (X + 1)
    return math.fsum((half * W * f(t)).ravel())  # type: ignore[operator]


def integrand(factors: int, theta: float, above: int, width: float) -> object:
    """Passed classes as a product, the derivative of the last of them, and `above` classes still ahead."""
    return lambda t: np.exp((factors - 1) * np.log1p(-theta * np.exp(-t)) - t + above * (t - width - np.log(2)))


@pytest.mark.parametrize("above", [0, 1, 3, 12])
@pytest.mark.parametrize(("factors", "halves"), [(1, True), (9, True), (FEW, True), (99, True), (5000, True)])
def test_the_nodes_suffice_for_laplace_noise(factors: int, halves: bool, above: int) -> None:
    table = NODES_FOR_FEW if factors <= FEW else NODES_FOR_ANY
    for width in [*(w for w, _ in table), 0.3, 5.0, 11.0, 20.0, 75.0, 400.0]:
        t, w = rule(width, factors, halves=halves)
        f = integrand(factors, 0.5, above, width)
        assert abs(math.fsum(w * f(t)) - finely(f, width)) < ROUNDING, width  # type: ignore[operator]


@pytest.mark.parametrize("factors", [1, 9, 99, 5000])
def test_the_nodes_suffice_for_one_sided_noise(factors: int) -> None:
    for width in [*(w for w, _ in NODES_FOR_ANY), 0.3, 5.0, 20.0, 75.0]:
        t, w = rule(width, factors, halves=False)
        f = integrand(factors, 1.0, 0, width)
        assert abs(math.fsum(w * f(t)) - finely(f, width)) < ROUNDING, width  # type: ignore[operator]


def test_eight_nodes_fewer_would_not_suffice() -> None:
    """The test above can fail: the widest sub-piece with eight nodes fewer errs by more than is allowed."""
    for table, factors, theta in ((NODES_FOR_FEW, FEW, 0.5), (NODES_FOR_ANY, 20, 1.0)):
        width, n = table[-1]
        f = integrand(factors, theta, 0, width)
        errors = []
        for nodes in (n - 8, n):
            x, w = np.polynomial.legendre.leggauss(nodes)
            errors.append(abs(width / 2 * w @ f(width / 2 * (x + 1)) - finely(f, width)))  # type: ignore[operator]
        assert errors[1] < ROUNDING < errors[0]


def test_a_wide_piece_costs_as_its_logarithm() -> None:
    assert len(rule(1e6, 9, halves=True)[0]) < 40 * len(rule(12.0, 9, halves=True)[0])
