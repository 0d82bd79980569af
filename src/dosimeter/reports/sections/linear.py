"""The sections about a released linear model (`fix`)."""

from __future__ import annotations

from typing import Any

from dosimeter.core.face import option
from dosimeter.reports.document import View, banner, dose_statistics, internal_verdict, public_verdict, sections
from dosimeter.reports.frame import table_of
from dosimeter.reports.layout import (
    PAGE,
    PRINTED,
    SHORT,
    Drawing,
    Grid,
    Paragraph,
    Part,
    Section,
    Tile,
    Tiles,
    Tone,
    VerdictBanner,
    number,
)
from dosimeter.reports.plot import drawing_of
from dosimeter.reports.sections.closing import closing, optional, settings
from dosimeter.reports.sections.doses import amount, plural
from dosimeter.reports.sections.interpretation import guess_tile
from dosimeter.reports.sections.linear_figures import (
    distribution,
    dose_plot,
    dose_tone,
    exposure,
    frontier_chart,
    gauge,
    good_doses,
    group_chart,
    held_scaler,
    least_error,
    limit_text,
    meaning_of_dose,
    model_name,
    person_name,
    plain_meaning,
    ranking,
    standing,
)
from dosimeter.reports.statistics import groups, histogram, rounded, score, warned
from dosimeter.reports.verdicts import BIT, CHOSEN, figure
from dosimeter.results.linear import HeldOutScores, LinearRelease
from dosimeter.results.parts import SMALLEST
from dosimeter.results.to_json import JsonObject

ATTEMPT = "Nothing was released: these are the settings of the attempt."


# --- the verdict ---


@public_verdict.register
def _(result: LinearRelease) -> str:
    no_one = f"No {result.unit} has a dose above the stated limit"
    if result.scale_from == "the data":
        limit = "" if result.limit is None else f" of {result.limit:g}"
        return f"{no_one}{limit}. {result.law} noise was added to {result.noise_on}; {CHOSEN}."
    noise = f"The noise {result.noise} was added to {result.noise_on}"
    if result.limit is None:
        return f"No limit on anyone's dose is claimed. {noise}."
    return f"{no_one} of {result.limit:g}; {BIT}. {noise}."


@internal_verdict.register
def _(result: LinearRelease) -> str:
    change = result.score
    highest = figure(result.dose.highest)
    cost = f"On this table {change.name} is {change.before:.3f} without noise and {change.after:.3f} with it."
    if result.useless:
        return f"Nothing was released: a constant prediction does better than this model. {cost}"
    if result.limit is None:
        return f"Noise of the stated scale was added: the highest dose is {highest}. {cost}"
    limit = f"the limit of {result.limit:g}"
    if result.within:
        return f"No {result.unit} has a dose above {limit}; the highest is {highest}. {cost}"
    figures = f"the highest dose would be {highest}{held_scaler(result.scaler, result.limit)}"
    return f"Nothing was released, because {limit} would be exceeded: {figures}. {cost}"


@banner.register
def _(result: LinearRelease, view: View) -> VerdictBanner:
    dose, limit = optional(result, "dose"), optional(result, "limit")
    tone: Tone = "bad" if not view.released else "" if limit is None else "good"
    shown = None if dose is None else gauge(dose.highest, dose.typical, limit)
    return VerdictBanner(view.sentence, tone, shown, plain_meaning(result, dose, limit) if view.released else "")


# --- the sections ---


@sections.register
def _(result: LinearRelease, view: View) -> list[Section]:
    limit = optional(result, "limit")
    return [
        Section(f"Dose per {result.unit}", tuple(_doses(result))),
        Section("What a dose means", meaning_of_dose(result, limit)),
        Section("What the noise costs", tuple(_cost(result))),
        Section("Accuracy against dose", frontier_chart(optional(result, "frontier")), PAGE),
        Section("What is a good dose?", good_doses(result), PAGE),
        Section("Distribution of doses", distribution(result), PAGE),
        Section("Groups", group_chart(result), PAGE),
        Section("Columns", tuple(exposure(optional(result, "strip"))), PAGE),
        Section("Model and noise", (settings(_in_short(result)),) if view.internal else (), SHORT),
        Section("Settings", (*_attempt(view), settings(_settings(result))), PRINTED),
        *closing(result, view),
        Section("Standing", (Paragraph(standing(result), quiet=True),), SHORT),
    ]


def _attempt(view: View) -> tuple[Part, ...]:
    return () if view.released else (Paragraph(ATTEMPT),)


def _noise(result: LinearRelease) -> str:
    return optional(result, "noise") or f"{result.law}, scale withheld: it was chosen from the data"


def _in_short(result: LinearRelease) -> list[tuple[str, Any]]:
    people = "" if result.unit == "row" else f" of {result.people} {plural(result.unit)}"
    return [
        ("model", model_name(result)),
        ("table", f"{result.model.n} rows{people}"),
        ("noise", f"{_noise(result)}, on {result.noise_on}"),
        ("scale from", result.scale_from),
    ]


def _settings(result: LinearRelease) -> list[tuple[str, Any]]:
    model, notion = result.model, result.notion
    return [
        ("model", model_name(result)),
        ("penalty (l2)", optional(model, "l2")),
        ("penalty from", model.l2_from),
        ("noise", _noise(result)),
        ("noise on", result.noise_on),
        ("scale", optional(model, "scale")),
        ("scale from", result.scale_from),
        ("shape", optional(model, "shape")),
        ("reweightings", optional(model, "reweightings")),
        ("limit", limit_text(result, optional(result, "limit"))),
        ("notion", f"{notion.name} ({notion.symbol}), in {notion.measured_in}"),
        ("unit", result.unit),
        ("the attacker", result.attacker),
        ("standing", standing(result)),
        ("people", optional(result, "people") if result.unit == "person" else None),
    ]


def _doses(result: LinearRelease) -> list[Part]:
    dose = optional(result, "dose")
    if dose is None:
        return []
    limit = optional(result, "limit")
    before, after = (number(amount(ratio)) for ratio in (dose.spread_before, dose.spread_after))
    most = f"{number(amount(dose.before))} before"
    if result.ranked:
        most = f"{person_name(result, result.ranked[0].row)}; {most}"
    tiles = (
        Tile("typical dose", number(dose.typical), least_error(result, dose.typical)),
        Tile("highest", number(dose.highest), most, dose_tone(dose.highest, limit)),
        Tile("highest over typical", after, f"{before} before"),
        guess_tile(dose.highest),
    )
    return [Tiles(tiles)]


def _cost(result: LinearRelease) -> list[Part]:
    """The score on the table and on people left out, and what each kind of noise would have cost."""
    change, choice = optional(result, "score"), optional(result, "choice")
    if change is None:
        return []
    after = "none was drawn" if change.after is None else f"{change.after:.3f} with it"
    parts: list[Part] = [
        Paragraph(f"{capital(change.name)} on this table: {change.before:.3f} without noise, {after}.")
    ]
    held_out = optional(result, "held_out")
    parts += [] if held_out is None else _held_out(held_out)
    if result.useless:
        ways = f"A higher limit, more people or fewer columns help; {option('even_if_useless')} releases it anyway."
        parts.append(Paragraph(ways, tone="bad"))
    if choice is not None and choice.loss_increases:
        costs = ", ".join(f"{kind} {number(loss)}" for kind, loss in choice.loss_increases.items())
        parts.append(Paragraph(f"Noise: {choice.kind}. Expected loss added for each row at this limit: {costs}."))
    return parts


def capital(name: str) -> str:
    """The name of a score at the beginning of a sentence.

    >>> capital("accuracy"), capital("R²")
    ('Accuracy', 'R²')
    """
    return name[:1].upper() + name[1:]


def _held_out(scores: HeldOutScores) -> list[Part]:
    """Scores on people left out of the fit, at limits around the requested one."""
    if scores.why:
        return [Paragraph(f"Not scored on people left out of the fit: {scores.why}")]
    name = scores.name
    text = (
        f"{capital(name)} on people left out of the fit ({scores.folds} folds, expected over the noise): "
        f"{scores.without_noise:.3f} without noise, {scores.score:.3f} with it; a constant prediction has "
        f"{scores.base:.3f}."
    )
    rows = tuple(
        (
            f"{step.limit:.3g}{' (this one)' if step.limit == scores.limit else ''}",
            "none" if step.score is None else f"{step.score:.3f}",
            step.why.split(": ")[0] if step.score is None else "worse than a constant" * (step.score < scores.base),
        )
        for step in scores.steps
    )
    caption = f"{capital(name)} on people left out, at other limits"
    return [Paragraph(text), Grid(caption, ("limit on the dose", name, ""), rows)]


# --- statistics on request, dataframe, plot ---


@dose_statistics.register
def _(result: LinearRelease) -> JsonObject:
    change, people = result.score, result.people
    noise = {"noise": result.noise if result.scale_from == "the data" else None}
    if people < 2 * SMALLEST:
        return warned(noise)
    return warned(
        {
            **noise,
            "people": rounded(people),
            "typical": rounded(result.dose.typical),
            "score_before": score(change.name, change.before),
            "score_after": None if change.after is None else score(change.name, change.after),
            "histogram": histogram(result.distribution),
            "groups": groups(result.groups, people),
        }
    )


@table_of.register
def _(result: LinearRelease) -> dict[str, list[Any]]:
    return ranking(result)


@drawing_of.register
def _(result: LinearRelease) -> Drawing | None:
    return dose_plot(result)
