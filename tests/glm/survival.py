"""Survival tables for the oracle tests, and the partial likelihood written out row by row from its definition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

from dosimeter import glm


@dataclass(frozen=True, eq=False)
class Survival:
    """A table and the settings of its model."""

    name: str
    X: np.ndarray
    time: np.ndarray
    event: np.ndarray
    settings: dict[str, Any] = field(default_factory=dict)

    def fit(self, X=None, time=None, event=None, **options):
        return glm.fit_cox(
            self.X if X is None else X,
            self.time if time is None else time,
            self.event if event is None else event,
            **{**self.settings, **options},
        )

    @property
    def strata(self):
        strata = self.settings.get("strata")
        return np.zeros(len(self.X), dtype=int) if strata is None else strata

    @property
    def weight(self):
        weight = self.settings.get("sample_weight")
        return np.ones(len(self.X)) if weight is None else weight

    @property
    def ties(self):
        return self.settings.get("ties", "efron")


def table(n=40, p=3, seed=0, tied=False):
    """Columns of unequal size far from zero, times from 1, events, strata and weights."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, p))
    w = 0.8 * rng.standard_normal(p) / np.sqrt(p)
    died, left = 1 + rng.exponential(np.exp(-Z @ w)), 1 + rng.exponential(1.5, n)
    time = np.minimum(died, left)
    time = np.ceil(3 * time) / 3 if tied else time
    X = Z * np.array([1.0, 5.0, 0.1])[:p] + np.array([3.0, 20.0, 0.0])[:p]
    return X, time, (died <= left).astype(float), rng.integers(0, 3, n), rng.integers(1, 4, n).astype(float)


def every(n=40, p=3, seed=0):
    """Both ties, with and without tied times, strata, weights, and both penalties."""
    for tied in (False, True):
        X, time, event, strata, weight = table(n, p, seed, tied)
        for ties in ("breslow", "efron"):
            for more, label in (
                ({}, "plain"),
                ({"strata": strata}, "strata"),
                ({"sample_weight": weight, "l2": 0.02}, "weighted, penalised"),
                (
                    {"strata": strata, "sample_weight": weight, "l2": 0.05, "standardised": True},
                    "strata, weighted, penalised on standardised columns",
                ),
            ):
                name = f"{ties}, {'tied' if tied else 'distinct'} times, {label}"
                yield Survival(name, X, time, event, {"ties": ties, **more})


def gradient(survival, w, time=None, event=None):
    """(p,) of -log partial likelihood, risk set by risk set."""
    time = survival.time if time is None else time
    event = survival.event if event is None else event
    theta = survival.weight * np.exp((survival.X - survival.X.mean(axis=0)) @ w)
    out = np.zeros(len(w))
    for s in np.unique(survival.strata):
        here = survival.strata == s
        for t in np.unique(time[here & (event == 1)]):
            dead, alive = here & (event == 1) & (time == t), here & (time >= t)
            omega, X = survival.weight, survival.X
            out -= omega[dead] @ X[dead]
            d = dead.sum()
            for k in range(d):
                share = np.where(dead, 1 - k / d, 1.0) if survival.ties == "efron" else np.ones(len(time))
                q = share[alive] * theta[alive]
                out += omega[dead].sum() / d * (q @ X[alive]) / q.sum()
    return out


def places(survival, row):
    """A time for every place in the order of the row's stratum: on each time, between any two, before and after."""
    u = np.unique(survival.time[survival.strata == survival.strata[row]])
    return np.concatenate([u, [u[0] - 0.5], (u[1:] + u[:-1]) / 2, [u[-1] + 1]])


def exact_weight(x, time, event, ties, l2=0.0):
    """The minimiser of one column in many digits: x, event may be mp numbers; a soft event (Breslow) is allowed."""
    n = len(x)

    def slope(w):
        out = n * mp.mpf(l2) * w
        for t in sorted(set(time)):
            dead = [i for i in range(n) if time[i] == t and event[i] != 0]
            alive = [i for i in range(n) if time[i] >= t]
            out -= sum((event[i] * x[i] for i in dead), mp.mpf(0))
            for k in range(len(dead)):
                share = {i: 1 - mp.mpf(k) / len(dead) if ties == "efron" and i in dead else mp.mpf(1) for i in alive}
                q = {i: share[i] * mp.exp(w * x[i]) for i in alive}
                mean = sum(q[i] * x[i] for i in alive) / sum(q.values())
                out += mean * sum(event[i] for i in dead) / len(dead)
        return out

    return mp.findroot(slope, (mp.mpf(0), mp.mpf("0.1")), tol=mp.mpf(10) ** (-mp.mp.dps + 8))
