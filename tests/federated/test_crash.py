"""Killed anywhere: no round is lost or noised twice, no cost forgotten. Two wrong orders of the steps are caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import (
    BudgetSpent,
    ClientUpdate,
    Constant,
    Curator,
    FixedClip,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    Spend,
    State,
)
from dosimeter.federated.accountant import rounds_of

D = 5
CURATOR = Curator(PoissonSampling(40), Constant(20, 2.0), PrivacyBudget(40.0, 1e-3), QuantileClip(0.5), momentum=0.3)
ROUNDS = 80


class Killed(Exception):
    """The process ended here."""


class World:
    """What survives a crash: the disk, and the published models. Steps are counted down to the crash."""

    def __init__(self, state: State) -> None:
        self.disk = state.to_dict()
        self.published: dict[int, set[bytes]] = {}
        self.crashes = 0
        self.steps_left = 0

    def step(self) -> None:
        self.steps_left -= 1
        if self.steps_left == 0:
            self.crashes += 1
            raise Killed

    def save(self, state: State) -> None:
        """Atomic, and accepts only the successor of the saved state."""
        assert state.serial == State.from_dict(self.disk).serial + 1
        self.step()
        self.disk = state.to_dict()
        self.step()

    def publish(self, state: State) -> None:
        self.step()
        self.published.setdefault(state.round, set()).add(state.model.tobytes())
        self.step()


def run_process(world: World, rng: np.random.Generator, rounds: int, wrong: str = "") -> None:
    """A process from its start: resume, then train; may be killed at each step."""
    state = State.from_dict(world.disk)
    if not state.is_open and state.round:
        world.publish(state)  # it may have been saved but not published
    while state.round < rounds:
        if state.is_open and rng.random() < 0.3:
            state = CURATOR.abandon_round(state)
            world.save(state)
            continue
        if not state.is_open:
            state = CURATOR.open_round(state)
            if wrong != "booked late":
                world.save(state)
        updates = []
        for k in state.participants:
            world.step()
            updates.append(ClientUpdate(int(k), np.full(D, 0.1), state.round))
        closed = CURATOR.close_round(state, updates)
        world.step()
        if wrong == "sent first":
            world.publish(closed)
        if wrong == "booked late":
            world.disk = state.to_dict()
        world.save(closed)
        if wrong != "sent first":
            world.publish(closed)
        state = closed


def run_with_kills(seed: int, kills: int, rounds: int = ROUNDS, wrong: str = "") -> World:
    rng = np.random.default_rng(seed)
    world = World(CURATOR.start(np.zeros(D)))
    for _ in range(kills):
        world.steps_left = int(rng.integers(1, 40))
        try:
            run_process(world, rng, rounds, wrong)
        except Killed:
            continue
        break
    world.steps_left = 0
    run_process(world, rng, rounds, wrong)
    return world


@pytest.mark.parametrize("seed", range(6))
def test_killed_at_random_it_ends_with_every_round_paid_once_and_noised_once(seed: int) -> None:
    world = run_with_kills(seed, kills=50)
    state = State.from_dict(world.disk)
    assert world.crashes == 50
    assert state.round == rounds_of(state.spent) == ROUNDS
    assert not state.is_open
    assert all(len(models) == 1 for models in world.published.values())
    # Every finished round was published, and the last model published is the saved one.
    assert set(world.published) >= {t + 1 for t, e in enumerate(state.history) if not e.abandoned}
    assert world.published[ROUNDS] == {state.model.tobytes()}


def test_fifty_kills_at_each_step_of_one_round() -> None:
    """Every boundary in turn, in the same run: save, sample, add noise, save, publish."""
    for steps in range(1, 51):
        world = World(CURATOR.start(np.zeros(D)))
        world.steps_left = steps
        rng = np.random.default_rng(steps)
        try:
            run_process(world, rng, 2)
        except Killed:
            before = State.from_dict(world.disk)
            world.steps_left = 0
            run_process(world, rng, 2)
            after = State.from_dict(world.disk)
            assert rounds_of(after.spent) >= rounds_of(before.spent)
        assert rounds_of(State.from_dict(world.disk).spent) == State.from_dict(world.disk).round == 2
        assert all(len(models) == 1 for models in world.published.values())


def test_publishing_before_saving_would_noise_a_round_twice() -> None:
    worlds = [run_with_kills(seed, kills=50, wrong="sent first") for seed in range(6)]
    assert any(len(models) > 1 for world in worlds for models in world.published.values())


def test_recording_the_cost_late_would_forget_rounds_that_were_sampled() -> None:
    """If the cost is saved after the noise, a crash leaves a state that does not know of clients already contacted."""
    rng = np.random.default_rng(0)
    world = World(CURATOR.start(np.zeros(D)))
    world.steps_left = 8  # while clients answer
    with pytest.raises(Killed):
        run_process(world, rng, 3, "booked late")
    assert rounds_of(State.from_dict(world.disk).spent) == 0
    world = World(CURATOR.start(np.zeros(D)))
    world.steps_left = 8
    with pytest.raises(Killed):
        run_process(world, rng, 3)
    assert rounds_of(State.from_dict(world.disk).spent) == 1


def test_crashing_in_every_round_still_stops_at_the_budget() -> None:
    """Open, die, abandon, again and again: the budget ends it."""
    curator = replace(CURATOR, budget=PrivacyBudget(4.0, 1e-3))
    state, opened = curator.start(np.zeros(D)), 0
    while curator.next_round_cost(state)[0]:
        state = State.from_dict(curator.open_round(state).to_dict())
        opened += 1
        state = curator.abandon_round(state)
    with pytest.raises(BudgetSpent):
        curator.open_round(state)
    assert rounds_of(state.spent) == opened > 0
    assert (state.model == 0).all()
    assert curator.dose(state).delta(4.0) <= 1e-3


def test_a_saved_state_continues_bit_for_bit() -> None:
    rng_a, rng_b = (np.random.default_rng(5) for _ in range(2))
    a = b = CURATOR.start(np.arange(D) / 7)
    for _ in range(6):
        a = CURATOR.open_round(a, rng_a)
        a = CURATOR.close_round(a, [ClientUpdate(int(k), np.full(D, 0.3)) for k in a.participants], rng_a)
        b = State.from_dict(CURATOR.open_round(State.from_dict(b.to_dict()), rng_b).to_dict())
        b = CURATOR.close_round(b, [ClientUpdate(int(k), np.full(D, 0.3)) for k in b.participants], rng_b)
    assert a.same_as(State.from_dict(b.to_dict()))
    assert not a.same_as(CURATOR.start(np.arange(D) / 7))


def test_the_dictionary_form_holds_arrays_and_scalars_only() -> None:
    state = CURATOR.open_round(CURATOR.start(np.zeros(D)))
    for value in state.to_dict().values():
        assert isinstance(value, bool | int | float | str) or (
            isinstance(value, np.ndarray) and value.dtype.kind in "fi"
        )


@pytest.mark.parametrize(
    "change",
    [
        {"spent": np.zeros((0, 3))},
        {"spent": np.array([[20, 2.0, 1.0]])},
        {"is_open": False},
        {"version": 2},
        {"velocity": np.zeros(D + 1)},
        {"model": np.full(D, np.nan)},
        {"clip": -1.0},
        {"clip": np.inf},
        {"velocity": np.full(D, np.nan)},
        {"spent": np.array([[20, 2.0, 7.0], [1, 1e6, -5.0]])},
        {"spent": np.array([[0.0, 2.0, 2.0]])},
        {"participants": np.array([3, 3])},
        {"extra": 1},
    ],
    ids=str,
)
def test_a_state_that_was_altered_is_refused(change: dict[str, Any]) -> None:
    state = CURATOR.close_round(CURATOR.open_round(CURATOR.start(np.zeros(D))), [])
    saved = CURATOR.open_round(state).to_dict()
    assert State.from_dict(saved).spent == (Spend(20.0, 2.0, 2),)
    with pytest.raises(Refusal, match="saved state"):
        State.from_dict({**saved, **change})


def test_states_are_read_only() -> None:
    state = Curator(PoissonSampling(10), Constant(5, 1.0), PrivacyBudget(8, 1e-3), FixedClip(1.0)).start(np.zeros(D))
    with pytest.raises(ValueError, match="read-only"):
        state.model[0] = 1.0


def test_rounds_are_not_accounted_with_more_clients_than_they_had() -> None:
    """The same rounds of 20 among 4,000 clients would cost next to nothing."""
    state = CURATOR.open_round(CURATOR.start(np.zeros(D)))
    other = replace(CURATOR, cohort=PoissonSampling(4000))
    for use in (other.figure, other.dose, other.next_round_cost, other.open_round, lambda s: other.close_round(s, [])):
        with pytest.raises(Refusal, match="resume it with its own recipe"):
            use(State.from_dict(state.to_dict()))


def test_an_open_round_is_noised_as_it_was_paid_for_even_if_the_schedule_changed() -> None:
    state = CURATOR.open_round(CURATOR.start(np.zeros(20_000)))
    later = replace(CURATOR, schedule=Constant(20, 0.2))
    noise = later.close_round(state, []).model * 20 / 0.5
    # z_d = (1/4 - 1/16)^-½ = 2.31; 20,000 entries determine it to half a per cent.
    assert noise.std() == pytest.approx(2.309, rel=0.03)
    assert later.close_round(state, []).history[0].noise == 2.0
