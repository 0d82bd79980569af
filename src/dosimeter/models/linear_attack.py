"""Attacks on a model of a table: what an attacker with the release learns, next to the figure that bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.attacks import Guesses, LevelGuesses, Scores, rarest_level_guesses
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.location import advice
from dosimeter.core.noise import Density, Gaussian
from dosimeter.core.progress import stage
from dosimeter.core.text import safe_text
from dosimeter.glm.answers.answer_attacks import answers_inversion, answers_presence, ranking_of
from dosimeter.glm.answers.answer_channel import AnswerChannel
from dosimeter.glm.attacks.column_prediction import predict_from_other_columns
from dosimeter.glm.attacks.membership import likelihood_ratio, removal
from dosimeter.glm.attacks.refitted_scaler import removal_through_scaler
from dosimeter.models.answering_model import UNIT, AnsweringModel, Asked
from dosimeter.models.column_control import encode_table
from dosimeter.models.fit_table import PreparedTable, penalty_remark, prepare
from dosimeter.tables.column_encoding import CategoryColumn
from dosimeter.tables.column_levels import level_names
from dosimeter.tables.data_checks import identifiers
from dosimeter.tables.table import Table

GRID = 8
"""Candidates for a numeric column: the middle quantiles of this many parts of equal size."""
HELD = (
    "the figures of each row hold mean and deviation of the columns fixed, which the row moves too; the simulated "
    "attack goes through them"
)
HELD_FOR_CLASSES = (
    "the attack on a softmax model holds mean and deviation of the columns fixed, which the row moves too: an attack "
    "through them may find more or less"
)
LEAST_SHARE = 0.01
"""The least share of a level in the prior: least squares may give it a negative one."""


@dataclass(frozen=True, eq=False)
class Inversion:
    """An attribute guessed from released weights, row by row."""

    guesses: Guesses
    """MAP with a prior for each row from everything else in the table; the control is that prior alone."""
    eta: FloatArray
    """(n,) the figure of the same attribute in each row."""
    levels: int
    by_prior: float
    """Share of right guesses of an attacker who knows how frequent the values are, and nothing else."""
    loss: Any
    """Of the attacked model."""
    remarks: tuple[str, ...] = ()
    rare: LevelGuesses | None = None
    """Of a category: recall and precision of its rarest level."""
    rare_level: str = ""
    queries: int = 0
    """Queries whose answers were attacked; 0 for weights."""

    def share_of_top(self, share: float = 0.01) -> tuple[float, float]:
        """How often the most exposed `share` of rows was guessed, and the others."""
        top = max(1, round(share * len(self.eta)))
        order = np.argsort(-self.eta, kind="stable")
        hits = self.guesses.by_row
        return float(hits[order[:top]].mean()), float(hits[order[top:]].mean())


@dataclass(frozen=True, eq=False)
class Presence:
    """Whether a row took part, guessed from released weights by an attacker who knows all other rows."""

    mu: FloatArray
    """(n,) exact for a scaler that is held fixed."""
    played: Scores
    """The best attack on the row with the highest μ, simulated, through a scaler fitted on the table."""
    row: int
    """Position of that row."""
    loss: Any
    """Of the attacked model."""
    remarks: tuple[str, ...] = ()
    scaler_held: bool = False
    """Whether the table itself standardises columns, which μ does not count."""
    queries: int = 0
    """Queries whose answers were attacked; 0 for weights."""
    has_mu: bool = True
    """Whether μ describes the best attack: not of labels, nor of other noise than Gaussian."""


def _prepare_and_fit(
    table: Table, target: str, loss: str, l2: float | None, categorical: Sequence[str]
) -> tuple[PreparedTable, glm.Fit, tuple[str, ...]]:
    """The table as numbers, its fit, and remarks on both."""
    ready = prepare(table, target, loss=loss, categorical=categorical, by_person=False)
    penalty = ready.penalty(l2)
    return ready, ready.fit(penalty.l2), (*_identifiers(table, target, categorical), penalty_remark(penalty))


def invert(
    table: Table,
    target: str,
    column: str,
    *,
    noise: Density,
    loss: str = "auto",
    l2: float | None = None,
    trials: int,
    rng: np.random.Generator,
    categorical: Sequence[str] = (),
    asked: Asked | None = None,
) -> Inversion:
    """Guess `column` of every row from `trials` releases of the weights; a number is guessed among GRID values.

    asked: from as many lists of answers to these queries instead.
    """
    ready, fit, remarks = _prepare_and_fit(table, target, loss, l2, categorical)
    X, block = ready.design.X, ready.design.blocks.get(column)
    if not block:
        names = [name for name, unknowns in ready.design.blocks.items() if unknowns]
        raise Refusal(f"the model has no column {safe_text(column)} to guess: {advice(column, names)}")
    if len(block) > 1 or isinstance(next(s for s in ready.columns.sources if s.name == column), CategoryColumn):
        candidates = glm.Candidates(block, ready.design.vertices[column])
    else:
        values = np.unique(np.quantile(X[:, block[0]], (np.arange(GRID) + 0.5) / GRID))
        candidates = glm.Candidates.grid(block[0], np.unique(X[:, block[0]]) if _few(X[:, block[0]]) else values)
    attribute = X[:, list(block)]
    everything = encode_table(table, [*ready.design.blocks, target], ready.design.nominal)
    guess = predict_from_other_columns(everything.without(column), attribute)
    levels = column in ready.design.nominal and candidates.k == len(block) + 1
    prior = _level_prior(candidates, guess) if levels else _number_prior(candidates, attribute, guess)
    scaled = np.asarray(ready.design.fitted)
    if asked is None:
        draws = noise.draw(rng, (trials, fit.w.size))
        guesses = glm.white_box(fit, X, ready.y, candidates, draws, noise=noise, prior=prior, scaled=scaled)
        eta = ready.read(fit, noise=noise, include_target=True, unit="sd", frame=table).cell(column)
    else:
        model, queries = _answering(ready, fit, table, categorical, asked)
        channel = AnswerChannel.of(fit, queries, noise, asked.answer)
        guesses = answers_inversion(channel, X, ready.y, candidates, rng, trials, prior=prior, scaled=scaled)
        eta = model.leakage(model.information(queries, noise, asked.answer)).cell(column)
    if isinstance(fit.loss, glm.Softmax) and np.asarray(ready.design.fitted)[list(block)].any():
        remarks += (HELD_FOR_CLASSES,)
    by_prior = float(np.bincount(guesses.truths).max() / len(X))
    rare = rarest_level_guesses(guesses) if levels else None
    name = "" if rare is None else _level_name(ready, table, column, rare.level)
    count = 0 if asked is None else len(queries)
    return Inversion(guesses, eta, candidates.k, by_prior, fit.loss, remarks, rare, name, count)


def _answering(
    ready: PreparedTable, fit: glm.Fit, table: Table, categorical: Sequence[str], asked: Asked
) -> tuple[AnsweringModel, FloatArray]:
    """The model with its table, and the queries in its columns."""
    unit = ready.read(fit, noise=UNIT, include_target=True, unit="sd", frame=table, answers=True)
    model = AnsweringModel.of_fit(unit, ready.columns, categorical)
    return model, model.read(asked.queries, asked.delimiter, asked.decimal)


def _number_prior(candidates: glm.Candidates, true: FloatArray, guess: FloatArray) -> FloatArray:
    """(n, k) prior of each candidate from everything else: a normal density around the guess of a number.

    true, guess: (n, 1) the attribute's column, and the guess of each row by a regression on the others.
    """
    error = max(float(np.std(true - guess)), 1e-9)
    away = (guess - candidates.values[:, 0]) / error
    return np.asarray(np.exp(0.5 * (np.min(away**2, axis=1, keepdims=True) - away**2)))


def _level_prior(candidates: glm.Candidates, guess: FloatArray) -> FloatArray:
    """(n, k) the share of each level that a guess (n, k - 1) of the category's coordinates is made of."""
    ones = np.ones((candidates.k, 1))
    shares = np.column_stack([guess, np.ones(len(guess))]) @ np.linalg.inv(np.hstack([candidates.values, ones]))
    return np.asarray(np.clip(shares, LEAST_SHARE, None))


def _level_name(ready: PreparedTable, table: Table, column: str, level: int) -> str:
    source = next(s for s in ready.columns.sources if s.name == column)
    return source.levels[level] if isinstance(source, CategoryColumn) else level_names(table, column)[level]


def _few(values: FloatArray) -> bool:
    return len(np.unique(values)) <= GRID


def presence(
    table: Table,
    target: str,
    *,
    noise: Density,
    loss: str = "auto",
    l2: float | None = None,
    trials: int,
    rng: np.random.Generator,
    categorical: Sequence[str] = (),
    asked: Asked | None = None,
) -> Presence:
    """μ of every row, and the best attack simulated on the most exposed one; asked: from answers to these queries."""
    ready, fit, remarks = _prepare_and_fit(table, target, loss, l2, categorical)
    if asked is not None:
        _, queries = _answering(ready, fit, table, categorical, asked)
        return _presence_in_answers(
            ready, fit, AnswerChannel.of(fit, queries, noise, asked.answer), remarks, rng, trials
        )
    X, scaled = ready.design.X, np.asarray(ready.design.fitted)
    stage("finding the most exposed row")
    mu = glm.membership(fit, X, ready.y, noise).mu
    row = _most_exposed(mu)
    several = isinstance(fit.loss, glm.Softmax)
    if several or not (scaled.any() and isinstance(noise, Gaussian)):
        move = removal(fit, X, ready.y, [row])[0]
        remarks += (HELD_FOR_CLASSES,) if several and scaled.any() else ()
        return Presence(mu, likelihood_ratio(move, noise, rng, trials), row, fit.loss, remarks, bool(scaled.any()))
    move, without = removal_through_scaler(fit, X, row, scaled, noise)
    played = likelihood_ratio(move, noise, rng, trials, noise_without=without)
    return Presence(mu, played, row, fit.loss, (*remarks, HELD), True)


def _most_exposed(mu: FloatArray) -> int:
    """The row of the highest μ; refused if the model does not exist without it: there is nothing to simulate."""
    row = int(np.argmax(mu))
    if not np.isfinite(mu[row]):
        raise Refusal(f"without row {row} counted from 0 the model does not exist, so the row is certain to be in it")
    return row


def _presence_in_answers(
    ready: PreparedTable,
    fit: glm.Fit,
    channel: AnswerChannel,
    remarks: tuple[str, ...],
    rng: np.random.Generator,
    trials: int,
) -> Presence:
    """The same from answers. The simulated attack refits mean and deviation of the columns without the row."""
    X, scaled = ready.design.X, np.asarray(ready.design.fitted)
    stage("finding the most exposed row")
    numbers = channel.answer is not glm.Answer.LABELS
    mu = ranking_of(channel, X, ready.y)
    row = _most_exposed(mu)
    held = bool(scaled.any())
    if held and not isinstance(fit.loss, glm.Softmax):
        move = removal_through_scaler(fit, X, row, scaled, Gaussian(1.0))[0]
        remarks += (HELD,)
    else:
        move = removal(fit, X, ready.y, [row])[0]
        remarks += (HELD_FOR_CLASSES,) if held else ()
    played = answers_presence(channel, move, rng, trials)
    has_mu = numbers and type(channel.noise) is Gaussian
    return Presence(mu, played, row, fit.loss, remarks, held, len(channel.rows), has_mu)


def _identifiers(table: Table, target: str, categorical: Sequence[str]) -> tuple[str, ...]:
    """Remarks on columns that look like identifiers and are fitted as numbers: an attack has no person option."""
    return tuple(
        f"{safe_text(name)} looks like an identifier: pass {option('exclude', safe_text(name))}"
        for name in identifiers(table)
        if name not in {target, *categorical}
    )


__all__: Sequence[str] = ("GRID", "Inversion", "Presence", "invert", "presence")
