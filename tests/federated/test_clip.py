"""The bound on one client, in exact rational arithmetic: no tolerance anywhere."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dosimeter.core.errors import Refusal
from dosimeter.federated import clip, clip_rows


def square(v: np.ndarray) -> Fraction:
    """‖v‖² without rounding."""
    return sum((Fraction(float(x)) ** 2 for x in v), Fraction(0))


@given(
    arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.floats(1e-90, 1e90),
)
@settings(max_examples=400, deadline=None)
def test_the_norm_never_exceeds_the_bound_as_a_real_number(update: np.ndarray, C: float) -> None:
    assert square(clip(update, C)) <= Fraction(C) ** 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 1000, 5003])
def test_norms_at_and_around_the_bound_are_never_above_it(d: int, dtype: type) -> None:
    rng = np.random.default_rng(d)
    directions = rng.normal(size=(20, d))
    C = 0.1  # not a binary fraction
    block = C * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    block = (block * (1 + rng.choice([-1e-16, 0, 1e-16, 3e-16, 1e-7], size=(20, 1)))).astype(dtype)
    rows, norms, accepted = clip_rows(block, C)
    assert accepted.all()
    assert all(square(row) <= Fraction(C) ** 2 for row in rows)
    assert all(square(sent) <= Fraction(n) ** 2 for sent, n in zip(block.astype(float), norms, strict=True))


def test_dividing_by_the_norm_alone_would_pass_the_bound() -> None:
    """The simple rule, which the test above would catch."""
    rng = np.random.default_rng(0)
    plain = [v * (0.1 / np.linalg.norm(v)) for v in rng.normal(size=(50, 1000))]
    assert any(square(v) > Fraction(0.1) ** 2 for v in plain)


def test_clipping_keeps_the_direction_and_loses_next_to_nothing() -> None:
    v = np.random.default_rng(1).normal(size=5000)
    u = clip(v, 1.0)
    assert np.linalg.norm(u) > 1 - 1e-11
    np.testing.assert_allclose(u / np.linalg.norm(u), v / np.linalg.norm(v), rtol=1e-12)
    np.testing.assert_array_equal(clip(v, 1e6), v)


@pytest.mark.parametrize("size", [1e300, 1.7e308, 1e-300, 5e-324])
def test_enormous_and_tiny_entries_are_clipped_without_overflow(size: float) -> None:
    v = np.full(4096, size)
    u = clip(v, 3.0)
    assert np.isfinite(u).all()
    assert square(u) <= 9
    if size > 1:
        assert abs(np.linalg.norm(u) - 3.0) < 1e-9
    else:
        np.testing.assert_array_equal(u, v)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_becomes_zeros_and_is_reported(bad: float) -> None:
    block = np.ones((3, 5))
    block[1, 4] = bad
    rows, norms, accepted = clip_rows(block, 10.0)
    assert accepted.tolist() == [True, False, True]
    assert (rows[1] == 0).all()
    assert norms[1] == 0
    assert (rows[[0, 2]] == 1).all()


def test_the_input_block_is_not_changed() -> None:
    block = np.full((2, 3), 9.0)
    clip_rows(block, 1.0)
    assert (block == 9).all()


@pytest.mark.parametrize("bound", [0, -1.0, np.nan, np.inf, 1e200, True, "1"])
def test_an_invalid_bound_is_refused(bound: object) -> None:
    with pytest.raises(Refusal, match="clipping bound"):
        clip(np.ones(2), bound)  # type: ignore[arg-type]


@pytest.mark.parametrize("update", [np.ones((2, 2)), np.array([1, 2]), np.array(["a"]), np.array([None])])
def test_what_is_not_a_flat_vector_of_floats_is_refused(update: np.ndarray) -> None:
    with pytest.raises(Refusal, match="flat vector"):
        clip(update, 1.0)
