"""The sections about a measured linear model (`measure`, `demo`)."""

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
from dosimeter.reports.sections.columns import columns, columns_in_short, most_exposed_value
from dosimeter.reports.sections.doses import amount, cell, plural
from dosimeter.reports.sections.interpretation import MEASURED, guess_tile
from dosimeter.reports.sections.inversion import attack_chart, attack_in_short
from dosimeter.reports.sections.linear_figures import (
    DOSE,
    distribution,
    dose_plot,
    dose_tone,
    frontier_chart,
    gauge,
    good_doses,
    group_chart,
    groups_in_short,
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
from dosimeter.reports.statistics import FEW, counted, groups, histogram, rounded, score, warned
from dosimeter.reports.verdicts import BIT, figure
from dosimeter.results.linear_parts import ColumnFigures
from dosimeter.results.measurement import Measurement
from dosimeter.results.parts import SMALLEST
from dosimeter.results.to_json import JsonObject

# --- the verdict ---


@public_verdict.register
def _(result: Measurement) -> str:
    if not result.bounded:
        return (
            f"The exact {result.released} of this model leak an unbounded amount about the people in its training "
            "table."
        )
    noise, verdict = f"The noise is {result.noise}, on {result.noise_on}", result.verdict
    if verdict is not None and verdict.within:
        return f"No {result.unit} has a dose above the stated limit of {verdict.limit:g}; {BIT}. {noise}."
    return f"No limit on anyone's dose is claimed. {noise}."


@internal_verdict.register
def _(result: Measurement) -> str:
    dose, verdict = result.dose, result.verdict
    if not result.bounded:
        return f"Unbounded: the exact {result.released} are released, and nothing limits what they leak."
    highest = f"the highest is {figure(dose.highest)}"
    if verdict is None:
        return f"No limit was stated: {highest}, a typical {result.unit}'s dose is {figure(dose.typical)}."
    limit = f"a dose above the limit of {verdict.limit:g}"
    if verdict.within:
        return f"No {result.unit} has {limit}; {highest}."
    highest += held_scaler(result.scaler, verdict.limit)
    return f"{verdict.above} of {result.people} {plural(result.unit)} have {limit}; {highest}."


@banner.register
def _(result: Measurement, view: View) -> VerdictBanner:
    dose, limit = optional(result, "dose"), _limit(result)
    shown = None if dose is None else gauge(amount(dose.highest), amount(dose.typical), limit)
    return VerdictBanner(view.sentence, _tone(result), shown, plain_meaning(result, dose, limit))


def _tone(result: Measurement) -> Tone:
    if not result.bounded:
        return "bad"
    return "" if result.verdict is None else "good" if result.verdict.within else "bad"


def _limit(result: Measurement) -> float | None:
    return None if result.verdict is None else result.verdict.limit


# --- the sections ---


@sections.register
def _(result: Measurement, view: View) -> list[Section]:
    limit, attack = _limit(result), optional(result, "attack")
    return [
        Section(f"Dose per {result.unit}", tuple(_doses(result))),
        Section("What a dose means", meaning_of_dose(result, limit) if result.bounded else ()),
        Section("The most exposed value", most_exposed_value(result)),
        Section("What is a good dose?", good_doses(result), PAGE),
        Section("Distribution of doses", distribution(result, DOSE if result.bounded else ""), PAGE),
        *groups_in_short(result),
        Section("Groups", group_chart(result), PAGE),
        Section("Columns that leak most", columns_in_short(result), SHORT),
        Section("Columns", columns(result), PAGE),
        Section("Checked by attack", attack_in_short(attack, result.unit), SHORT),
        Section("Checked by attack", (*attack_in_short(attack, result.unit), *attack_chart(attack)), PAGE),
        Section("Accuracy against dose", frontier_chart(optional(result, "frontier")), PAGE),
        Section("Model and noise", (settings(_in_short(result)),) if view.internal else (), SHORT),
        Section("Settings", (Paragraph(MEASURED, quiet=True), settings(_settings(result))), PRINTED),
        *closing(result, view),
        Section("Standing", (Paragraph(standing(result), quiet=True),), SHORT),
    ]


def _noise(result: Measurement) -> str:
    return result.noise if result.bounded else f"none: the exact {result.released}"


def _in_short(result: Measurement) -> list[tuple[str, Any]]:
    model = result.model
    fit = "" if model.score is None else f", {model.score_name} {model.score:.2f} on this table"
    people = "" if result.unit == "row" else f" of {result.people} {plural(result.unit)}"
    dropped = f" ({result.dropped_rows} left out for missing values)" if result.dropped_rows else ""
    return [
        ("model", f"{model_name(result)}{fit}"),
        ("table", f"{result.rows} rows{people}{dropped}; row numbers count from 1"),
        ("noise", f"{_noise(result)}, on {result.noise_on}" if result.bounded else _noise(result)),
        ("unknown", result.unknowns),
    ]


def _settings(result: Measurement) -> list[tuple[str, Any]]:
    model, notion = result.model, result.notion
    return [
        ("model", model_name(result)),
        ("penalty (l2)", optional(model, "l2")),
        ("penalty from", model.l2_from),
        ("parameters", model.parameters),
        ("noise", _noise(result)),
        ("noise on", result.noise_on),
        ("limit", limit_text(result, _limit(result))),
        ("notion", f"{notion.name} ({notion.symbol}), in {notion.measured_in}"),
        ("unit", result.unit),
        ("the attacker", result.attacker),
        ("unknown", result.unknowns),
        ("standing", standing(result)),
        ("rows", optional(result, "rows")),
        ("people", optional(result, "people") if result.unit == "person" else None),
        ("rows left out", optional(result, "dropped_rows") or None),
    ]


def _doses(result: Measurement) -> list[Part]:
    dose = optional(result, "dose")
    if dose is None:
        return []
    if not result.bounded:
        return _unbounded(result)
    typical, highest, limit = amount(dose.typical), amount(dose.highest), _limit(result)
    tiles = [
        Tile("typical dose", number(typical), least_error(result, typical)),
        Tile("worst 1 %", number(amount(dose.worst_1_percent)), f"1 % of the {plural(result.unit)} have more"),
        Tile("highest", number(highest), person_name(result, dose.highest_row), dose_tone(highest, limit)),
        guess_tile(highest),
    ]
    if result.verdict is not None:
        above, tone = f"{result.verdict.above} of {result.people}", _tone(result)
        tiles.append(Tile("above the limit", above, f"the limit is {limit:g}", tone))
    return [Tiles(tuple(tiles))]


def _unbounded(result: Measurement) -> list[Part]:
    """An exact release: the most exposed, and the noise that would bound the doses."""
    dose, needed = result.dose, result.noise_needed
    times = f"{number(cell(dose.highest_over_typical))} times the typical dose"
    most = Paragraph(f"The most exposed is {person_name(result, dose.highest_row)}, with {times}.")
    if not needed:
        floor = "" if result.scaler is None else f" below {number(result.scaler.floor)}"
        reason = f"the fitted scaler leaves it; declare bounds ({option('bounds')})"
        return [most, Paragraph(f"No noise brings the highest dose{floor}: {reason}.")]
    rows = tuple((number(need.highest), need.scale) for need in needed)
    grid = Grid("Noise that a highest dose would need", (f"highest {DOSE}", "noise scale"), rows)
    public = "A scale read off the data is itself not covered: round it up to a public one."
    return [most, grid, Paragraph(public, quiet=True)]


# --- statistics on request, dataframe, plot ---


@dose_statistics.register
def _(result: Measurement) -> JsonObject:
    people, verdict = result.people, result.verdict
    if people < 2 * SMALLEST:
        return warned({"people": FEW if people < SMALLEST else rounded(people)})
    return warned(
        {
            "people": rounded(people),
            "typical": rounded(result.dose.typical),
            "worst_1_percent": rounded(result.dose.worst_1_percent) if people >= 100 * SMALLEST else None,
            "limit": None if verdict is None else verdict.limit,
            "above_the_limit": None if verdict is None else counted(verdict.above, people),
            "score": score(result.model.score_name, result.model.score),
            "histogram": histogram(result.distribution),
            "groups": groups(result.groups, people),
        }
    )


@table_of.register
def _(result: Measurement) -> dict[str, list[Any]]:
    """One row for each column and the target; of an exact release, which has no bounded figures, the most exposed."""
    if not result.columns:
        return ranking(result)
    figures: list[ColumnFigures] = [*result.columns, *([result.target] if result.target.counted else [])]
    table = {name: [_value(getattr(column, name)) for column in figures] for name in ColumnFigures.model_fields}
    return {name: values for name, values in table.items() if any(value is not None for value in values)}


def _value(value: Any) -> Any:
    return amount(value) if value == "unbounded" else value


@drawing_of.register
def _(result: Measurement) -> Drawing | None:
    return dose_plot(result)
