"""Quantiles by a sample's bracket: numpy's to the last bit, for numbers in any order and with any ties."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core import quantiles
from dosimeter.core.quantiles import MANY, SAMPLE, median, quantile

SHARES = (0.0, 0.001, 0.1, 1 / 3, 0.5, 0.9, 0.99, 1.0)


def tables(n: int) -> dict[str, np.ndarray]:
    """Numbers in friendly and hostile orders."""
    rng = np.random.default_rng(n)
    hidden = np.zeros(n)
    hidden[1 :: n // SAMPLE] = rng.normal(size=len(hidden[1 :: n // SAMPLE]))  # the sample sees zeros only
    fooled = rng.normal(size=n)
    fooled[:: n // SAMPLE] += 100.0  # the sample is far above everything
    return {
        "spread": rng.lognormal(sigma=3.0, size=n),
        "ascending": np.arange(n) / 7.0,
        "ties": rng.integers(0, 3, n).astype(float),
        "equal": np.full(n, 0.1),
        "hidden": hidden,
        "fooled": fooled,
        "infinite": np.where(rng.random(n) < 0.3, np.inf, rng.random(n)),
        "negative infinite": np.where(rng.random(n) < 0.7, -np.inf, rng.random(n)),
    }


@pytest.mark.parametrize("n", [1, 2, 999, MANY, MANY + 1, 100_001, 250_000])
def test_the_numbers_are_those_of_numpy(n: int) -> None:
    for name, values in tables(max(n, SAMPLE)).items():
        values = values[:n]
        before = values.copy()
        with np.errstate(invalid="ignore"):
            for share in SHARES:
                np.testing.assert_equal(quantile(values, share), float(np.quantile(values, share)), f"{name} {share}")
        assert median(values) == np.median(values), name
        np.testing.assert_array_equal(values, before)


def test_a_nan_is_not_lost() -> None:
    values = np.arange(float(2 * MANY))
    values[3] = np.nan  # between two numbers of the sample
    assert np.isnan(median(values))
    assert np.isnan(quantile(values, 0.9))


def test_numpy_orders_only_a_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bracket is used: the result does not come from numpy's own functions."""
    values = np.random.default_rng(0).normal(size=200_000)
    expected = float(np.median(values)), float(np.quantile(values, 0.99))
    monkeypatch.setattr(quantiles.np, "median", None)
    monkeypatch.setattr(quantiles.np, "quantile", None)
    assert (median(values), quantile(values, 0.99)) == expected
