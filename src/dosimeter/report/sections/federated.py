"""The sections about a federated training (`federate`) and a plan for one (`federate plan`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dosimeter.report.charts import Axis, Series, drawing
from dosimeter.report.layout import Gauge, Part, Section, Tone, VerdictBanner, Words, number
from dosimeter.report.sections.closing import closing, release
from dosimeter.report.sections.doses import WIDE, amount
from dosimeter.report.sections.interpretation import of_epsilon
from dosimeter.report.verdicts import change, nothing_left

TITLE = "What this federated model gives away"
PLAN = "What a federated training would give away"
ROUND = "round"


def sections(told: Mapping[str, Any]) -> list[Section]:
    """Top to bottom; what the edition does not have stays away."""
    made = [
        Section("What was promised", tuple(_promise(told))),
        Section("Round by round", tuple(_rounds(told))),
        Section("Inside the rounds", tuple(_inside(told.get("internal") or {}, told))),
        Section("The recipe", tuple(_recipe(told.get("recipe") or {}))),
    ]
    return [*(one for one in made if one.parts), *closing(told)]


def verdict(told: Mapping[str, Any]) -> VerdictBanner:
    """The sentence of the edition, and ε spent beside the budget."""
    spent, budget = amount(told["guarantee"]["epsilon"]), float(told["budget"]["epsilon"])
    over = bool(told.get("over")) or spent > budget or bool(told.get("simulation"))
    tone: Tone = "bad" if over or nothing_left(told) or not _claimed(told) else "good"
    return VerdictBanner(str(told["sentence"]), tone, Gauge.of("ε spent of the budget", spent, budget, (("ε", spent),)))


def _claimed(told: Mapping[str, Any]) -> bool:
    return bool(told["guarantee"]["standing"] != "unaccounted" and not told.get("over"))


def _meant(told: Mapping[str, Any]) -> list[Part]:
    found = told["guarantee"]
    if not _claimed(told):
        return []
    told_apart = change("client", found["adjacency"])
    return [of_epsilon(amount(found["epsilon"]), float(found["delta"]), told_apart)]


def _promise(told: Mapping[str, Any]) -> list[Part]:
    found, model = told["guarantee"], told.get("model") or {}
    accuracy = (told.get("accuracy") or {}).get("share")
    widths = "-".join(map(str, model.get("widths") or []))
    pair = f"({number(amount(found['epsilon']))}, {found['delta']:g})"
    return [
        *_meant(told),
        release(
            [
                ("(ε, δ)", f"{pair} after {found['rounds']} rounds" + ("" if _claimed(told) else ": not claimed")),
                ("budget", f"ε = {told['budget']['epsilon']:g} at δ = {told['budget']['delta']:g}"),
                ("unit", found["unit"]),
                ("neighbours", found["neighbours"]),
                ("standing", f"{found['standing']}, by {found['how']}"),
                ("trusted", found["trusted"]),
                ("clients", f"{told['clients']}, {told['per_round']:g} a round, {told['sampling']}"),
                ("noise on the sum, over the clip", f"{told['noise']:.4g}"),
                ("stopped", told.get("stopped")),
                ("network", f"{widths} ({model['parameters']} parameters)" if widths else None),
                ("accuracy on public rows", None if accuracy is None else f"{accuracy:.1%}"),
            ]
        ),
    ]


def _rounds(told: Mapping[str, Any]) -> list[Part]:
    found = told.get("by_round") or {}
    at = _column(found, "round")
    if not at.size:
        return []
    parts: list[Part] = []
    accuracy = _column(found, "accuracy")
    if accuracy.size == at.size:
        says = "Share of right answers on public rows after each round."
        series = [Series("accuracy", at, accuracy)]
        parts.append(
            drawing("Accuracy by round", Axis(ROUND, whole=True), Axis("accuracy"), series, says=says, size=WIDE)
        )
    budget = float(told["budget"]["epsilon"])
    series = [
        Series("spent", at, _column(found, "epsilon")),
        Series("budget", np.array([at[0], at[-1]]), np.full(2, budget)),
    ]
    says = f"ε at δ = {told['budget']['delta']:g} after each round, and the budget."
    parts.append(drawing("ε by round", Axis(ROUND, whole=True), Axis("ε"), series, says=says, size=WIDE))
    return parts


def _column(found: Mapping[str, Any], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(found.get(name) or [], dtype=np.float64)


def _inside(inside: Mapping[str, Any], told: Mapping[str, Any]) -> list[Part]:
    if not inside:
        return []
    sent, refused = inside["updates_sent"], inside["updates_refused"]
    parts: list[Part] = [Words(f"{sent} updates were sent, {refused} refused. Not noised: internal.")]
    at = _column(told.get("by_round") or {}, "round")
    names = (("variance", "V_c: variance over clients"), ("scale", "U_s: squared mean update"))
    series = [Series(name, at, _column(inside, key)) for key, name in names if _column(inside, key).size == at.size > 0]
    if series:
        log = all((one.y > 0).all() for one in series)
        says = "Mean over the parameters, round by round [Geyer19, figure 3]."
        axes = Axis(ROUND, whole=True), Axis("V_c, U_s", log=log)
        parts.append(drawing("V_c and U_s by round", *axes, series, says=says, size=WIDE))
    return parts


def _recipe(found: Mapping[str, Any]) -> Sequence[Part]:
    known = ("hidden", "epochs", "batches", "batch", "rate", "momentum", "quantile", "clip", "simulate")
    pairs = [(key, found[key]) for key in known if found.get(key) not in (None, [])]
    return [release(pairs)] if pairs else []
