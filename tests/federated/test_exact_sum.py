"""Sums without rounding: the same in every order, and one client moves them by at most C."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dosimeter.federated import Curator, UpdateBatch
from dosimeter.federated.client_messages import MessageCounts
from dosimeter.federated.exact_sum import grid_step, sum_updates, truncate
from dosimeter.federated.state import State

K, D, C = 300, 40, 0.7


def open_state(model_size: int = D, clip: float = C) -> State:
    return State.of(np.zeros(model_size), clip).with_open_round(np.arange(K), 10, 1.0, simulation=True)


def updates(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(K, D)) * np.exp(3 * rng.normal(size=(K, 1)))


@pytest.mark.parametrize("K", [1, 2, 3, 1000, 1024, 1025, 10_000, 1 << 30])
@pytest.mark.parametrize("C", [1e-60, 0.7, 1.0, np.nextafter(1.0, 0), 3e50])
def test_all_clients_together_stay_below_two_to_the_fifty_three_steps(K: int, C: float) -> None:
    step = grid_step(C, K)
    assert np.frexp(step)[0] == 0.5
    assert K * Fraction(C) / Fraction(step) < 2**53
    assert Fraction(step) <= Fraction(C) * K / 2**50


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_is_bit_for_bit_the_same_in_any_order_and_any_chunks(seed: int) -> None:
    X, rng = updates(seed), np.random.default_rng(seed)
    whole, bits = sum_updates(open_state(), K, [UpdateBatch(np.arange(K), X)], MessageCounts())
    for _ in range(3):
        order = rng.permutation(K)
        batches = np.array_split(order, rng.integers(1, 40))
        total, bits_again = sum_updates(
            open_state(), K, [UpdateBatch(part, X[part]) for part in batches], MessageCounts()
        )
        assert total.tobytes() == whole.tobytes()
        assert bits_again == bits
    # A float64 sum of the same rows depends on the order, so this test can fail.
    assert X[rng.permutation(K)].sum(axis=0).tobytes() != X.sum(axis=0).tobytes()


def test_leaving_one_client_out_moves_the_sum_by_at_most_the_bound_and_the_bits_by_a_half() -> None:
    X = updates(7)
    total, bits = sum_updates(open_state(), K, [UpdateBatch(np.arange(K), X)], MessageCounts())
    for k in range(0, K, 10):
        rest = np.delete(np.arange(K), k)
        without, fewer = sum_updates(open_state(), K, [UpdateBatch(rest, X[rest])], MessageCounts())
        moved = [Fraction(a) - Fraction(b) for a, b in zip(total.tolist(), without.tolist(), strict=True)]
        assert sum(m * m for m in moved) <= Fraction(C) ** 2
        assert abs(bits - fewer) == 0.5


def test_truncation_costs_less_than_a_step_per_entry() -> None:
    step = grid_step(C, K)
    X = updates(3)
    shorter = truncate(X.copy(), step) * step
    assert (np.abs(shorter) <= np.abs(X)).all()
    assert np.abs(shorter - X).max() < step


def test_the_curator_returns_no_sum_without_noise() -> None:
    """Sums without noise have one place: no method of the recipe returns one."""
    assert not [name for name in vars(Curator) if "sum" in name or "total" in name]
