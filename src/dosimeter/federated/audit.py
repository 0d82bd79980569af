"""Audit: canary clients try to be detected in a whole training, and the rounds are checked against their promises.

Canary j owns coordinate j: it sends a huge multiple of e_j, so after clipping it moves that coordinate by C, the most
a client may. An equal number of coordinates has no owner. All coordinates carry independent noise, so one training
tests hundreds of memberships at once. An attacker who sees every released model scores each coordinate by the
likelihood ratio of "its owner was enrolled", the best possible score; the scores bound ε from below
(docs/explanation/federated.md, Audit).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import chdtri, ndtri

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.checks import number, whole
from dosimeter.core.errors import Refusal
from dosimeter.federated.accountant import as_delta
from dosimeter.federated.canary_audit import CanaryAudit
from dosimeter.federated.client_messages import UpdateBatch
from dosimeter.federated.client_sampling import PoissonSampling
from dosimeter.federated.curator import Curator, Generator
from dosimeter.federated.networks import Network
from dosimeter.federated.patient_updates import PatientRows
from dosimeter.federated.site_sums import draw_patients, site_sum
from dosimeter.federated.state import State
from dosimeter.noise_addition.bits import fresh_bits
from dosimeter.noise_addition.simulation import seeded_bits

_ORDINARY_COORDINATES = 16
"""Coordinates used by the clients that are not canaries."""
_CANARY_SCALE = 1e6
"""A canary's update is this many times C."""
_CHUNK = 64
_EPSILONS = tuple(float(e) for e in np.linspace(0.0, 8.0, 33))
"""Values of ε at which the attack is compared with the accountant's curve."""
_ERROR = 1e-6
"""False alarm rate of each test of the noise and the clip."""


def audit(
    curator: Curator,
    rounds: int,
    *,
    canaries: int = 1000,
    drop_out: float = 0.0,
    delta: float | None = None,
    rng: Generator | None = None,
    level: float = 0.95,
) -> CanaryAudit:
    """Train for `rounds` rounds with canaries among the clients, attack the models, and compare with the accounting.

    Parameters
    ----------
    curator : Curator
        The recipe under test; Poisson sampling only. It needs at least `canaries` clients.
    rounds : int
        Number of rounds.
    canaries : int, default 1000
        k, the number of canaries (the first k clients), at least 20. The model has 2k + 16 parameters.
    drop_out : float, default 0
        Share of the sampled clients, other than canaries, that never answer.
    delta : float, optional
        δ at which ε is bounded; the budget's by default.
    rng : numpy Generator, optional
        Source of all draws, for a simulation; the operating system's bits by default.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    CanaryAudit

    Raises
    ------
    Refusal
        If the cohort has a fixed size: its draws depend on each other, so canaries are not independent.
    BudgetSpent
        If the budget ends before `rounds`.

    Notes
    -----
    A canary's score is Σ_t log(1 - q + q exp((2x_t - 1)/2z²)), x_t its coordinate of the noisy sum over C
    (docs/explanation/federated.md, Audit). The other clients send updates of log-normal norm around 1 in coordinates of
    their own.

    Examples
    --------
    >>> from dosimeter import federated
    >>> sampling, schedule = federated.PoissonSampling(100), federated.Constant(50, 2.0)
    >>> curator = federated.Curator(sampling, schedule, federated.PrivacyBudget(8.0, 1e-2))
    >>> result = audit(curator, 2, canaries=40, rng=np.random.default_rng(0))
    >>> result.interval.low <= result.accounted_epsilon
    True
    """
    if not isinstance(curator.cohort, PoissonSampling):
        raise Refusal("canaries need Poisson sampling: with a fixed number of clients their draws depend on each other")
    k = whole("canaries", canaries, 20, curator.cohort.clients)
    number("drop_out", drop_out, 0, 1, strictly=False)
    client_rng = rng if rng is not None else np.random.default_rng(np.random.SeedSequence().entropy)
    states = [curator.start(np.zeros(2 * k + _ORDINARY_COORDINATES))]
    for _ in range(whole("rounds", rounds, 1, 1 << 16)):
        opened = curator.open_round(states[-1], rng)
        messages = _messages(opened, k, drop_out, client_rng)
        states.append(curator.close_round(opened, messages, rng))
    return _judged(curator, states, k, delta, level)


def audit_patients(
    curator: Curator,
    rounds: int,
    *,
    canaries: int = 200,
    sites: int = 3,
    delta: float | None = None,
    rng: Generator | None = None,
    level: float = 0.95,
) -> CanaryAudit:
    """`audit` of a training over patients: canaries are rows at sites, and sites draw, clip and sum as in production.

    Parameters
    ----------
    curator : Curator
        The recipe under test, with unit="person"; it needs at least `canaries` patients.
    rounds : int
        Number of rounds.
    canaries : int, default 200
        k, the number of canary patients, at least 20. The model is a linear regression of 2k + 16 weights.
    sites : int, default 3
        Canaries and twice as many ordinary patients, up to K, are dealt to this many sites.
    delta, rng, level
        As in `audit`.

    Returns
    -------
    CanaryAudit

    Raises
    ------
    Refusal
        If the cohort has a fixed size, or there are more canaries than patients.
    BudgetSpent
        If the budget ends before `rounds`.

    Notes
    -----
    Canary j has the row e_j and a target of 10⁶ clips: its gradient is huge and lies in coordinate j alone.

    Examples
    --------
    >>> from dosimeter import federated
    >>> sampling, schedule = federated.PoissonSampling(100), federated.Constant(50, 2.0)
    >>> curator = federated.Curator(sampling, schedule, federated.PrivacyBudget(8.0, 1e-2), unit="person")
    >>> result = audit_patients(curator, 2, canaries=40, rng=np.random.default_rng(0))
    >>> result.interval.low <= result.accounted_epsilon
    True
    """
    K = curator.cohort.clients
    k, rng_of_rows = whole("canaries", canaries, 20, K), rng if rng is not None else np.random.default_rng()
    width = 2 * k + _ORDINARY_COORDINATES
    network = Network((width, 1), bias=False, end="identity")
    n = min(3 * k, K)
    X, y = np.zeros((n, width)), rng_of_rows.normal(size=n)
    X[np.arange(k), np.arange(k)] = 1.0
    X[k:, 2 * k :] = rng_of_rows.normal(size=(n - k, _ORDINARY_COORDINATES))
    y[:k] = _CANARY_SCALE
    tables = [PatientRows(X[s::sites], y[s::sites], np.arange(len(X[s::sites]) + 1)) for s in range(sites)]
    states = [curator.start(np.zeros(width))]
    for _ in range(whole("rounds", rounds, 1, 1 << 16)):
        opened = curator.open_site_round(states[-1], rng)
        request = curator.request(opened, 1.0)
        bits = [fresh_bits() if rng is None else seeded_bits(rng) for _ in tables]
        answers = [
            site_sum(network, rows, request, draw_patients(rows.patients, request.rate, source))
            for rows, source in zip(tables, bits, strict=True)
        ]
        states.append(curator.close_site_round(opened, answers, rng))
    return _judged(curator, states, k, delta, level)


def _judged(curator: Curator, states: list[State], k: int, delta: float | None, level: float) -> CanaryAudit:
    """The attack on the released models, and the promises of the rounds."""
    sums = _normalised_sums(curator, states)
    scores = _scores(curator, states, sums)
    delta_used = curator.budget.delta if delta is None else as_delta(delta)
    dose = curator.dose(states[-1])
    allowed = np.array([_EPSILONS, [dose.delta(e) for e in _EPSILONS]])
    ratio = _noise_ratio(curator, states, unowned := sums[:, k : 2 * k])
    findings = (
        *_noise_finding(ratio, unowned.size),
        *_clip_finding(curator, states, sums[:, :k]),
        *_rule_finding(curator, states),
    )
    return CanaryAudit(
        scores[:k], scores[k : 2 * k], allowed, dose.epsilon(delta_used), delta_used, ratio, findings, level
    )


def _messages(state: State, k: int, drop_out: float, rng: Generator) -> Iterator[UpdateBatch]:
    """Canaries send a huge update in their own coordinate; the other clients an ordinary one, or none."""
    sampled: Index = state.participants
    silent = (rng.random(len(sampled)) < drop_out) & (sampled >= k)
    sampled = sampled[~silent]
    for first in range(0, len(sampled), _CHUNK):
        clients = sampled[first : first + _CHUNK]
        block = np.zeros((len(clients), state.model.size))
        direction = rng.normal(size=(len(clients), _ORDINARY_COORDINATES))
        length = np.exp(0.5 * rng.normal(size=(len(clients), 1))) / np.linalg.norm(direction, axis=1, keepdims=True)
        block[:, 2 * k :] = direction * length
        canary_rows = np.flatnonzero(clients < k)
        block[canary_rows] = 0.0
        block[canary_rows, clients[canary_rows]] = _CANARY_SCALE * state.clip
        yield UpdateBatch(clients, block)


def _normalised_sums(curator: Curator, states: list[State]) -> FloatArray:
    """(rounds, d) the noisy sum of each round over C, as anyone can compute it from the released models.

    The server's momentum is undone: Δ̄_t = v_t - βv_{t-1}, v_t = (w_t - w_{t-1})/step.
    """
    models = np.array([s.model for s in states])
    velocity = np.diff(models, axis=0) / curator.step
    mean = velocity - curator.momentum * np.vstack([np.zeros_like(velocity[:1]), velocity[:-1]])
    scale = np.array([entry.per_round / entry.clip for entry in states[-1].history])
    return np.asarray(mean * scale[:, None])


def _scores(curator: Curator, states: list[State], sums: FloatArray) -> FloatArray:
    """(d,) Σ_t log(1 - q + q exp((2x - 1)/2z²)): likelihood ratio of "canary enrolled" against "not enrolled"."""
    total = np.zeros(sums.shape[1])
    for x, entry in zip(sums, states[-1].history, strict=True):
        q = curator.cohort.rate(entry.per_round)
        z = curator.clip.noise_on_sum(entry.noise, entry.per_round)
        log_not_sampled = math.log1p(-q) if q < 1 else -math.inf
        total += np.logaddexp(log_not_sampled, math.log(q) + (2 * x - 1) / (2 * z * z))
    return total


def _noise_ratio(curator: Curator, states: list[State], unowned: FloatArray) -> float:
    """Standard deviation of the coordinates without an owner, which hold only noise, over the accounted one."""
    z = [curator.clip.noise_on_sum(e.noise, e.per_round) for e in states[-1].history]
    return math.sqrt(float(np.square(unowned / np.array(z)[:, None]).mean()))


def _noise_finding(ratio: float, n: int) -> Iterator[str]:
    """Two-sided chi-square test of n entries."""
    if not chdtri(n, 1 - _ERROR / 2) <= ratio * ratio * n <= chdtri(n, _ERROR / 2):
        yield f"the noise is {ratio:.3g} times the accounted noise"


def _clip_finding(curator: Curator, states: list[State], owned: FloatArray) -> Iterator[str]:
    """No client moves the sum by more than C: no entry exceeds C plus the largest plausible noise."""
    z = max(curator.clip.noise_on_sum(e.noise, e.per_round) for e in states[-1].history)
    largest, reach = float(np.abs(owned).max()), 1 - z * float(ndtri(_ERROR / (2 * owned.size)))
    if largest > reach:
        yield f"a client moved the sum by {largest:.3g} times the clip; noise and clip allow at most {reach:.3g}"


def _rule_finding(curator: Curator, states: list[State]) -> Iterator[str]:
    """The next C must follow its rule from the noisy share that the round released, and move towards the quantile."""
    for before, after in itertools.pairwise(states):
        entry: Any = after.history[-1]
        wanted = curator.clip.next_bound(before.clip, entry.share)
        wrong_way = (after.clip - before.clip) * (entry.share - getattr(curator.clip, "quantile", entry.share))
        if wrong_way > 0:
            yield f"round {before.round}: the clip moved away from its quantile"
            return
        if not math.isclose(after.clip, wanted, rel_tol=1e-12):
            yield f"round {before.round}: the clip is {after.clip:.6g}, but its rule gives {wanted:.6g}"
            return
