"""Sums of sites: one patient moves the total by at most one clip, as a rational number; untrusted bytes are checked."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from dosimeter.core.errors import Refusal
from dosimeter.federated import (
    Constant,
    Curator,
    FixedClip,
    FixedSizeSampling,
    Network,
    PatientRows,
    PoissonSampling,
    PrivacyBudget,
    QuantileClip,
    RoundRequest,
    SiteSum,
    decode_sum,
    draw_patients,
    encode_sum,
    site_sum,
)
from dosimeter.federated.site_sums import add_sums, most_steps
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.noise_addition.simulation import seeded_bits

P, K = 5, 64
NETWORKS = [Network((P, 3)), Network((P, 4, 2)), Network((P, 1), end="identity")]
C = 0.7


def table(network: Network, seed: int, patients: int = 40) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Rows of some patients, 1 to 4 each, with values from tiny to huge."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, patients)
    n = int(counts.sum())
    X = rng.normal(size=(n, P)) * 10 ** rng.uniform(-3, 3, size=(n, 1))
    y = rng.normal(size=n) if network.is_regression else rng.integers(0, network.widths[-1], n)
    return X, y, np.split(rng.permutation(n), np.cumsum(counts)[:-1])


def request(network: Network, seed: int = 0, rate: float = 1.0, clip: float = C) -> RoundRequest:
    model = np.random.default_rng(seed).normal(size=network.size)
    return RoundRequest(0, model, clip, rate, K, 0.3)


def total(network: Network, X: Any, y: Any, patients: list[np.ndarray], drawn: list[int]) -> tuple[np.ndarray, int]:
    """Sum of the drawn patients, in steps: all of them at one site."""
    answer = site_sum(network, PatientRows.of(X, y, patients), request(network), drawn)
    return answer.steps, answer.halves


@pytest.mark.parametrize("network", NETWORKS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_patient_more_or_fewer_moves_the_sum_by_at_most_one_clip(network: Network, seed: int) -> None:
    """By brute force on neighbouring tables, in rational numbers, whoever else was drawn."""
    X, y, patients = table(network, seed)
    step = Fraction(request(network).step)
    rng = np.random.default_rng(seed)
    clipped = 0
    for out in range(0, len(patients), 2):
        drawn = np.flatnonzero(rng.random(len(patients)) < 0.6).tolist()
        drawn = sorted({*drawn, out})
        steps, halves = total(network, X, y, patients, drawn)
        rest = patients[:out] + patients[out + 1 :]
        without = [k - (k > out) for k in drawn if k != out]
        fewer, fewer_halves = total(network, X, y, rest, without)
        moved = sum((int(a) - int(b)) ** 2 for a, b in zip(steps, fewer, strict=True)) * step**2
        assert moved <= Fraction(C) ** 2
        assert abs(halves - fewer_halves) == 1
        clipped += moved > Fraction(0.999 * C) ** 2
    assert clipped > 0  # the bound is reached


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_sites_together_send_the_sum_of_one_site_to_the_last_bit(network: Network) -> None:
    X, y, patients = table(network, 5)
    drawn = np.flatnonzero(np.random.default_rng(1).random(len(patients)) < 0.7).tolist()
    whole, halves = total(network, X, y, patients, drawn)
    for sites in (2, 3, 12):
        answers = []
        for s in range(sites):
            own = [k for k in range(len(patients)) if k % sites == s]
            rows = PatientRows.of(X, y, [patients[k] for k in own])
            answers.append(site_sum(network, rows, request(network), [j for j, k in enumerate(own) if k in drawn]))
        together, bits = add_sums(answers, network.size)
        assert together.tolist() == whole.tolist()
        assert bits == halves


def test_a_site_without_drawn_patients_or_without_patients_sends_zeros() -> None:
    network = NETWORKS[0]
    X, y, patients = table(network, 1)
    for rows, drawn in ((PatientRows.of(X, y, patients), []), (PatientRows.of(X, y, []), [])):
        answer = site_sum(network, rows, request(network), drawn)
        assert not answer.steps.any()
        assert answer.halves == 0


def test_a_patient_whose_update_is_not_finite_counts_as_absent() -> None:
    network = Network((1, 1), end="identity")
    rows = PatientRows(np.array([[1e300], [1.0]]), np.array([0.0, 3.0]), np.arange(3))
    ask = RoundRequest(0, np.array([1e300, 0.0]), 1.0, 1.0, 2, 1.0)
    answer = site_sum(network, rows, ask, [0])
    assert not answer.steps.any()
    assert answer.halves == 0
    assert site_sum(network, rows, ask, [0, 1]).halves == -1


def test_more_patients_than_declared_and_a_model_of_another_size_are_refused() -> None:
    network = NETWORKS[0]
    rows = PatientRows.of(*table(network, 1))
    with pytest.raises(Refusal, match="more than the 3 declared"):
        site_sum(network, rows, request(network)._replace(patients=3), [0])
    with pytest.raises(Refusal, match="parameters"):
        site_sum(network, rows, request(network)._replace(model=np.zeros(3)), [0])


def test_patients_are_drawn_by_the_rate_independently() -> None:
    """Counts of each patient over 4,000 draws, and of pairs; a rate two points too high is rejected."""
    q, n, draws = 0.2, 50, 4000
    bits = seeded_bits(np.random.default_rng(3))
    hits = np.zeros((draws, n))
    for t in range(draws):
        hits[t, draw_patients(n, q, bits)] = 1

    def statistic(rate: float) -> float:
        return float((np.square(hits.sum(axis=0) - draws * rate) / (draws * rate * (1 - rate))).sum())

    low, high = chi2.ppf([1e-4, 1 - 1e-4], n)
    assert low < statistic(q) < high
    assert statistic(q + 0.02) > high
    correlation = np.corrcoef(hits.T)[np.triu_indices(n, 1)]
    assert np.abs(correlation).max() < 5.5 / np.sqrt(draws)
    assert len(draw_patients(n, 1.0, fresh_bits())) == n
    with pytest.raises(Refusal):
        draw_patients(n, 1.5, bits)


NOISE, M = 2.0, 32.0


def released_sums(curator: Curator, network: Network, rows: PatientRows, rounds: int) -> np.ndarray:
    """(rounds, d) released sums minus the exact sums, in clips."""
    noise = np.zeros((rounds, network.size))
    rng = np.random.default_rng(7)
    for t in range(rounds):
        opened = curator.open_site_round(curator.start(np.zeros(network.size)), rng)
        asked = curator.request(opened, 0.3)
        answer = site_sum(network, rows, asked, draw_patients(rows.patients, asked.rate, seeded_bits(rng)))
        closed = curator.close_site_round(opened, [answer], rng)
        noise[t] = (closed.model * M - answer.steps * asked.step) / asked.clip
    return noise


def test_the_released_sum_has_the_declared_noise_and_a_slightly_wrong_one_is_rejected() -> None:
    network = NETWORKS[0]
    rows = PatientRows.of(*table(network, 2))
    curator = Curator(PoissonSampling(K), Constant(M, NOISE), PrivacyBudget(50.0, 1e-3), FixedClip(C), unit="person")
    noise = released_sums(curator, network, rows, 250).ravel()
    assert kstest(noise / NOISE, "norm").pvalue > 1e-4
    low, high = chi2.ppf([1e-5, 1 - 1e-5], noise.size)
    assert low < float(np.square(noise / NOISE).sum()) < high
    for wrong in (0.9, 1.1):  # noise 10 % off does not pass
        assert not low < float(np.square(noise / (wrong * NOISE)).sum()) < high


def test_noise_is_added_once_however_many_sites_there_are() -> None:
    network = NETWORKS[0]
    curator = Curator(PoissonSampling(K), Constant(M, NOISE), PrivacyBudget(50.0, 1e-3), FixedClip(C), unit="person")
    zeros = SiteSum(np.zeros(network.size, dtype=np.int64), 0)
    models = []
    for sites in (1, 20):
        opened = curator.open_site_round(curator.start(np.zeros(network.size)), np.random.default_rng(5))
        models.append(curator.close_site_round(opened, [zeros] * sites, np.random.default_rng(6)).model)
    assert models[0].tobytes() == models[1].tobytes()


def test_a_round_in_which_no_site_answers_is_paid_for_and_releases_noise() -> None:
    curator = Curator(PoissonSampling(K), Constant(M, NOISE), PrivacyBudget(50.0, 1e-3), QuantileClip(C), unit="person")
    state = curator.open_site_round(curator.start(np.zeros(3)))
    assert not len(state.participants)
    closed = curator.close_site_round(state, [None, None])
    assert (closed.round, closed.spent[0].rounds, closed.history[0].accepted, closed.history[0].refused) == (1, 1, 0, 2)
    assert closed.model.any()
    assert curator.figure(closed).unit == curator.dose(closed).unit == "person"


def test_samples_of_fixed_size_are_refused_because_sites_cannot_draw_them() -> None:
    curator = Curator(FixedSizeSampling(K), Constant(M, NOISE), PrivacyBudget(50.0, 1e-3), FixedClip(C))
    with pytest.raises(Refusal, match="PoissonSampling"):
        curator.open_site_round(curator.start(np.zeros(3)))


def test_an_answer_survives_its_bytes() -> None:
    network = NETWORKS[1]
    rows = PatientRows.of(*table(network, 3))
    answer = site_sum(network, rows, request(network), list(range(rows.patients)))
    read = decode_sum(encode_sum(answer), request(network), rows.patients)
    assert read is not None
    assert read.steps.tolist() == answer.steps.tolist()
    assert read.halves == answer.halves


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x" * 7,
        bytes(8 * 3),
        bytes(8 * 5),
        np.array([0, 0, 0, 9], dtype="<i8").tobytes(),
        np.array([-(2**63), 0, 0, 0], dtype="<i8").tobytes(),
        np.array([2**63 - 1, 0, 0, 0], dtype="<i8").tobytes(),
        np.array([np.nan, 0, 0, 0], dtype="<f8").tobytes(),
        np.array([1e300, 0, 0, 0], dtype="<f8").tobytes(),
        bytearray(8 * 4),
        None,
        "0" * 32,
    ],
    ids=str,
)
def test_bytes_that_cannot_be_a_sum_of_the_sites_patients_are_refused(data: Any) -> None:
    ask = RoundRequest(0, np.zeros(3), 1.0, 1.0, 8, 1.0)
    assert decode_sum(data, ask, 8) is None


def test_the_largest_possible_sum_is_accepted_and_the_next_is_not() -> None:
    ask = RoundRequest(0, np.zeros(1), C, 1.0, 8, 1.0)
    most = most_steps(ask, 8)
    assert Fraction(most) * Fraction(ask.step) >= 8 * Fraction(C)
    assert decode_sum(encode_sum(SiteSum(np.array([most]), 8)), ask, 8) is not None
    assert decode_sum(encode_sum(SiteSum(np.array([most + 1]), 8)), ask, 8) is None
