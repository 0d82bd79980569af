"""The sections about an attack (`attack inversion`, `attack membership`)."""

from __future__ import annotations

from typing import Any

from dosimeter.reports.document import View, banner, dose_statistics, internal_verdict, public_verdict, sections
from dosimeter.reports.frame import table_of
from dosimeter.reports.layout import (
    EVERYWHERE,
    PAGE,
    SHORT,
    Drawing,
    Grid,
    Paragraph,
    Part,
    Section,
    VerdictBanner,
    number,
)
from dosimeter.reports.plot import drawing_of
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.sections.inversion import attack_chart, rare_level
from dosimeter.reports.statistics import warned
from dosimeter.results.attack import AttackReport, MembershipFigures
from dosimeter.results.measurement import InversionSummary
from dosimeter.results.to_json import JsonObject

NAMES = {"inversion": "attribute inversion", "membership": "membership inference (strongest adversary)"}
NONE = "an attack has no statistics of doses to publish: measure the model instead"
COIN = "An AUC of 0.5 is a coin."


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@public_verdict.register
def _(result: AttackReport) -> str:
    return (
        f"An attack was tried on {result.trials} simulated releases with {result.noise}. What it found is internal, "
        "and an attack that fails proves nothing."
    )


@internal_verdict.register
def _(result: AttackReport) -> str:
    if result.inversion is not None:
        attack = result.inversion
        return (
            f"An attacker who knows everything else in the table guessed “{attack.column}” right for "
            f"{_percent(attack.figure)} of the rows; without the release for {_percent(attack.control)}."
        )
    if result.membership is not None:
        auc, played = result.membership.auc, result.membership.played
        if auc is None:
            return (
                f"An attacker who knows all other rows tells whether row {result.membership.row} took part with an AUC "
                f"of {played.figure:.3f} (simulated)."
            )
        return (
            f"An attacker who knows all other rows tells whether a row took part with an AUC of {auc.typical:.3f} "
            f"(typical) to {auc.highest:.3f} (row {auc.highest_row})."
        )
    return public_verdict(result)


@banner.register
def _(result: AttackReport, view: View) -> VerdictBanner:
    attack = optional(result, "inversion")
    membership = optional(result, "membership")
    success = (attack is not None and attack.beats_control) or (
        membership is not None and membership.played.beats_control
    )
    return VerdictBanner(view.sentence, "bad" if success else "")


@sections.register
def _(result: AttackReport, view: View) -> list[Section]:
    attack: InversionSummary | None = optional(result, "inversion")
    membership: MembershipFigures | None = optional(result, "membership")
    return [
        Section("What the attack found", _inversion(attack, optional(result, "highest_eta")), SHORT),
        Section("What the attack found", attack_chart(attack), PAGE),
        Section("Membership of each row", _membership(membership, result.trials)),
        Section("The attack", (settings(_settings(result)),), EVERYWHERE),
        *closing(result, view),
    ]


def _inversion(attack: InversionSummary | None, highest_eta: float | None) -> tuple[Part, ...]:
    if attack is None:
        return ()
    interval = f"[{100 * attack.low:.1f}, {100 * attack.high:.1f}]"
    by_prior = None if attack.by_prior is None else _percent(attack.by_prior)
    rows = [
        ("right guesses", f"{_percent(attack.figure)} {interval}, among {attack.candidates} values"),
        ("from everything else, without the release", _percent(attack.control)),
        ("from the shares of the values alone", by_prior),
        ("of the 1 % most exposed rows", _percent(attack.top_1_percent)),
        ("of the others", _percent(attack.others)),
        ("highest dose (η) of the column", None if highest_eta is None else number(highest_eta)),
    ]
    rare = () if attack.rare is None else (Paragraph(" ".join(rare_level(attack.rare, attack.column))),)
    return (settings(rows), *rare)


def _membership(figures: MembershipFigures | None, trials: int) -> tuple[Part, ...]:
    if figures is None:
        return ()
    auc, caught, played = figures.auc, figures.tpr_at_1_percent_fpr, figures.played
    attacked = figures.row if auc is None else auc.highest_row
    simulated = Paragraph(
        f"Simulated on row {attacked}: AUC {played.figure:.3f} [{played.low:.3f}, {played.high:.3f}] from "
        f"{trials} releases with the row and {trials} without it. {COIN}"
    )
    if auc is None or caught is None:
        return (simulated,)
    rows = (
        ("AUC of the best attack", auc.typical, auc.highest),
        ("found at 1 % false alarms", _percent(caught.typical), _percent(caught.highest)),
    )
    return Grid(f"Membership of each row ({figures.standing})", ("", "typical", "highest"), rows), simulated


def _settings(result: AttackReport) -> list[tuple[str, Any]]:
    return [
        ("attack", NAMES[result.kind]),
        ("the attacker", result.attacker),
        ("model", f"{optional(result, 'loss') or 'linear'} model of {result.target}, fitted here"),
        ("attacked", f"answers to {result.queries} queries" if result.release == "answers" else "the weights"),
        ("noise", f"{result.noise} on {result.noise_on}"),
        ("simulated releases", result.trials),
    ]


@dose_statistics.register
def _(result: AttackReport) -> JsonObject:
    return warned({"none": NONE})


@table_of.register
def _(result: AttackReport) -> dict[str, list[Any]]:
    """One row: what the attack achieved, its interval, and its control."""
    played = result.inversion or (None if result.membership is None else result.membership.played)
    if played is None:
        return {}
    return {
        "attack": [played.attack],
        "measure": [played.measure],
        "figure": [played.figure],
        "low": [played.low],
        "high": [played.high],
        "control": [played.control],
    }


@drawing_of.register
def _(result: AttackReport) -> Drawing | None:
    return next((part for part in attack_chart(result.inversion) if isinstance(part, Drawing)), None)
