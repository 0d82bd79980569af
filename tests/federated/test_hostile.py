"""Clients that send anything at all: the round ends, the model is finite, no client moves the sum by more than C."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dosimeter.federated import (
    ClientUpdate,
    Constant,
    Curator,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    UpdateBatch,
)
from dosimeter.federated.client_messages import MessageCounts
from dosimeter.federated.exact_sum import sum_updates
from dosimeter.federated.state import State

K, M, D = 60, 30, 8


class Trap:
    """An object whose conversion to an array would run the sender's code."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise AssertionError("the sender's code was run")


def spoiled(value: float, position: int = 0) -> np.ndarray:
    v = np.ones(D)
    v[position] = value
    return v


def trapped() -> np.ndarray:
    v = np.empty(D, dtype=object)
    v.fill(Trap())
    return v


HOSTILE: dict[str, Any] = {
    "nan": lambda k, t: ClientUpdate(k, spoiled(np.nan)),
    "inf": lambda k, t: ClientUpdate(k, spoiled(-np.inf, 3)),
    "huge": lambda k, t: ClientUpdate(k, np.full(D, 1e300)),
    "largest": lambda k, t: ClientUpdate(k, np.full(D, -np.finfo(float).max)),
    "zero": lambda k, t: ClientUpdate(k, np.zeros(D)),
    "subnormal": lambda k, t: ClientUpdate(k, np.full(D, 5e-324)),
    "too short": lambda k, t: ClientUpdate(k, np.ones(D - 1)),
    "too long": lambda k, t: ClientUpdate(k, np.ones(D + 1)),
    "matrix": lambda k, t: ClientUpdate(k, np.ones((1, D))),
    "scalar": lambda k, t: ClientUpdate(k, np.float64(1.0)),
    "integers": lambda k, t: ClientUpdate(k, np.ones(D, dtype=np.int64)),
    "complex": lambda k, t: ClientUpdate(k, np.ones(D, dtype=complex)),
    "half": lambda k, t: ClientUpdate(k, np.ones(D, dtype=np.float16)),
    "text": lambda k, t: ClientUpdate(k, np.array(["1e9"] * D)),
    "objects": lambda k, t: ClientUpdate(k, trapped()),
    "trap": lambda k, t: ClientUpdate(k, Trap()),
    "list": lambda k, t: ClientUpdate(k, [1e9] * D),
    "none": lambda k, t: ClientUpdate(k, None),
    "weight": lambda k, t: ClientUpdate(k, np.ones(D), t, 1e9),
    "stale": lambda k, t: ClientUpdate(k, np.ones(D), t - 1 if t else 99),
    "round as text": lambda k, t: ClientUpdate(k, np.ones(D), "now"),  # type: ignore[arg-type]
    "no client": lambda k, t: ClientUpdate(None, np.ones(D)),
    "not sampled": lambda k, t: ClientUpdate(K + 5, np.ones(D)),
    "client as text": lambda k, t: ClientUpdate(str(k), np.ones(D)),
    "not a message": lambda k, t: b"garbage",
    "too many parts": lambda k, t: (k, np.ones(D), t, 1, 2),
    "block of another size": lambda k, t: UpdateBatch([k], np.ones((2, D))),
}
REFUSED = set(HOSTILE) - {"huge", "largest", "zero", "subnormal", "weight"}


def open_state(clip: float = 0.7) -> State:
    return State.of(np.zeros(D), clip).with_open_round(np.arange(K), M, 1.0, simulation=True)


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_message_moves_the_sum_by_more_than_the_clip(kind: str) -> None:
    honest = [ClientUpdate(k, np.random.default_rng(k).normal(size=D)) for k in range(10)]
    counts, counts_without = MessageCounts(), MessageCounts()
    without, bits = sum_updates(open_state(), K, honest, counts_without)
    with_it, more = sum_updates(open_state(), K, [*honest[:5], HOSTILE[kind](40, 0), *honest[5:]], counts)
    moved = [Fraction(a) - Fraction(b) for a, b in zip(with_it.tolist(), without.tolist(), strict=True)]
    assert sum(m * m for m in moved) <= Fraction(0.7) ** 2
    assert abs(more - bits) <= 0.5
    assert (counts.accepted, counts.refused) == ((10, 1) if kind in REFUSED else (11, 0))
    if kind in REFUSED:
        assert with_it.tobytes() == without.tobytes()


@pytest.mark.parametrize("size", [1e-6, 1.0])
@pytest.mark.parametrize("weight", [0.0, 2.0, 1e9, np.nan])
def test_a_claimed_weight_changes_nothing(weight: float, size: float) -> None:
    """Also within the clip: beyond it, any weight above one would be clipped away."""
    plain, bit = sum_updates(open_state(), K, [ClientUpdate(1, np.full(D, size))], MessageCounts())
    heavy, same = sum_updates(open_state(), K, [ClientUpdate(1, np.full(D, size), 0, weight)], MessageCounts())
    assert np.linalg.norm(plain) > 0
    assert plain.tobytes() == heavy.tobytes()
    assert bit == same


def test_of_two_messages_of_one_client_the_first_counts() -> None:
    counts = MessageCounts()
    total, _ = sum_updates(
        open_state(),
        K,
        [ClientUpdate(3, np.ones(D)), ClientUpdate(3, -np.ones(D)), UpdateBatch([4, 4], np.ones((2, D)))],
        counts,
    )
    assert (counts.accepted, counts.refused) == (2, 2)
    assert np.linalg.norm(total) == pytest.approx(1.4, rel=1e-6)


def messages(state: State, hostile: set[int], rng: np.random.Generator) -> Iterator[Any]:
    """Honest clients pull the model towards 1; hostile ones send something from the list, twice."""
    kinds = list(HOSTILE)
    for k in state.participants:
        if int(k) in hostile:
            make = HOSTILE[kinds[rng.integers(len(kinds))]]
            yield make(int(k), state.round)
            yield make(int(k), state.round)
        else:
            yield ClientUpdate(int(k), 0.3 * (1.0 - state.model) + 0.05 * rng.normal(size=D))


def train(hostile: set[int], absent: set[int], seed: int, rounds: int = 100) -> State:
    rng = np.random.default_rng(seed)
    curator = Curator(PoissonSampling(K), Constant(M, 1.0), PrivacyBudget(1e3, 1e-2), QuantileClip(0.5))
    state = curator.start(np.zeros(D))
    for _ in range(rounds):
        state = curator.open_round(state, rng)
        before = state.model
        answers = (m for m in messages(state, hostile, rng) if not (isinstance(m, ClientUpdate) and m.client in absent))
        state = curator.close_round(state, answers, rng)
        assert np.isfinite(state.model).all()
        # 60 contributions of C/m and noise of 1.04·C/m: twelve standard deviations of an 8-vector.
        assert np.linalg.norm(state.model - before) <= (K + 1.04 * 40) * state.history[-1].clip / M
    return state


def test_a_hundred_rounds_with_thirty_per_cent_hostile_clients_end_well() -> None:
    hostile = set(range(18))
    state = train(hostile, set(), seed=1)
    assert state.round == 100
    assert sum(e.refused for e in state.history) > 500
    # The honest clients' goal is reached as far as the noise allows: hostile values within the clip pull to one side.
    assert np.linalg.norm(state.model - 1.0) < np.linalg.norm(np.ones(D))


def test_refused_clients_are_no_worse_than_absent_ones() -> None:
    """Only refusable messages: the run equals, bit for bit, the run in which these clients never answer."""
    rng = [np.random.default_rng(9) for _ in range(2)]
    curator = Curator(PoissonSampling(K), Constant(M, 1.0), PrivacyBudget(1e3, 1e-2), QuantileClip(0.5))
    states = [curator.start(np.zeros(D)) for _ in rng]
    for t in range(20):
        for i, source in enumerate(rng):
            opened = curator.open_round(states[i], source)
            honest = [ClientUpdate(int(k), np.full(D, 0.1 * k)) for k in opened.participants if k >= 18]
            bad = [
                HOSTILE[sorted(REFUSED)[(t + int(k)) % len(REFUSED)]](int(k), t) for k in opened.participants if k < 18
            ]
            states[i] = curator.close_round(opened, honest if i else [*bad, *honest], source)
    assert states[0].model.tobytes() == states[1].model.tobytes()
    assert states[0].clip == states[1].clip


def digits() -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray]:
    """scikit-learn's digits: 60 clients of 25 and a test set of 297."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = np.c_[X[order] / 16, np.ones(len(y))], y[order]
    return [(X[i::60][:25], y[i::60][:25]) for i in range(60)], X[1500:], y[1500:]


def one_epoch(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Update of softmax regression after ten full steps on one client."""
    W, truth = w.reshape(X.shape[1], 10).copy(), np.eye(10)[y]
    for _ in range(10):
        logits = X @ W
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        W -= 0.5 * X.T @ (p / p.sum(axis=1, keepdims=True) - truth) / len(y)
    return W.ravel() - w


def accuracy_on_digits(hostile: set[int], answer: bool, seed: int) -> float:
    clients, X, y = digits()
    rng, kinds = np.random.default_rng(seed), sorted(HOSTILE)
    curator = Curator(PoissonSampling(K), Constant(M, 0.3), PrivacyBudget(1e4, 1e-2), QuantileClip(1.0, 0.7))
    state = curator.start(np.zeros(X.shape[1] * 10))

    def answer_of(k: int) -> Any:
        if k not in hostile:
            return ClientUpdate(k, one_epoch(state.model, *clients[k]))
        kind = kinds[(7 * k + state.round) % len(kinds)]
        if kind in ("huge", "largest"):
            return ClientUpdate(k, np.full(state.model.size, 1e300 if kind == "huge" else -np.finfo(float).max))
        return HOSTILE[kind](k, state.round)

    for _ in range(100):
        state = curator.open_round(state, rng)
        sampled = [int(k) for k in state.participants]
        state = curator.close_round(state, [answer_of(k) for k in sampled if answer or k not in hostile], rng)
    return float(np.mean((X @ state.model.reshape(-1, 10)).argmax(axis=1) == y))


def test_thirty_per_cent_hostile_clients_cost_less_than_two_points_of_accuracy() -> None:
    """Against the same runs with those clients absent, mean of three seeds. Huge updates count: they pull within C."""
    hostile = set(range(18))
    with_them, without = (np.mean([accuracy_on_digits(hostile, a, s) for s in range(3)]) for a in (True, False))
    assert without > 0.85
    assert with_them > without - 0.02
