"""The precision attack: low bits of float noise prove that a weight was zero; on the grid there are none.

Event of the attack: |y| < 1/16 and y is no multiple of 2^-55. Float noise added to 0 keeps the low bits of small draws;
added to 0.25, draws that end near 0 are themselves above 1/8 and have no such bits: there the event has probability 0.
One output in three then proves a zero weight with certainty (why this matters: [Mironov12]).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from dosimeter.core.noise import Gaussian, Laplace
from dosimeter.noise_addition import add_noise, grid_of

N = 1_000_000


def event(y: np.ndarray) -> float:
    return float(((np.abs(y) < 1 / 16) & (y % 2.0**-55 != 0)).mean())


@pytest.mark.parametrize("noise", [Gaussian(0.1), Laplace(0.1)], ids=repr)
def test_the_attack_finds_nothing_on_the_grid(noise: Gaussian | Laplace) -> None:
    assert event(add_noise(np.zeros(N), noise)) == event(add_noise(np.full(N, 0.25), noise)) == 0


@pytest.mark.parametrize("noise", [Gaussian(0.1), Laplace(0.1)], ids=repr)
def test_the_attack_finds_a_zero_weight_in_float_noise(noise: Gaussian | Laplace) -> None:
    """The check can fail: numpy's noise, added in float64, reveals the zero."""
    rng = np.random.default_rng(1)
    assert event(0.0 + noise.draw(rng, N)) > 0.3
    assert event(0.25 + noise.draw(rng, N)) == 0


PAIRS = [(0.0, 0.25), (0.0, 2.0**-10), (1.0, np.nextafter(1.0, 0)), (0.5, 0.50001), (-0.0, 1e-12)]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_low_bits_near_zero_do_not_distinguish_two_centres(first: float, second: float) -> None:
    """Residues mod 32 of the outputs in one window, homogeneity of two samples, cut at 1e-11."""
    noise = Gaussian(0.1)
    g, counts = grid_of(noise), []
    for centre in (first, second):
        y = add_noise(np.full(N, centre), noise)
        inside = y[np.abs(y - first) < 0.25] / g
        counts.append(np.bincount(inside.astype(np.int64) % 32, minlength=32))
    table = np.array(counts, dtype=float)
    due = table.sum(1, keepdims=True) * table.sum(0) / table.sum()
    assert special.chdtrc(31, ((table - due) ** 2 / due).sum()) > 1e-11
