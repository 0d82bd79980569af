"""Attacks on a model of a named table: what somebody with the release finds out, beside the figure that bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.attacks import Guesses, Scores
from dosimeter.core.noise import Density
from dosimeter.core.notion import FloatArray
from dosimeter.core.refusal import CannotMeasure, Refusal
from dosimeter.frames.own import Prepared, penalty_remark, prepare
from dosimeter.frames.remarks import identifiers
from dosimeter.frames.rest import encoded
from dosimeter.frames.source import advice
from dosimeter.frames.table import Table
from dosimeter.glm.membership import likelihood_ratio, removal
from dosimeter.glm.rest import guesses_from_the_rest
from dosimeter.io.text import harmless

GRID = 8
"""Values that a numeric column is guessed among: the middles of as many equally large parts of it."""
LEAST_SHARE = 0.01
"""What no level falls below in the prior: least squares may give it less than nothing."""


@dataclass(frozen=True, eq=False)
class Inversion:
    """An attribute guessed from released weights, row by row."""

    guesses: Guesses
    """MAP, the prior of each row what everything else in the table says of it; the control is that prior alone."""
    eta: FloatArray
    """(n,) the figure of the same attribute in each row."""
    levels: int
    by_prior: float
    """Share of right guesses of somebody who knows how frequent the values are, and nothing else."""
    remarks: tuple[str, ...] = ()

    def share_of_top(self, share: float = 0.01) -> tuple[float, float]:
        """How often the most exposed `share` of rows was guessed, and the others."""
        top = max(1, round(share * len(self.eta)))
        order = np.argsort(-self.eta, kind="stable")
        hits = self.guesses.by_row
        return float(hits[order[:top]].mean()), float(hits[order[top:]].mean())


@dataclass(frozen=True, eq=False)
class Presence:
    """Whether a row took part, guessed from released weights by somebody who knows everybody else."""

    mu: FloatArray
    """(n,) exact."""
    played: Scores
    """The best attack on the most exposed row, simulated."""
    row: int
    """Position of that row."""
    remarks: tuple[str, ...] = ()


def _fitted(table: Table, target: str, l2: float | None, how: dict[str, Any]) -> tuple[Prepared, glm.Fit, str]:
    ready = prepare(table, target, **how)
    if isinstance(ready.loss, glm.Softmax):
        raise CannotMeasure("a softmax model is measured but not attacked here: use two classes")
    penalty = ready.penalty(l2)
    return ready, ready.fit(penalty.l2), penalty_remark(penalty)


def invert(
    table: Table,
    target: str,
    column: str,
    *,
    noise: Density,
    l2: float | None = None,
    trials: int,
    rng: np.random.Generator,
    **how: Any,
) -> Inversion:
    """Guess `column` of every row from `trials` releases of the weights; a number is guessed among GRID values."""
    ready, fit, penalty = _fitted(table, target, l2, how)
    X, block = ready.design.X, ready.design.blocks.get(column)
    if not block:
        there = [name for name, found in ready.design.blocks.items() if found]
        raise Refusal(f"the model has no column {harmless(column)} to guess: {advice(column, there)}")
    if column in ready.design.nominal:
        candidates = glm.Candidates.nominal(list(block))
    else:
        values = np.unique(np.quantile(X[:, block[0]], (np.arange(GRID) + 0.5) / GRID))
        candidates = glm.Candidates.grid(block[0], np.unique(X[:, block[0]]) if _few(X[:, block[0]]) else values)
    draws = noise.draw(rng, (trials, len(fit.w)))
    everything = encoded(table, [*ready.design.blocks, target], ready.design.nominal)
    prior = _prior(candidates, X[:, list(block)], guesses_from_the_rest(everything.without(column), X[:, list(block)]))
    guesses = glm.white_box(fit, X, ready.y, candidates, draws, noise=noise, prior=prior)
    eta = glm.measure(fit, X, ready.y, noise).attribute(list(block))
    by_prior = float(np.bincount(guesses.truths).max() / len(X))
    return Inversion(guesses, eta, candidates.k, by_prior, (*_remarks(table, target, how), penalty))


def _prior(candidates: glm.Candidates, true: FloatArray, guess: FloatArray) -> FloatArray:
    """(n, k) what everything else says of each candidate: a normal law about a number's guess, a level's share.

    true, guess: (n, m) the attribute's columns, and the guess of each row by a regression on the others.
    """
    if candidates.nearest:
        error = max(float(np.std(true - guess)), 1e-9)
        away = (guess - candidates.values[:, 0]) / error
        return np.asarray(np.exp(0.5 * (np.min(away**2, axis=1, keepdims=True) - away**2)))
    shares = np.column_stack([guess, 1.0 - guess.sum(axis=1)])
    return np.asarray(np.clip(shares, LEAST_SHARE, None))


def _few(values: FloatArray) -> bool:
    return len(np.unique(values)) <= GRID


def presence(
    table: Table,
    target: str,
    *,
    noise: Density,
    l2: float | None = None,
    trials: int,
    rng: np.random.Generator,
    **how: Any,
) -> Presence:
    """μ of every row, and the best attack played on the most exposed one."""
    ready, fit, penalty = _fitted(table, target, l2, how)
    X = ready.design.X
    mu = glm.membership(fit, X, ready.y, noise).mu
    row = int(np.argmax(mu))
    move = removal(fit, X, ready.y, [row])[0]
    return Presence(mu, likelihood_ratio(move, noise, rng, trials), row, (*_remarks(table, target, how), penalty))


def _remarks(table: Table, target: str, how: dict[str, Any]) -> tuple[str, ...]:
    """Columns of numbers that say whose row it is and are taken for amounts: an attack knows no persons."""
    aside = {target, *how.get("nominal", ()), *how.get("drop", ())}
    return tuple(
        f"{harmless(name)} looks like an identifier: pass --drop {harmless(name)}"
        for name in identifiers(table)
        if name not in aside
    )


__all__: Sequence[str] = ("GRID", "Inversion", "Presence", "invert", "presence")
