"""A section for a model card: what leaves, with which noise, under which limit, and what is not covered. External only.

Markdown without headings of its own level one, so that it fits into anybody's card:
`skops.card.Card(model).add(**{"Privacy": card(facts)})`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dosimeter.report.editions import external

_MARKS = re.compile(r"([\\`*_\[\]<>|~&$])")
LEDGER = "head of the ledger at this release"
NOT_BOOKED = "not booked in a ledger: what other releases gave away about the same people is not known here"


def card(facts: Mapping[str, Any], head: str | None = None) -> str:
    """Markdown from the external edition of the facts; head: the ledger's, where the booking names none or an older.

    >>> plan = {"schema": "dosimeter.federate-plan/2", "version": "0.1.0", "plan": True, "demo": False, "clients": 100,
    ...     "per_round": 25, "rate": 0.25, "sampling": "every client independently with probability m/K",
    ...     "budget": {"epsilon": 8.0, "delta": 1e-5}, "found": "noise", "rounds": 10, "noise": 0.8444,
    ...     "updates_expected": 250, "noise_of_the_mean": 0.0338, "guarantee": {"epsilon": 7.99, "delta": 1e-5,
    ...     "rounds": 10, "unit": "client", "adjacency": "add-or-remove-one", "neighbours": "add or remove one client",
    ...     "standing": "upper bound", "how": "PLD", "trusted": "the curator"}, "over": "", "remarks": []}
    >>> print(card(plan).splitlines()[0])
    10 rounds with noise multiplier 0.8444 keep within ε = 8 at δ = 1e-05.
    """
    told = external(facts)
    lines = [_safe(told["sentence"]), "", "| | |", "|---|---|"]
    lines += [f"| {_safe(name)} | {_safe(value)} |" for name, value in _rows(told, head)]
    for heading, notes in (
        ("Not covered", told.get("not_covered", [])),
        ("Withheld", told["withheld"]),
        ("Taken for granted", told.get("assumptions", [])),
    ):
        lines += _list(heading, notes)
    lines += ["", f"Made by dosimeter {_safe(told['version'])} from public constants and the noised release alone."]
    return "\n".join(lines) + "\n"


def _rows(told: Mapping[str, Any], head: str | None) -> list[tuple[str, Any]]:
    kind = told["schema"].split("/")[0]
    rows = [(name, value) for name, value in _OF[kind](told) if value not in (None, "")]
    if told.get("artefact"):
        rows.append(("SHA-256 of the file", told["artefact"]))
    if told.get("artefact_beside"):
        rows.append(("SHA-256 of the network beside it", told["artefact_beside"]))
    booked = told.get("booked")
    if isinstance(booked, dict):
        rows += [("booked as", f"{booked['name']}, entry {booked['seq']}"), (LEDGER, head or booked["head"])]
    elif head:
        rows.append((LEDGER, head))
    elif "booked" in told:
        rows.append(("ledger", NOT_BOOKED))
    return rows


def _linear(told: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    limit = told.get("limit", told.get("verdict", {}).get("limit"))
    model = told["model"]
    noise = told.get("noise") or f"{told.get('law', '')}, scale withheld: it was chosen from the data"
    return (
        ("model", f"{model['loss']} model of {model['target']}" + (f", l2 = {model['l2']:g}" if "l2" in model else "")),
        ("penalty", model.get("l2_from")),
        ("noise", f"{noise}, on {told['noise_on']}"),
        ("limit", None if limit is None else f"η = {limit:g} per {told['unit']}, in {told['notion']['measured_in']}"),
        ("figure", f"{told['notion']['name']} ({told['notion']['symbol']}), {told['standing']}"),
        ("against", f"somebody who {told['attacker']}"),
    )


def _components(told: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    found, noise = told["guarantee"], told["noise"]
    ends = [f"{noise[key]:.4g}" for key in ("scale_low", "scale_high") if key in noise]
    scale = f", scale {' to '.join(dict.fromkeys(ends))}" if ends else ""
    claim = f"ε = {found['epsilon']:g}, δ = {found['delta']:g}" if told["private"] and found.get("holds") else "none"
    return (
        ("mechanism", f"{told['mechanism']}, {told['components']['released']} components"),
        ("noise", f"{noise['law']}{scale}, on {noise['on']}"),
        ("guarantee", f"{claim}; {found['standing']}"),
        ("neighbours", f"{found['neighbours']}, unit {found['unit']}"),
    )


def _labels(told: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    found = told["publishable"]
    asked = f"{found['queries']} queries, {found['teachers']} teachers"
    if found["standing"] == "unaccounted":
        return (("labels", asked), ("guarantee", f"none claimed; {found['standing']}"))
    return (
        ("labels", f"{asked}, {found['classes']} classes"),
        ("noise", f"{found['noise']} on each count of votes"),
        ("guarantee", f"at most {found['nats']:.4g} nats ({found['notion']}); {found['standing']}"),
        ("unit", found["unit"]),
        ("who the person is", f"at most {found['nats_who']:.4g} nats" if "nats_who" in found else None),
        ("beside it", f"ε = {found['epsilon']:.4g}, δ = {found['delta']:g}; {found['neighbours']}"),
    )


def _federation(told: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    found = told["guarantee"]
    claim = "not claimed: " if found["standing"] == "unaccounted" else ""
    return (
        ("stamp", told.get("stamp")),
        ("training", f"{told['clients']} clients, {told['per_round']:g} a round, {told['rounds']} rounds"),
        ("noise", f"multiplier {told['noise']:.4g} of the clip, on the sum of a round"),
        (
            "guarantee",
            f"{claim}ε = {found['epsilon']:.4g}, δ = {found['delta']:g}; {found['standing']}, by {found['how']}",
        ),
        ("neighbours", found["neighbours"]),
        ("trusted", found["trusted"]),
    )


_OF = {
    "dosimeter.measurement": _linear,
    "dosimeter.repair": _linear,
    "dosimeter.components": _components,
    "dosimeter.pate": _labels,
    "dosimeter.federate": _federation,
    "dosimeter.federate-plan": _federation,
}


def _list(heading: str, notes: Sequence[Any]) -> list[str]:
    return ["", f"**{heading}**", "", *(f"* {_safe(note)}" for note in notes)] if notes else []


def _safe(text: Any) -> str:
    """One line in which nothing is markup: names of columns come from a table."""
    from dosimeter.core.text import safe_text

    return _MARKS.sub(r"\\\1", safe_text(text, 1000))
