"""A training over patients: accounting, attack, resumption, and a model that learns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from dosimeter.core.errors import Refusal
from dosimeter.federated import (
    Constant,
    Curator,
    Network,
    PatientRows,
    PatientTask,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    State,
    audit_patients,
    clip_rows,
    train_patients,
)
from dosimeter.federated import site_sums as sums_module

K = 600
BUDGET = PrivacyBudget(2.0, 1e-4)


def task(sites: int = 3, network: Network | None = None) -> PatientTask:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(K, 4))
    margin = X @ [2.0, -1.0, 0.5, 0.0] + 0.3
    net = network or Network((4, 2))
    y: Any = margin / 4 if net.is_regression else (margin > 0).astype(int)
    parts = tuple(PatientRows(X[s::sites], y[s::sites], np.arange(len(X[s::sites]) + 1)) for s in range(sites))
    return PatientTask(net, 0.5, parts, X, y, K)


def recipe(m: float = K, z: float = 12.0) -> Curator:
    return Curator(PoissonSampling(K), Constant(m, z), BUDGET, QuantileClip(1.0, 0.7), 0.9, unit="person")


def test_the_figure_is_that_of_dp_accounting_run_by_itself() -> None:
    history = train_patients(task(), recipe(150, 4.0), seed=1, rounds=20)
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    event = dp_accounting.PoissonSampledDpEvent(150 / K, dp_accounting.GaussianDpEvent(4.0))
    accountant.compose(event, 20)
    assert history.figure.epsilon == pytest.approx(accountant.get_epsilon(BUDGET.delta), rel=1e-6)
    assert (history.figure.unit, history.figure.adjacency) == ("person", "add-or-remove-one")


@pytest.mark.parametrize("network", [Network((4, 2)), Network((4, 1), end="identity")], ids=str)
def test_it_learns_what_the_patients_know(network: Network) -> None:
    curator = replace(recipe(z=2.0), budget=PrivacyBudget(100.0, 1e-4))
    history = train_patients(task(network=network), curator, seed=1, rounds=25)
    assert history.accuracy > 0.8


def test_the_number_of_sites_changes_no_bit_when_everybody_is_asked() -> None:
    one, many = (train_patients(task(sites), recipe(), seed=3, rounds=4) for sites in (1, 7))
    assert one.state.model.tobytes() == many.state.model.tobytes()


def test_the_state_never_lists_a_patient() -> None:
    states: list[State] = []
    train_patients(task(), recipe(100, 4.0), seed=1, rounds=3, save_state=lambda state, _: states.append(state))
    assert len(states) == 6
    assert all(not len(state.participants) for state in states)
    assert all(record.sampled == 0 for record in states[-1].history)


@pytest.mark.parametrize("stop", range(1, 7))
def test_a_training_stopped_at_any_saved_state_goes_on_as_if_it_had_not(stop: int) -> None:
    states: list[State] = []
    whole = train_patients(task(), recipe(100, 4.0), seed=1, rounds=3, save_state=lambda s, _: states.append(s))
    saved = State.from_dict(states[stop - 1].to_dict())
    resumed = train_patients(task(), recipe(100, 4.0), seed=1, rounds=3, state=saved)
    assert resumed.state.same_as(whole.state)


def test_the_budget_stops_before_the_round_that_would_exceed_it() -> None:
    history = train_patients(task(), recipe(K, 3.0), seed=1)
    assert history.figure.epsilon <= BUDGET.epsilon
    assert "is not opened" in history.stop_reason
    assert history.figure.rounds == len(history.rounds)


def test_more_patients_than_declared_are_refused() -> None:
    with pytest.raises(Refusal, match="more than declared"):
        replace(task(), declared_patients=K - 1)
    with pytest.raises(Refusal, match="the task declares"):
        train_patients(replace(task(), declared_patients=K + 1), recipe(), seed=1)


AUDITED = Curator(
    PoissonSampling(2000), Constant(1000, 0.6), PrivacyBudget(100.0, 1e-3), QuantileClip(1.0), unit="person"
)


@pytest.mark.parametrize("seed", range(2))
def test_canary_patients_stay_below_the_accounted_epsilon(seed: int) -> None:
    result = audit_patients(AUDITED, 4, canaries=200, rng=np.random.default_rng(seed))
    assert result.sound, result.findings
    assert result.interval.low > 0  # the attack sees something: it can fail


def test_patients_that_are_not_clipped_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that clips at twenty times the bound."""
    monkeypatch.setattr(sums_module, "clip_rows", lambda rows, bound: clip_rows(rows, 20 * bound))
    assert not audit_patients(AUDITED, 4, canaries=200, rng=np.random.default_rng(1)).sound


def test_patients_drawn_more_often_than_accounted_are_detected() -> None:
    class Eager(Curator):
        def request(self, state: State, learning_rate: float) -> Any:
            return super().request(state, learning_rate)._replace(rate=1.0)

    eager = Eager(AUDITED.cohort, AUDITED.schedule, AUDITED.budget, AUDITED.clip, unit="person")
    assert not audit_patients(eager, 6, canaries=300, rng=np.random.default_rng(2)).sound
