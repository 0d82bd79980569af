"""Parts of the report that a measured and a released linear model share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dosimeter.reports.charts import Axis, Series, Span, dots, drawing
from dosimeter.reports.layout import SHORT, Drawing, Gauge, Grid, Paragraph, Part, Section, Tone, number
from dosimeter.reports.sections.closing import optional
from dosimeter.reports.sections.doses import (
    WIDE,
    amount,
    exposure_by_person,
    exposure_chart,
    histogram,
    most_exposed,
    plural,
)
from dosimeter.reports.sections.interpretation import good_dose, of_eta, remaining, without_symbols
from dosimeter.results.linear import LinearRelease
from dosimeter.results.linear_parts import AccuracyPoint, ExposureMatrix, FittedScaler, Frontier, GroupFigures
from dosimeter.results.measurement import Measurement

LinearResult = Measurement | LinearRelease
DOSE = "dose (η)"
CARRIES_MORE = 1.1
"""Groups whose median is at least this multiple of everyone's are named in the summary."""
MOST_GROUPS = 20
"""Groups that are drawn, the largest first; the table has all."""
STANDING = {"unaccounted": "exact for the weights as fitted; the choices named under “not covered” are unaccounted"}
LEAST_SCORE = -1.0
"""A model with a lower score is of no use; drawn, it would flatten the rest of the frontier."""


def gauge(highest: float, typical: float, limit: float | None) -> Gauge | None:
    """The highest dose beside the typical one and the limit."""
    return Gauge.of(f"highest {DOSE}", highest, limit, (("typical", typical), ("highest", highest)))


def plain_meaning(result: LinearResult, dose: Any, limit: float | None) -> str:
    """The highest dose without symbols; outside, where doses are not shown, the stated limit."""
    if dose is not None:
        return without_symbols(amount(dose.highest), f"the most exposed {result.unit}", result.notion.measured_in)
    if limit is None:
        return ""
    return without_symbols(limit, f"any {result.unit}", result.notion.measured_in, bound=True)


def standing(result: LinearResult) -> str:
    """What the figures are worth."""
    return STANDING.get(result.standing, result.standing)


def model_name(result: LinearResult) -> str:
    """The model in one phrase."""
    return f"{result.model.loss} model of {result.model.target}"


OWN_UNITS = (
    "Suggested limits are per standard deviation. In own units the same limit means something else in every column: "
    "measure per standard deviation before you judge a limit."
)


def limit_text(result: LinearResult, limit: float | None) -> str | None:
    """The limit with its unit, if it is claimed."""
    return None if limit is None else f"η = {limit:g} per {result.unit}, in {result.notion.measured_in}"


def least_error(result: LinearResult, eta: float) -> str:
    """1/η as a sentence: how far an unbiased guess is off."""
    if not eta > 0:
        return "the release says nothing about any value"
    of = "standard deviations" if result.notion.measured_in == "standard deviations" else "in the column's own unit"
    return f"an unbiased guess errs by ±{number(1 / eta)} {of} or more"


def dose_tone(eta: float, limit: float | None) -> Tone:
    """Whether a dose keeps within the limit."""
    return "" if limit is None else "good" if eta <= limit else "bad"


def held_scaler(scaler: FittedScaler | None, limit: float) -> str:
    """What a scaler leaves that is held fixed: the verdict adds it, the doses do not hold it."""
    if scaler is None or scaler.figures == "total":
        return ""
    if scaler.floor > limit:
        return f", and the fitted scaler alone leaves up to {number(scaler.floor)}"
    leaves = f", and the limit also counts what the fitted scaler leaves at any noise, up to {number(scaler.floor)}"
    return leaves if scaler.counted is None else f"{leaves}, and that weights move with it: {number(scaler.counted)}"


def person_name(result: LinearResult, row: int) -> str:
    """The most exposed person: by the number of their first row, or by id if ids were requested."""
    ranking = optional(result, "ranked")
    if ranking and ranking[0].id is not None:
        return f"{result.unit} {ranking[0].id}"
    return f"row {row}" if result.unit == "row" else f"the {result.unit} of row {row}"


def meaning_of_dose(result: LinearResult, limit: float | None) -> tuple[Part, ...]:
    """What a dose is, and what the limit leaves to an attacker."""
    measured_in = result.notion.measured_in
    parts: list[Part] = [of_eta(measured_in, result.unit, limit)]
    if limit is not None:
        parts.append(Paragraph(remaining(limit, measured_in)))
        parts += [Paragraph(OWN_UNITS)] if measured_in == "own units" else []
    return tuple(parts)


def good_doses(result: LinearResult) -> tuple[Part, ...]:
    """The table of doses. It is per standard deviation: in own units a dose means something else in every column."""
    return tuple(good_dose()) if result.notion.measured_in == "standard deviations" else ()


def distribution(result: LinearResult, of: str = DOSE) -> tuple[Part, ...]:
    """The histogram, and those with the highest doses. of: "" for an exact release, which has no bounded dose."""
    parts: list[Part] = histogram(result.distribution) if result.shows("distribution") else []
    return (*parts, *most_exposed(optional(result, "ranked") or [], result.unit, of))


def exposure(matrix: ExposureMatrix | None) -> list[Part]:
    """What leaks about the most exposed, column by column."""
    if matrix is None:
        return []
    chart = exposure_chart(matrix)
    return [*([chart] if chart else []), *exposure_by_person(matrix)]


def group_chart(result: LinearResult) -> tuple[Part, ...]:
    """All groups: the median and the worst 1 % of each."""
    figures: Sequence[GroupFigures] = optional(result, "groups") or []
    if not figures:
        return ()
    # The doses of an exact release are multiples of the typical one.
    of, many = result.distribution.of if result.shows("distribution") else "η", plural(result.unit)
    names = [f"{group.column} {group.group}" for group in figures]
    rows = tuple(
        (name, group.people, group.median, group.worst_1_percent, group.over_median)
        for name, group in zip(names, figures, strict=True)
    )
    grid = Grid(f"Groups ({of})", ("group", many, "median", "worst 1 %", "median over all"), rows, folded=True)
    spans = [
        Span(name, group.median, high=group.worst_1_percent)
        for name, group in zip(names, figures, strict=True)
        if group.median > 0
    ][:MOST_GROUPS]
    if not spans:
        return (grid,)
    left_out = f" The {len(spans)} with the highest doses are drawn." if len(spans) < len(figures) else ""
    says = f"Point: the median of a group; line: up to its worst 1 %. Groups of ten or more {many}.{left_out}"
    return (Drawing("Dose by group", dots("Dose by group", Axis(of, log=True), spans), grid, says),)


def groups_in_short(result: LinearResult) -> list[Section]:
    """Requested groups, and those with higher doses."""
    figures: Sequence[GroupFigures] = optional(result, "groups") or []
    requested = [group for group in figures if group.asked]
    more = [group for group in figures if not group.asked and group.over_median >= CARRIES_MORE][:4]
    if not requested and not more:
        text = f"No group of ten or more has a median dose above {CARRIES_MORE:g} times everyone's."
        return [Section("Groups", (Paragraph(text),), SHORT)] if figures else []
    note = f"If the column varies, a {result.unit} is counted by their first row."
    notes = (Paragraph(note, quiet=True),) if any(group.by_first_row for group in more) else ()
    return [
        Section("Requested groups", tuple(_group_table(requested, result.unit)), SHORT),
        Section("Groups with higher doses", (*_group_table(more, result.unit), *notes), SHORT),
    ]


def _group_table(figures: Sequence[GroupFigures], unit: str) -> list[Part]:
    rows = tuple((f"{group.column} {group.group}", group.over_median, group.people) for group in figures)
    headings = ("group", "median dose over everyone's", plural(unit))
    return [Grid("Groups", headings, rows)] if rows else []


def frontier_chart(frontier: Frontier | None) -> tuple[Part, ...]:
    """Accuracy against dose as the noise grows."""
    if frontier is None:
        return ()
    x, y = Axis("highest η", log=True), Axis(frontier.score_name)
    series, below = [], 0
    for name, steps in (("isotropic", frontier.isotropic), ("shaped", frontier.shaped)):
        drawn = _drawn(sorted(steps, key=lambda step: step.highest))
        below += len(steps) - len(drawn)
        if drawn:
            series.append(_series(f"{name} noise", drawn))
    here = _here(frontier)
    series += [_series("this release", [step], large=True) for step in here]
    if not series:
        return ()
    left_out = f" {below} steps below {LEAST_SCORE:g} are not drawn." if below else ""
    left_out += " This release is not among the steps." if frontier.here and not here else ""
    says = f"As the noise grows, doses fall and so does the {y.label}: {frontier.score_is}.{left_out}"
    chart = drawing("Accuracy against dose", x, y, series, says=says, size=WIDE)
    return (Drawing(chart.title, chart.spec, _frontier_table(frontier), chart.says),)


def _drawn(steps: Sequence[AccuracyPoint]) -> list[AccuracyPoint]:
    return [step for step in steps if step.score >= LEAST_SCORE and step.highest > 0]


def _series(name: str, steps: Sequence[AccuracyPoint], large: bool = False) -> Series:
    highest, score = np.array([step.highest for step in steps]), np.array([step.score for step in steps])
    return Series(name, highest, score, kind="points", large=True) if large else Series(name, highest, score)


def _here(frontier: Frontier) -> list[AccuracyPoint]:
    curve = frontier.shaped if frontier.here_on == "shaped" else frontier.isotropic
    return _drawn([step for step in curve if step.scale == frontier.here])


def _frontier_table(frontier: Frontier) -> Grid:
    rows = tuple(
        (name, step.scale, step.score, step.highest, step.typical)
        for name, steps in (("isotropic", frontier.isotropic), ("shaped", frontier.shaped))
        for step in steps
    )
    headings = ("noise", "scale", frontier.score_name, "highest η", "typical η")
    return Grid("Accuracy against dose", headings, rows, folded=True)


def dose_plot(result: LinearResult) -> Drawing | None:
    """The histogram of the doses alone, or None if no one has one."""
    return next((part for part in histogram(result.distribution) if isinstance(part, Drawing)), None)


def ranking(result: LinearResult) -> dict[str, list[object]]:
    """The most exposed as columns of a dataframe."""
    entries = result.ranked
    columns: dict[str, list[object]] = {
        "rank": [entry.rank for entry in entries],
        "row": [entry.row for entry in entries],
        "dose": [amount(entry.dose) for entry in entries],
        "over_typical": [amount(entry.over_typical) for entry in entries],
    }
    named = any(entry.id is not None for entry in entries)
    return {"id": [entry.id for entry in entries], **columns} if named else columns
