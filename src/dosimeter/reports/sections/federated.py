"""The sections about a federated training (`federate`) and a plan for one (`federate plan`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.reports.charts import Axis, Series, drawing
from dosimeter.reports.document import View, banner, dose_statistics, public_verdict, sections
from dosimeter.reports.layout import (
    EVERYWHERE,
    PAGE,
    Gauge,
    Paragraph,
    Part,
    Section,
    Tile,
    Tiles,
    Tone,
    VerdictBanner,
    number,
)
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.sections.doses import WIDE, amount
from dosimeter.reports.sections.interpretation import budget_without_symbols, guesses_of_100, of_epsilon
from dosimeter.reports.statistics import warned
from dosimeter.reports.verdicts import budget_in_words, change
from dosimeter.results.federated import ClientGuarantee, FederatedPlan, FederatedRelease
from dosimeter.results.to_json import JsonObject

ROUND = "round"
ALIKE = "every client has the same (ε, δ): there are no statistics of doses"


@public_verdict.register
def _(result: FederatedPlan) -> str:
    if result.over:
        return f"Refused: {result.over}. Nothing was trained and nothing was written."
    budget = budget_in_words(result.budget.epsilon, result.budget.delta)
    return f"{result.rounds} rounds with noise multiplier {result.noise:.4g} keep within {budget}."


@banner.register
def _(result: FederatedPlan, view: View) -> VerdictBanner:
    spent, budget = amount(result.guarantee.epsilon), result.budget.epsilon
    tone: Tone = "bad" if result.over or spent > budget else "good"
    return VerdictBanner(view.sentence, tone, Gauge.of("ε spent of the budget", spent, budget, (("spent", spent),)))


@sections.register
def _(result: FederatedPlan, view: View) -> list[Section]:
    guarantee = result.guarantee
    meaning = [] if result.over else [_meaning(guarantee)]
    pairs = [
        ("clients", f"{result.clients}; in a round: {result.per_round:g}{_mean(result.schedule)}, {result.sampling}"),
        ("noise multiplier", f"{result.noise:.4g}{_mean(result.schedule)} (noise on the sum over the clip)"),
        ("schedule", result.schedule),
        ("noise on the mean", f"{result.noise_of_the_mean:.3g} clips"),
        ("largest useful model", _largest(result.largest_model)),
        ("rounds", result.rounds),
        ("updates sent, on average", f"{result.updates_expected:g}"),
        *_guarantee(guarantee, claimed=not result.over),
        ("budget", f"ε = {result.budget.epsilon:g} at δ = {result.budget.delta:g}"),
    ]
    return [Section("The plan", (*meaning, settings(pairs)), EVERYWHERE), *closing(result, view)]


def _largest(parameters: int) -> str:
    """Empty for a plan of an earlier version, which does not say it."""
    return f"{parameters} parameters: beyond, the noise is longer than any mean update" if parameters else ""


def _mean(schedule: str) -> str:
    return " on average" if schedule else ""


def _meaning(guarantee: ClientGuarantee) -> Paragraph:
    return of_epsilon(amount(guarantee.epsilon), guarantee.delta, change(guarantee.unit, guarantee.adjacency))


def _guarantee(guarantee: ClientGuarantee, claimed: bool) -> list[tuple[str, Any]]:
    pair = f"({number(amount(guarantee.epsilon))}, {guarantee.delta:g})"
    return [
        ("(ε, δ)", f"{pair} after {guarantee.rounds} rounds" + ("" if claimed else ": not claimed")),
        ("unit", guarantee.unit),
        ("neighbours", guarantee.neighbours),
        ("standing", f"{guarantee.standing}, by {guarantee.how}"),
        ("trusted", guarantee.trusted),
    ]


@dose_statistics.register(FederatedPlan)
@dose_statistics.register(FederatedRelease)
def _(result: FederatedPlan | FederatedRelease) -> JsonObject:
    return warned({"none": ALIKE})


def _claimed(result: FederatedRelease) -> bool:
    return result.guarantee.standing != "unaccounted"


@public_verdict.register
def _(result: FederatedRelease) -> str:
    guarantee = result.guarantee
    budget = budget_in_words(guarantee.epsilon, guarantee.delta)
    stamp = f"{result.stamp}. " if result.simulation else ""
    if not _claimed(result):
        return f"{stamp}Not claimed: the rounds cost {budget}, and more was read off the rows (not covered)."
    neighbours = f"{guarantee.neighbours} ({guarantee.standing})"
    return f"{stamp}The model is differentially private for each {guarantee.unit} with {budget}: {neighbours}."


@banner.register
def _(result: FederatedRelease, view: View) -> VerdictBanner:
    guarantee = result.guarantee
    spent, budget = amount(guarantee.epsilon), result.budget.epsilon
    bad = spent > budget or result.simulation or not view.released or not _claimed(result)
    gauge = Gauge.of("ε spent of the budget", spent, budget, (("spent", spent),))
    meaning = ""
    if _claimed(result) and not result.simulation:
        meaning = budget_without_symbols(spent, guarantee.delta, change(guarantee.unit, guarantee.adjacency))
    return VerdictBanner(view.sentence, "bad" if bad else "good", gauge, meaning)


@sections.register
def _(result: FederatedRelease, view: View) -> list[Section]:
    return [
        Section("What was promised", tuple(_promised(result)), EVERYWHERE),
        Section("Round by round", tuple(_rounds(result)), PAGE),
        Section("Inside the rounds", tuple(_inside(result))),
        Section("Training settings", tuple(_training(result)), PAGE),
        *closing(result, view),
    ]


def _promised(result: FederatedRelease) -> list[Part]:
    model = result.model
    accuracy = result.accuracy.share if result.shows("accuracy") else None
    measure = result.accuracy.measure if result.shows("accuracy") else "accuracy"
    widths, schedule = "-".join(map(str, model.widths)), result.recipe.schedule
    left = max(0.0, result.budget.epsilon - amount(result.guarantee.epsilon))
    unmeasured = "not measured: on the clients' rows it would not be private; name public rows with --test"
    pairs = [
        *_guarantee(result.guarantee, _claimed(result)),
        ("budget", f"ε = {result.budget.epsilon:g} at δ = {result.budget.delta:g}, of which {number(left)} is left"),
        ("clients", f"{result.clients}, {result.per_round:g} a round{_mean(schedule)}, {result.sampling}"),
        ("noise multiplier", f"{result.noise:.4g}{_mean(schedule)} (noise on the sum over the clip)"),
        ("schedule", schedule),
        ("stopped", result.stopped),
        ("network", f"{widths} ({model.parameters} parameters)"),
        ("trained on", optional(result, "source")),
        (f"{measure} on public rows", unmeasured if accuracy is None else f"{accuracy:.1%}"),
    ]
    claimed = _claimed(result)
    return [
        Tiles(_tiles(result, claimed, accuracy, measure)),
        *([_meaning(result.guarantee)] if claimed else []),
        settings(pairs),
    ]


def _tiles(result: FederatedRelease, claimed: bool, accuracy: float | None, measure: str) -> tuple[Tile, ...]:
    guarantee = result.guarantee
    epsilon = amount(guarantee.epsilon)
    right = f"{guesses_of_100(epsilon, guarantee.delta)} in 100"
    took_part = f"of an attacker about one {guarantee.unit} taking part, 50 in 100 without the model"
    return (
        Tile("Privacy budget spent", f"ε = {number(epsilon)}", f"per {guarantee.unit}, at δ = {guarantee.delta:g}"),
        Tile("Right guesses, at most", right if claimed else "not claimed", took_part if claimed else ""),
        Tile(measure.capitalize(), "not measured" if accuracy is None else f"{accuracy:.1%}", "on public rows"),
    )


def _rounds(result: FederatedRelease) -> list[Part]:
    numbers, accuracy = (_column(result.by_round, name) for name in ("round", "accuracy"))
    if not numbers.size:
        return []
    parts: list[Part] = []
    rounds = Axis(ROUND, whole=True)
    if accuracy.size == numbers.size:
        measure = result.accuracy.measure if result.shows("accuracy") else "accuracy"
        says = "Share of right answers (of a number: R²) on public rows after each round."
        series = [Series(measure, numbers, accuracy)]
        title = f"{measure.capitalize()} by round"
        parts.append(drawing(title, rounds, Axis(measure), series, says=says, size=WIDE))
    series = [
        Series("spent", numbers, _column(result.by_round, "epsilon")),
        Series("budget", np.array([numbers[0], numbers[-1]]), np.full(2, result.budget.epsilon)),
    ]
    says = f"ε at δ = {result.budget.delta:g} after each round, and the budget."
    return [*parts, drawing("ε by round", rounds, Axis("ε"), series, says=says, size=WIDE)]


def _column(model: Any, name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = getattr(model, name, None) or []
    return np.array([amount(value) for value in values], dtype=np.float64)


def _inside(result: FederatedRelease) -> list[Part]:
    if not result.shows("internal"):
        return []
    inside = result.internal
    parts: list[Part] = [
        Paragraph(f"{inside.updates_sent} updates were sent, {inside.updates_refused} refused. Not noised: internal.")
    ]
    rounds = _column(result.by_round, "round")
    names = (("variance", "V_c: variance over clients"), ("scale", "U_s: squared mean update"))
    columns = [(name, _column(inside, key)) for key, name in names]
    series = [Series(name, rounds, column) for name, column in columns if column.size == rounds.size > 0]
    if series:
        log = all((line.y > 0).all() for line in series)
        says = "Mean over the parameters, round by round [Geyer19, figure 3]."
        axes = Axis(ROUND, whole=True), Axis("V_c, U_s", log=log)
        parts.append(drawing("V_c and U_s by round", *axes, series, says=says, size=WIDE))
    return parts


def _training(result: FederatedRelease) -> Sequence[Part]:
    names = ("hidden", "epochs", "batches", "batch", "rate", "momentum", "quantile", "clip", "simulate")
    pairs = [(name, getattr(result.recipe, name)) for name in names]
    pairs = [(name, value) for name, value in pairs if value not in (None, [])]
    return [settings(pairs)] if pairs else []
