"""[Geyer19] Table 1, the claims of sections 5 and 6, and the second claim, each beside what was trained here."""

from __future__ import annotations

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.federated.history import History
from dosimeter.reproductions.comparison import Row, claim, weak
from dosimeter.reproductions.geyer19_arithmetic import NOT_PRIVATE, TABLE, PrintedLine
from dosimeter.reproductions.geyer19_settings import CHOSEN, PLAIN, PLAIN_VALIDATED, RAMP_FROM, VALIDATED, seeds
from dosimeter.reproductions.geyer19_study import ALONE_EPOCHS, TrainingStudy, communication, describe_accuracy, mean

UNSEARCHED = "not searched: network, B, E, rate, momentum and quantile are those chosen for K = 1000"
EARLY, LATE = 5, 20
"""First and last rounds between which V_c and U_s are compared; set after seeing the curves."""


def rows(study: TrainingStudy) -> list[Row]:
    """All rows that need training."""
    all_rows = [row for line in TABLE if line.clients in study.sizes for row in _line(study, line)]
    all_rows += [_published_row(study, line) for line in TABLE if line.clients in study.published]
    all_rows += [*_not_private_rows(study), _local_only_row(study), *_update_rows(study)]
    return all_rows if study.quick else [*all_rows, *_rising_rows(study)]


def _line(study: TrainingStudy, line: PrintedLine) -> list[Row]:
    runs, setting = study.sound[line.clients], CHOSEN[line.clients]
    name, mean_accuracy = f"Table 1, K = {line.clients}", mean(runs)
    accuracies = ", ".join(f"{h.accuracy:.4f}" for h in runs)
    spent = max(h.figure.epsilon for h in runs)
    network = "-".join(map(str, setting.network.widths))
    settings_text = (
        f"{network}, B = {setting.batches}, E = {setting.epochs}, m = {setting.per_round:g}, σ = {setting.noise:.4g}"
    )
    selection = f"validation {VALIDATED[line.clients]:.4f}" if line.clients in VALIDATED else UNSEARCHED
    updates_sent = communication(runs)
    deviation = (line.rounds * line.m * (1 - line.m / line.clients) / len(runs)) ** 0.5
    return [
        claim(
            f"{name}: at least the printed accuracy, soundly accounted",
            mean_accuracy >= line.accuracy,
            f"{describe_accuracy(runs)}; seeds {', '.join(map(str, seeds(line.clients, study.seeds)))}: {accuracies}; "
            f"ε = {spent:.4g} at δ = {line.delta:g}, upper bound, add or remove a client; {settings_text}; {selection}",
        ),
        Row(
            f"{name}: ACC",
            line.accuracy,
            mean_accuracy,
            0.005,
            "a smaller network, server momentum, and less noise, as privacy loss distributions allow"
            if mean_accuracy > line.accuracy + 0.005
            else None,
            describe_accuracy(runs),
        ),
        Row(f"{name}: CR", line.rounds, float(np.mean([len(h.rounds) for h in runs])), 0.0),
        Row(
            f"{name}: CC",
            line.communication,
            updates_sent,
            4 * deviation,
            measured=f"independent sampling sends {line.communication} on average; four standard errors allowed",
        ),
    ]


def _published_row(study: TrainingStudy, line: PrintedLine) -> Row:
    """Algorithm 1, whose ε covers neither its median nor its sampling."""
    runs = study.published[line.clients]
    sigma = runs[0].rounds[0].noise
    ours = mean(study.sound[line.clients][: len(runs)])
    accuracies = ", ".join(f"{h.accuracy:.4f}" for h in runs)
    return Row(
        f"Table 1, K = {line.clients}: ACC of Algorithm 1 as published (unaccounted)",
        line.accuracy,
        mean(runs),
        0.005,
        "the paper's network, schedule and σ are unknown",
        f"{describe_accuracy(runs)}: {accuracies}, σ = {sigma:.4g} by the moments accountant; the sound "
        f"curator on the same seeds {ours:.4f}",
    )


def _not_private_rows(study: TrainingStudy) -> list[Row]:
    accuracy_here, (accuracy, rounds, _) = study.not_private.accuracy, NOT_PRIVATE
    measured = (
        f"after {len(study.not_private.rounds)} rounds of all 100 clients, 196-64-10, B = {PLAIN.batches}, "
        f"E = {PLAIN.epochs}, rate {PLAIN.rate:g}; chosen on the validation images "
        f"({PLAIN_VALIDATED:.4f} after {PLAIN.rounds} rounds)"
    )
    if study.quick:
        return [
            Row("Table 1, not private: ACC", accuracy, accuracy_here, 0.005, f"{rounds} rounds in the paper", measured)
        ]
    updates_sent = float(study.not_private.columns["sampled"].sum())
    return [
        Row("Table 1, not private: ACC", accuracy, accuracy_here, 0.005, measured=measured),
        Row("Table 1, not private: CC", NOT_PRIVATE[2], updates_sent, 0.0),
    ]


def _local_only_row(study: TrainingStudy) -> Row:
    local_only = study.local_only
    least = min(mean(runs) for runs in study.sound.values())
    return claim(
        "6: 78 % and 92 % are substantially better than anything that clients reach on their own data",
        bool(local_only.max() < least - 0.2),
        f"100 clients alone, {ALONE_EPOCHS} epochs of 196-64-10: mean {local_only.mean():.3f}, best "
        f"{local_only.max():.3f}; together at least {least:.3f} (required: 0.2 more than the best)",
    )


def _update_rows(study: TrainingStudy) -> list[Row]:
    V, U = study.not_private.columns["variance"], study.not_private.columns["scale"]
    (v0, v1), (u0, u1), (n0, n1) = (_ends(values) for values in (V, U, study.unit_variance))
    ends = f"mean of the first {EARLY} rounds and of the last {LATE}"
    defined = f"V_c as defined: {v0:.3g} and {v1:.3g}, {v1 / v0 - 1:+.0%}"
    first = study.unit_variance[0]
    scaled = (
        f"with every update scaled to norm 1: {n0:.3g} and {n1:.3g}, {n1 / n0 - 1:+.0%} ({n1 / first - 1:+.0%} against "
        "the first round)"
    )
    claims = [
        claim(
            "6, figure 3: the between clients variance V_c rises",
            bool(v1 > v0),
            f"{ends}. {defined}; {scaled}",
            None
            if v1 > v0
            else f"as defined it is highest in round {int(V.argmax()) + 1} ({V.max():.3g}) and falls, because the "
            "updates themselves shrink; also with E = 4 and 20 batches, and from 3.5e-6 to 1.6e-6 in 8 rounds of the "
            "authors' 784-600-100-10, rate 0.1. What rises, and what the figure shows, is V_c of the directions",
        ),
        claim(
            "6, figure 3: V_c rises, every update scaled to norm 1",
            bool(n1 > n0),
            f"{ends}. {scaled}; {defined}",
            None if n1 > n0 else "the directions do not diverge either",
        ),
        claim(
            "6, figure 3: the update scale U_s falls drastically",
            bool(u1 < u0 / 10),
            f"{ends}: {u0:.3g} and {u1:.3g} (required: a tenth)",
        ),
        claim(
            "6: as updates grow less alike, V_c over U_s rises",
            bool(v1 / u1 > v0 / u0),
            f"{v0 / u0:.3g} at the beginning, {v1 / u1:.3g} at the end",
        ),
    ]
    return [weak(row, "these rounds were chosen after seeing the curves") for row in claims]


def _ends(values: FloatArray) -> tuple[float, float]:
    return float(values[:EARLY].mean()), float(values[-LATE:].mean())


def _rising_rows(study: TrainingStudy) -> list[Row]:
    rising = study.rising
    constant = study.sound[1000][: len(rising)]
    setting = CHOSEN[1000]
    gains = np.array([b.accuracy - a.accuracy for a, b in zip(constant, rising, strict=True)])
    first, last = rising[0].rounds[0], rising[0].rounds[-1]
    description = (
        f"K = 1000, (ε, δ) = (8, 1e-5), m_t from {RAMP_FROM} to {setting.per_round:g} with σ²/m constant (σ from "
        f"{first.noise:.3g} to {last.noise:.3g}): {_describe_runs(rising)}; constant m: {_describe_runs(constant)}"
    )
    standard = float(gains.std(ddof=1) / len(gains) ** 0.5) if len(gains) > 1 else float("inf")
    return [
        claim(
            "6: raising m_t improves model performance",
            bool(gains.mean() > 2 * standard and gains.mean() > 0),
            f"{description}; difference {gains.mean():+.4f}, standard error {standard:.4f} over {len(gains)} seeds",
            None
            if gains.mean() > 2 * standard
            else f"no gain for this ramp and network; {1 - communication(rising) / communication(constant):.0%} fewer "
            "updates are sent, so it saves communication",
        ),
        claim(
            "6: with rising m_t more communication rounds can be performed",
            len(rising[0].rounds) > len(constant[0].rounds),
            f"{len(rising[0].rounds)} and {len(constant[0].rounds)} rounds; CC {communication(rising):.0f} and "
            f"{communication(constant):.0f}",
        ),
        claim(
            "6: early rounds with lower m_t and σ_t have the same distortion",
            abs(first.noise / first.per_round - last.noise / last.per_round) < 1e-9,
            f"the averaged noise is {first.noise / first.per_round:.4f} clips in the first round and "
            f"{last.noise / last.per_round:.4f} in the last",
            "σ²/m is constant, and the averaged noise is σS/m: it is larger early by √(m_last/m_first)",
        ),
    ]


def _describe_runs(runs: tuple[History, ...]) -> str:
    return (
        f"{describe_accuracy(runs)}: {', '.join(f'{h.accuracy:.4f}' for h in runs)}, in {len(runs[0].rounds)} rounds, "
        f"CC {communication(runs):.0f}"
    )
