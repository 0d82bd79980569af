"""Sums without rounding: the same in every order, and one client moves them by C at most."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dosimeter.federated import Curator, UpdateBatch
from dosimeter.federated.client_messages import MessageCounts
from dosimeter.federated.exact_sum import cut, gathered, step_of
from dosimeter.federated.state import State

K, D, C = 300, 40, 0.7


def opened(model_size: int = D, clip: float = C) -> State:
    return State.of(np.zeros(model_size), clip).opened(np.arange(K), 10, 1.0, simulation=True)


def updates(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(K, D)) * np.exp(3 * rng.normal(size=(K, 1)))


@pytest.mark.parametrize("K", [1, 2, 3, 1000, 1024, 1025, 10_000, 1 << 30])
@pytest.mark.parametrize("C", [1e-60, 0.7, 1.0, np.nextafter(1.0, 0), 3e50])
def test_all_clients_together_stay_below_two_to_the_fifty_three_steps(K: int, C: float) -> None:
    step = step_of(C, K)
    assert np.frexp(step)[0] == 0.5
    assert K * Fraction(C) / Fraction(step) < 2**53
    assert Fraction(step) <= Fraction(C) * K / 2**50


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_is_bit_for_bit_the_same_in_any_order_and_any_chunks(seed: int) -> None:
    X, rng = updates(seed), np.random.default_rng(seed)
    whole, bits = gathered(opened(), K, [UpdateBatch(np.arange(K), X)], MessageCounts())
    for _ in range(3):
        order = rng.permutation(K)
        cuts = np.array_split(order, rng.integers(1, 40))
        again, same = gathered(opened(), K, [UpdateBatch(part, X[part]) for part in cuts], MessageCounts())
        assert again.tobytes() == whole.tobytes()
        assert same == bits
    # A float64 sum of the same rows does depend on the order: the test can fail.
    assert X[rng.permutation(K)].sum(axis=0).tobytes() != X.sum(axis=0).tobytes()


def test_leaving_one_client_out_moves_the_sum_by_the_bound_at_most_and_the_bits_by_a_half() -> None:
    X = updates(7)
    total, bits = gathered(opened(), K, [UpdateBatch(np.arange(K), X)], MessageCounts())
    for k in range(0, K, 10):
        rest = np.delete(np.arange(K), k)
        without, fewer = gathered(opened(), K, [UpdateBatch(rest, X[rest])], MessageCounts())
        moved = [Fraction(a) - Fraction(b) for a, b in zip(total.tolist(), without.tolist(), strict=True)]
        assert sum(m * m for m in moved) <= Fraction(C) ** 2
        assert abs(bits - fewer) == 0.5


def test_cutting_towards_zero_costs_less_than_a_step_an_entry() -> None:
    step = step_of(C, K)
    X = updates(3)
    shorter = cut(X.copy(), step) * step
    assert (np.abs(shorter) <= np.abs(X)).all()
    assert np.abs(shorter - X).max() < step


def test_the_curator_names_no_total_of_its_own() -> None:
    """What is not noised has one door: nothing of the recipe returns a sum."""
    assert not [name for name in vars(Curator) if "sum" in name or "total" in name]
