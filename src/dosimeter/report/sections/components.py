"""The sections about noised principal components (`pca`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dosimeter.report.charts import Axis, Series, drawing
from dosimeter.report.layout import Gauge, Grid, Part, Section, Tone, VerdictBanner, Words, number
from dosimeter.report.sections.closing import closing, release
from dosimeter.report.sections.doses import WIDE, amount, cell, distribution, ranked
from dosimeter.report.sections.interpretation import of_epsilon
from dosimeter.report.verdicts import change, nothing_left

TITLE = "What these principal components give away"
K = "components seen (k)"


def sections(told: Mapping[str, Any]) -> list[Section]:
    """Top to bottom; what the edition does not have stays away."""
    inside = told.get("internal") or {}
    made = [
        Section("What was promised", tuple(_promised(told))),
        Section("Dose", tuple(_doses(inside))),
        Section("Checked by attack", tuple(_attack(told.get("attack")))),
        Section("What the components are worth", tuple(_variance(inside))),
    ]
    return [*(one for one in made if one.parts), *closing(told)]


def verdict(told: Mapping[str, Any]) -> VerdictBanner:
    """The sentence of the edition, and what the noise costs beside the stated ε."""
    found = told["guarantee"]
    tone: Tone = "good" if _claimed(told) and not nothing_left(told) else "bad"
    gauge = None
    if "costs" in found and told["private"]:
        costs = amount(found["costs"])
        gauge = Gauge.of("ε that this noise costs", costs, float(found["epsilon"]), (("costs", costs),))
    return VerdictBanner(str(told["sentence"]), tone, gauge)


def _claimed(told: Mapping[str, Any]) -> bool:
    return bool(told["private"] and told["guarantee"].get("holds"))


def _promised(told: Mapping[str, Any]) -> list[Part]:
    """What the pair means where it is claimed, then the settings."""
    found = told["guarantee"]
    if not _claimed(told):
        return [_promise(told)]
    told_apart = change(found["unit"], found["neighbours"])
    return [of_epsilon(float(found["epsilon"]), float(found["delta"]), told_apart), _promise(told)]


def _promise(told: Mapping[str, Any]) -> Part:
    found, noise, parts = told["guarantee"], told["noise"], told["components"]
    low, high = noise.get("scale_low"), noise.get("scale_high")
    scale = None if low is None else number(low) if low == high else f"{number(low)} to {number(high)}"
    return release(
        [
            ("components", f"{parts.get('released', 'some')} of {parts['columns']}, by {told['mechanism']}"),
            ("(ε, δ)", f"({found['epsilon']:g}, {found['delta']:g})" + ("" if told["private"] else ": not claimed")),
            ("unit", found["unit"]),
            ("neighbours", found["neighbours"]),
            ("standing", found["standing"]),
            ("this noise costs ε", cell(found.get("costs"))),
            ("noise", f"{noise['law']} on {noise['on']}"),
            ("scale", scale),
            ("entries of the second moment reach", noise.get("second_moment_reach")),
            ("part of the budget for the mean", noise["mean_share"]),
            ("scale on the mean", noise.get("mean_scale") or None),
            ("bounds", told["bounds"]),
            ("rows (public)", told.get("rows_public")),
            ("people (public)", told.get("people_public")),
        ]
    )


def _doses(inside: Mapping[str, Any]) -> list[Part]:
    parts: list[Part] = []
    rows, missing = [], []
    for key in ("dose", "membership"):
        one = inside.get(key) or {}
        if one.get("not_measured"):
            missing.append(Words(str(one["not_measured"]), quiet=True))
        elif one:
            name = f"{one['symbol']} per {one['unit']}: {one['compares']}"
            rows.append((name, cell(one.get("typical")), cell(one.get("highest")), one["standing"]))
    if rows:
        parts.append(Grid("Doses, computed without protection", ("", "typical", "highest", "standing"), tuple(rows)))
    parts += missing
    if (inside.get("most_rows_of_a_person") or 1) > 1:
        parts.append(Words(f"Somebody has {inside['most_rows_of_a_person']} rows; they weigh as much as one."))
    if inside.get("distribution"):
        parts += distribution(inside["distribution"])
    unit = (inside.get("dose") or {}).get("unit") or "row"
    return parts + ranked(inside.get("ranked") or [], unit)


def _attack(found: Mapping[str, Any] | None) -> list[Part]:
    if not found:
        return []
    parts: list[Part] = []
    series: list[Series] = []
    for key, name in (("before", "before the noise"), ("after", "after the noise")):
        seen = (found.get(key) or {}).get("by_components")
        if seen:
            k = np.array(seen["k"], dtype=float)
            low, high = (np.array(seen[end], dtype=float) for end in ("null_low", "null_high"))
            if key == "before":
                series.append(Series("by chance (95 % of deals)", k, low, kind="band", top=high))
            series.append(Series(name, k, np.array(seen["auc"], dtype=float)))
    if series:
        says = (
            "AUC of the membership attack of [Zari22] when the first k components are seen, beside the band in which "
            "95 % of random deals of the same people lie. Within the band the attack learnt nothing."
        )
        parts.append(drawing("AUC by components seen", Axis(K, whole=True), Axis("AUC"), series, says=says, size=WIDE))
    rows = []
    for key in ("before", "after"):
        one = found[key]
        interval = f"{one['low']:.3f} to {one['high']:.3f} at {one['level']:.0%}"
        chance = " to ".join(f"{v:.3f}" for v in one["null_at_k"])
        best = f"{one['maximum']:.3f} at {one['best_k']}, by chance below {one['null_95']:.3f}"
        rows.append((f"{key} the noise, k = {one['k']}", float(one["figure"]), interval, chance, best))
    heads = ("", "AUC", "interval", "by chance at k", "best of all k")
    parts.append(Grid("The attack at the released k", heads, tuple(rows)))
    parts.append(
        Words(
            f"A rehearsal on halves of the table, not the release: {found['members']} rows as members, "
            f"{found['strangers']} as strangers, parted by {found['dealt_by']}; interval over "
            f"{found['interval_over']}. A lower bound: an attack that fails proves nothing.",
            quiet=True,
        )
    )
    return parts


def _variance(inside: Mapping[str, Any]) -> list[Part]:
    parts: list[Part] = []
    found = inside.get("variance")
    if found and found["k"]:
        k = np.array(found["k"], dtype=float)
        names = (("exact", "best directions"), ("released", "released directions"), ("at_random", "random directions"))
        series = [Series(name, k, np.array(found[key], dtype=float)) for key, name in names]
        says = "Share of the table's variance about its mean in the first k directions."
        axes = Axis("directions (k)", whole=True), Axis("share of the variance")
        parts.append(drawing("Captured variance", *axes, series, says=says, size=WIDE))
    captured = inside.get("captured")
    if captured:
        parts.append(
            Words(
                f"The {captured['k']} released directions hold {captured['q']:.3f} of the variance that the best "
                f"{captured['k']} hold; random ones {captured['at_random']:.3f}."
            )
        )
        parts.append(Words(f"{inside['clipped_share']:.1%} of the rows lay outside the bounds.", quiet=True))
    return parts
