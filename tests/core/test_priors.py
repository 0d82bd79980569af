"""The error of an attacker with a prior, simulated and not computed by the same formulas."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dosimeter.core.cramer_rao import accuracy_of_two, error_with_prior

LIMITS = Path(__file__).parents[2] / "docs" / "how-to" / "choose-a-limit.md"
DRAWS = 400_000


@pytest.mark.parametrize(("eta", "deviation"), [(0.3, 1.0), (1.0, 1.0), (5.0, 0.2)])
def test_the_error_of_the_best_guess_of_a_normal_unknown(eta, deviation):
    """The unknown is released with noise 1/η; the posterior mean is fitted by least squares, not derived."""
    rng = np.random.default_rng(0)
    z = deviation * rng.normal(size=DRAWS)
    observed = z + rng.normal(size=DRAWS) / eta
    slope = (observed @ z) / (observed @ observed)
    error = np.sqrt(np.mean((slope * observed - z) ** 2))
    assert error_with_prior(eta, deviation) == pytest.approx(error, rel=0.005)


@pytest.mark.parametrize("eta", [0.1, 1.0, 3.0])
def test_the_accuracy_of_the_best_guess_between_two_values(eta):
    rng = np.random.default_rng(1)
    value = rng.integers(2, size=DRAWS)
    observed = eta * value + rng.normal(size=DRAWS)
    cuts = np.linspace(-3, 3 + eta, 400)
    best = max(np.mean((observed > cut) == value) for cut in cuts[::8])
    assert accuracy_of_two(eta) == pytest.approx(best, abs=0.004)


def test_the_table_of_the_page_holds_these_figures():
    lines = re.findall(r"^\| ([\d.]+) \| ±([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \|", LIMITS.read_text(), re.M)
    assert [float(eta) for eta, *_ in lines] == [0.1, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0]
    rng = np.random.default_rng(2)
    z, noise = rng.normal(size=(2, DRAWS))
    value = rng.integers(2, size=DRAWS)
    for eta, unbiased, left, right in (map(float, line) for line in lines):
        assert unbiased == pytest.approx(1 / eta, rel=0.005)
        observed = z + noise / eta
        slope = (observed @ z) / (observed @ observed)
        assert left == pytest.approx(100 * np.std(slope * observed - z), abs=0.6)
        assert right == pytest.approx(100 * np.mean((eta * value + noise > eta / 2) == value), abs=0.6)
