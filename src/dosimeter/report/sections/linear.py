"""The sections about a linear model: measured (`measure`, `demo`) or repaired (`fix`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dosimeter.report.charts import Axis, Series, Span, dots, drawing
from dosimeter.report.layout import Drawing, Gauge, Grid, Part, Section, Tone, VerdictBanner, Words, number
from dosimeter.report.sections.closing import closing, release
from dosimeter.report.sections.doses import MANY, WIDE, amount, cell, distribution, one_by_one, ranked, strip
from dosimeter.report.sections.interpretation import MEASURED, of_eta, times_right
from dosimeter.report.verdicts import nothing_left

TITLE = "What the weights of this model give away"
MOST_GROUPS = 20
"""Groups that are drawn, the largest first; the table has all."""
STANDING = {"unaccounted": "exact for the weights as fitted; the choices named under “not covered” are unaccounted"}
LEAST_SCORE = -1.0
"""A score below it is a model that nobody would release; drawn, it would flatten the rest of the frontier."""
_BEYOND = "Where the error is no smaller than that of a guess without the release, the release adds little."
_REST = "Without, and R²: what everything else in the table gives without the release, by least squares. "


def sections(told: Mapping[str, Any]) -> list[Section]:
    """Top to bottom; what the edition does not have stays away."""
    unit = str(told["unit"])
    made = [
        Section(f"Dose per {unit}", tuple(_doses(told, unit))),
        Section("Groups", tuple(_groups(told.get("groups") or [], unit, _of(told)))),
        Section("Columns", tuple(_columns(told))),
        Section("Checked by attack", tuple(_attack(told.get("attack")))),
        Section("Accuracy against dose", (*_held_out(told.get("held_out")), *_frontier(told.get("frontier")))),
        Section("What was put on the weights", tuple(_put(told, unit))),
    ]
    return [*(one for one in made if one.parts), *closing(told)]


def verdict(told: Mapping[str, Any]) -> VerdictBanner:
    """The sentence of the edition; a gauge where a dose may be shown."""
    dose = told.get("dose") or {}
    limit = _limit(told)
    gauge = None
    if "highest" in dose and "typical" in dose:
        highest, typical = amount(dose["highest"]), amount(dose["typical"])
        gauge = Gauge.of("highest dose (η)", highest, limit, (("typical", typical), ("highest", highest)))
    return VerdictBanner(str(told["sentence"]), _tone(told), gauge)


def _limit(told: Mapping[str, Any]) -> float | None:
    found = told.get("limit") if "verdict" not in told else (told["verdict"] or {}).get("limit")
    return None if found is None else float(found)


def _tone(told: Mapping[str, Any]) -> Tone:
    if told.get("bounded") is False or nothing_left(told):
        return "bad"
    within = told.get("within") if "verdict" not in told else (told["verdict"] or {}).get("within")
    if within is None or _limit(told) is None:
        return ""
    return "good" if within else "bad"


def _put(told: Mapping[str, Any], unit: str) -> list[Part]:
    """What the figures mean, then the settings."""
    bounded = told.get("bounded", True)
    parts: list[Part] = [of_eta(str(told["notion"]["measured_in"]), unit, _limit(told))] if bounded else []
    if nothing_left(told):
        parts.insert(0, Words("Nothing of this left the house: the settings are those of the attempt."))
    elif "booked" not in told:
        parts.insert(0, Words(MEASURED, quiet=True))
    return [*parts, _release(told)]


def _release(told: Mapping[str, Any]) -> Part:
    model, notion, limit = told["model"], told["notion"], _limit(told)
    return release(
        [
            ("model", f"{model['loss']} model of {model['target']}"),
            ("penalty (l2)", model.get("l2")),
            ("penalty from", model.get("l2_from")),
            ("parameters", model.get("parameters")),
            ("noise", _noise(told)),
            ("noise on", told.get("noise_on")),
            ("scale", model.get("scale")),
            ("scale from", told.get("scale_from")),
            ("shape", model.get("shape")),
            ("reweightings", model.get("reweightings")),
            ("limit", None if limit is None else f"η = {limit:g}"),
            ("notion", f"{notion['name']} ({notion['symbol']}), in {notion['measured_in']}"),
            ("unit", told["unit"]),
            ("the attacker", told.get("attacker")),
            ("unknown", told.get("unknowns")),
            ("standing", STANDING.get(str(told.get("standing")), told.get("standing"))),
            ("rows", told.get("rows")),
            ("people", told.get("people") if told["unit"] == "person" else None),
        ]
    )


def _noise(told: Mapping[str, Any]) -> str:
    if told.get("bounded") is False:
        return "none: the exact weights"
    return str(told.get("noise") or f"{told['law']}, scale withheld: it was chosen from the data")


def _doses(told: Mapping[str, Any], unit: str) -> list[Part]:
    dose = told.get("dose") or {}
    keys = (("typical", "typical"), ("worst 1 %", "worst_1_percent"), ("highest", "highest"))
    known = [(name, cell(dose[key])) for name, key in keys if key in dose]
    parts: list[Part] = []
    if known:
        of = f"η, {told['notion']['measured_in']}: 1/η is the least error of an unbiased guess"
        parts.append(Grid(f"Dose per {unit} ({of})", ("", "η"), tuple(known)))
    if told.get("meaning"):
        parts.append(Words(_meaning(told["meaning"], unit)))
    if told.get("noise_needed"):
        rows = tuple((number(float(one["highest"])), float(one["scale"])) for one in told["noise_needed"])
        parts.append(Grid("Noise that a highest η would need", ("highest η", "scale"), rows))
    if told.get("distribution"):
        parts += distribution(told["distribution"])
    # An exact release has no bounded dose to list: people stand by how much more than the typical one they carry.
    parts += ranked(told.get("ranked") or [], unit, of="η" if told.get("bounded", True) else "")
    return parts


def _meaning(found: Mapping[str, Any], unit: str) -> str:
    who = f"the {unit} of row {found['row']}" if unit != "row" else f"row {found['row']}"
    if found.get("eta") is not None:
        own, typical = number(amount(found["eta"])), number(cell(found.get("typical_eta")))
        return (
            f"What the release says most about {who} is the category “{found['column']}”: η = {own} for the step from "
            f"one value to another; of a typical {unit} {typical}. Somebody who takes two values for equally likely is "
            f"right {times_right(amount(found['eta']))} at best.{_follows(found)}"
        )
    own, typical = (number(cell(found.get(key))) for key in ("deviation", "typical_deviation"))
    what = "the target" if found["kind"] == "target" else "the column"
    spread = f" The column itself spreads ±{number(found['spread'])}." if found.get("spread") is not None else ""
    if found.get("without_release") is not None:
        spread += f" Everything else gives it to ±{number(found['without_release'])} without the release."
    spread += _follows(found)
    spread += f" {_BEYOND}" if _beyond(found, "deviation", "typical_deviation") else ""
    return (
        f"Nobody who knows everything else in the table and guesses without bias can pin {what} “{found['column']}” of "
        f"{who} closer than ±{own} (standard deviation); of a typical {unit} ±{typical}.{spread}"
    )


def _follows(found: Mapping[str, Any]) -> str:
    return "" if found.get("r2") is None else f" (R² of it on everything else: {found['r2']:.2f}.)"


def _beyond(found: Mapping[str, Any], *keys: str) -> bool:
    """Whether one of the least errors is no smaller than that of a guess without the release."""
    spread = found.get("without_release", found.get("spread"))
    return spread is not None and any(found.get(k) is not None and amount(found[k]) >= amount(spread) for k in keys)


def _of(told: Mapping[str, Any]) -> str:
    """What the figures of an exact release are: multiples."""
    return str((told.get("distribution") or {}).get("of") or "η")


def _groups(found: Sequence[Mapping[str, Any]], unit: str, of: str) -> list[Part]:
    if not found:
        return []
    many = MANY.get(unit, f"{unit}s")
    names = [f"{one['column']} {one['group']}" for one in found]
    grid = Grid(
        f"Groups ({of})",
        ("group", many, "median", "worst 1 %", "median over all"),
        tuple(
            (name, one["people"], float(one["median"]), float(one["worst_1_percent"]), float(one["over_median"]))
            for name, one in zip(names, found, strict=True)
        ),
        folded=True,
    )
    spans = [
        Span(name, float(one["median"]), high=float(one["worst_1_percent"]))
        for name, one in zip(names, found, strict=True)
        if one["median"] > 0
    ][:MOST_GROUPS]
    if not spans:
        return [grid]
    left = f" The {len(spans)} that carry most are drawn." if len(spans) < len(found) else ""
    says = f"Point: the median of a group; line: up to its worst 1 %. Groups of ten or more {many}.{left}"
    return [Drawing("Dose by group", dots("Dose by group", Axis(of, log=True), spans), grid, says)]


def _columns(told: Mapping[str, Any]) -> list[Part]:
    found = list(told.get("columns") or [])
    target = told.get("target") or {}
    if "typical_deviation" in target or "typical" in target:
        found.append({**target, "column": f"{target['column']} (target)"})
    numbers = [one for one in found if one.get("least_deviation") is not None]
    labels = [one for one in found if one.get("least_deviation") is None]
    parts: list[Part] = []
    if numbers:
        rows = tuple(
            (
                one["column"],
                cell(one["typical_deviation"]),
                cell(one["least_deviation"]),
                cell(one.get("without_release")),
                cell(one.get("spread")),
                _r2(one),
            )
            for one in numbers
        )
        of = "Least error (standard deviation) of an unbiased guess, in the column's own unit"
        parts.append(Grid(of, ("column", "typical ±", "closest ±", "without ±", "spread ±", "R²"), rows))
        added = any(_beyond(one, "typical_deviation", "least_deviation") for one in numbers)
        parts.append(Words(_REST + (_BEYOND if added else ""), quiet=True))
    if labels:
        steps = tuple((one["column"], cell(one.get("typical")), cell(one.get("highest")), _r2(one)) for one in labels)
        parts.append(
            Grid("Categories: η of the step from one value to another", ("column", "typical", "highest", "R²"), steps)
        )
    if not told.get("strip"):
        return parts
    made = strip(told["strip"])
    return [*([made] if made else []), *one_by_one(told["strip"]), *parts]


def _r2(one: Mapping[str, Any]) -> str:
    """R² on everything else, marked where the column follows from it."""
    if one.get("r2") is None:
        return ""
    return f"{one['r2']:.2f}, nearly given" if one.get("nearly_given") else f"{one['r2']:.2f}"


def _attack(one: Mapping[str, Any] | None) -> list[Part]:
    if not one:
        return []
    share = "share of right guesses"
    spans = [
        Span("everybody", float(one["figure"]), float(one["low"]), float(one["high"])),
        Span("the 1 % most exposed", float(one["top_1_percent"])),
        Span("the others", float(one["others"])),
        Span("control: everything else, without the weights", float(one["control"])),
    ]
    rows = tuple((s.name, s.at, s.low, s.high) for s in spans)
    title = "What the attack got"
    says = (
        f"Somebody who knows everything else guessed “{one['column']}” among {one['candidates']} values"
        f"{' (simulated releases)' if one.get('simulation') else ''}. Interval at {one['level']:.0%}; an attack that "
        f"fails proves nothing: {one['standing']}."
    )
    grid = Grid(title, ("who was guessed", share, "low", "high"), rows, folded=True)
    return [Drawing(title, dots(title, Axis(share), spans), grid, says), *_rare(one)]


def _rare(one: Mapping[str, Any]) -> list[Part]:
    """Accuracy is high for a rare level whoever guesses: what it takes is to name its people, and few others."""
    found = one.get("rare")
    if not found:
        return []
    rows = tuple(
        (words, *(cell(found.get(key)) for key in (name, f"{name}_low", f"{name}_high", f"{name}_control")))
        for name, words in (("recall", "recall: of its people, found"), ("precision", "precision: of those named, its"))
    )
    title = f"The rarest value: {one['column']} = {found['group']}, {number(cell(found['share']))} of the rows"
    return [Grid(title, ("", "share", "low", "high", "without the weights"), rows)]


def _held_out(found: Mapping[str, Any] | None) -> list[Part]:
    """Scores on people left out, at limits around the one asked for."""
    if not found or found.get("why"):
        return []
    name = str(found["name"])
    rows = tuple(
        (number(float(one["limit"])), "refused" if one.get("score") is None else float(one["score"]))
        for one in found["steps"]
    )
    rows += (("without noise", float(found["without_noise"])), ("one answer for everybody", float(found["base"])))
    return [
        Grid(f"{name} on people left out ({found['folds']} folds, expected over the noise)", ("limit η", name), rows)
    ]


def _frontier(found: Mapping[str, Any] | None) -> list[Part]:
    if not found:
        return []
    x, y = Axis("highest η", log=True), Axis(str(found["score_name"]))
    series, below = [], 0
    for key in ("isotropic", "shaped"):
        steps = sorted(found.get(key) or [], key=lambda one: float(one["highest"]))
        good = [one for one in steps if one["score"] >= LEAST_SCORE and one["highest"] > 0]
        below += len(steps) - len(good)
        if good:
            at, score = (np.array([one[name] for one in good], dtype=float) for name in ("highest", "score"))
            series.append(Series(f"{key} noise", at, score))
    here = _here(found)
    series += here
    if not series:
        return []
    left = f" {below} steps below {LEAST_SCORE:g} are not drawn." if below else ""
    left += " This release is not among the steps." if found.get("here") and not here else ""
    says = f"As the noise grows, doses fall and so does the {y.label}: {found['score_is']}.{left}"
    made = drawing("Accuracy against dose", x, y, series, says=says, size=WIDE)
    return [Drawing(made.title, made.spec, _ladder(found), made.says)]


def _here(found: Mapping[str, Any]) -> list[Series]:
    steps = [s for s in found.get(found.get("here_on") or "isotropic") or [] if s["scale"] == found.get("here")]
    good = [s for s in steps if s["score"] >= LEAST_SCORE and s["highest"] > 0]
    return [
        Series(
            "this release", np.array([float(s["highest"])]), np.array([float(s["score"])]), kind="points", large=True
        )
        for s in good
    ]


def _ladder(found: Mapping[str, Any]) -> Grid:
    rows = tuple(
        (key, float(s["scale"]), float(s["score"]), float(s["highest"]), float(s["typical"]))
        for key in ("isotropic", "shaped")
        for s in found.get(key) or []
    )
    return Grid(
        "Accuracy against dose",
        ("noise", "scale", str(found["score_name"]), "highest η", "typical η"),
        rows,
        folded=True,
    )
