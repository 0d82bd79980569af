"""Sliced products against multiple precision."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from dosimeter.glm.linalg.exact_product import exact_product


def rounded(X, T):
    with mp.workdps(80):
        return np.array([[float(mp.fdot(map(mp.mpf, x), map(mp.mpf, t))) for t in T.T.tolist()] for x in X.tolist()])


@pytest.mark.parametrize("decades", [0, 6, 12])
def test_products_that_cancel_keep_their_digits(decades):
    rng = np.random.default_rng(decades)
    U, _, V = np.linalg.svd(rng.standard_normal((20, 6)), full_matrices=False)
    X = (U * np.logspace(0, -decades, 6)) @ V
    T = np.linalg.inv(np.linalg.qr(X)[1])
    truth = rounded(X, T)
    assert np.abs(exact_product(X, T) - truth).max() <= 1e-13 * np.abs(truth).max()
    if decades == 12:
        # The plain product must be visibly worse, or this module has no reason to exist.
        assert np.abs(X @ T - truth).max() > 1e-8 * np.abs(truth).max()


def test_entries_of_unlike_size_and_zeros_are_exact():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((15, 5)) * 10.0 ** rng.integers(-12, 12, (15, 5))
    X[3] = 0.0
    T = rng.standard_normal((5, 3)) * 10.0 ** rng.integers(-12, 12, (5, 3))
    truth = rounded(X, T)
    np.testing.assert_allclose(exact_product(X, T), truth, rtol=1e-12, atol=1e-18 * np.abs(truth).max())
