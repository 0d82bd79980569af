"""The verdict in one sentence: for the house in figures, for everybody about what was promised and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text

BIT = "that the limit was kept is itself read off the data (one bit): not covered"
NOTHING = "Nothing was released."
"""For everybody not why: that somebody's dose or total was too high is a fact about the data."""
REFUSED = "Nothing was released: a budget of the ledger would have been passed."
UNLISTED = "their classes were read off the private table and not listed beforehand (not covered)"
CHOSEN = "the scale was chosen from the data: not covered"


def for_everybody(facts: Mapping[str, Any]) -> str:
    """No measured figure: the noise, the guarantee, the limit."""
    if nothing_left(facts):
        return NOTHING
    return _EVERYBODY[facts["schema"].split("/")[0]](facts)


def for_the_house(facts: Mapping[str, Any]) -> str:
    """With measured figures."""
    if facts.get("refused"):
        return REFUSED
    return _HOUSE[facts["schema"].split("/")[0]](facts)


def nothing_left(facts: Mapping[str, Any]) -> bool:
    """Whether a limit, the stated one or the ledger's, or its own uselessness, kept the release in the house.

    >>> nothing_left({"within": False}), nothing_left({"refused": [{}]}), nothing_left({"within": True})
    (True, True, False)
    """
    kept = bool(facts.get("refused")) or bool(facts.get("useless")) or facts.get("within") is False
    return kept or facts.get("sentence") in (NOTHING, REFUSED)


def change(what: str, neighbours: str) -> str:
    """What tells two neighbouring tables apart, in words; a unit or a relation that is not known is refused.

    >>> change("row", "replace-one"), change("client", "add-or-remove-one")
    ('one row replaced', 'one client added or removed')
    """
    known = {"replace-one": "replaced", "add-or-remove-one": "added or removed"}
    whose = {"row": "row", "client": "client", "person": "person, with all their rows,"}
    if what not in whose:
        raise Refusal(f"unit {safe_text(what)}: known here are {', '.join(whose)}")
    if neighbours not in known:
        raise Refusal(f"neighbours {safe_text(neighbours)}: known here are {', '.join(known)}")
    return f"one {whose[what]} {known[neighbours]}"


def _number(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _measured(facts: Mapping[str, Any]) -> str:
    if not facts["bounded"]:
        return "The exact weights of this model give away an unbounded amount about the people in its training table."
    verdict = facts.get("verdict")
    noise = f"With {facts['noise']} on {facts['noise_on']}"
    if verdict and verdict["within"]:
        return f"{noise}, no {facts['unit']}'s dose is above the stated limit η = {verdict['limit']:g}; {BIT}."
    return f"{noise}: no limit on anybody's dose is claimed."


def _measured_inside(facts: Mapping[str, Any]) -> str:
    dose, unit = facts["dose"], facts["unit"]
    if not facts["bounded"]:
        over = _number(dose["highest_over_typical"])
        return (
            f"Unbounded: the exact weights are released; row {dose['highest_row']} stands {over} times as high as a "
            f"typical {unit}."
        )
    verdict, highest = facts.get("verdict"), f"the highest dose is η = {_number(dose['highest'])}"
    if not verdict:
        return f"No limit was stated: {highest}, of a typical {unit} {_number(dose['typical'])}."
    if verdict["within"]:
        return f"Within the limit η = {verdict['limit']:g}: {highest}."
    many = "people" if unit == "person" else "rows"
    return f"{verdict['above']} of {facts['people']} {many} are above the limit η = {verdict['limit']:g}: {highest}."


def _repaired(facts: Mapping[str, Any]) -> str:
    if facts["scale_from"] == "the data":
        return (
            f"{facts['law']} noise was put on {facts['noise_on']}, scaled so that no {facts['unit']}'s dose is above "
            f"the stated limit η = {facts['limit']:g}; {CHOSEN}."
        )
    noise = f"{facts['noise']} was put on {facts['noise_on']}"
    if facts["limit"] is None:
        return f"{noise}; no limit on anybody's dose is claimed."
    return f"{noise}, and no {facts['unit']}'s dose is above the stated limit η = {facts['limit']:g}; {BIT}."


def _repaired_inside(facts: Mapping[str, Any]) -> str:
    dose, score = facts["dose"], facts["score"]
    figures = (
        f"the highest dose is η = {_number(dose['highest'])}, {score['name']} {score['before']:.3f} → "
        f"{score['after']:.3f}"
    )
    if facts.get("useless"):
        return f"One answer for everybody does better, nothing was released: {figures}."
    if facts["limit"] is None:
        return f"Noised at the stated scale: {figures}."
    if facts["within"]:
        return f"Within the limit η = {facts['limit']:g}: {figures}."
    return f"Above the limit η = {facts['limit']:g}, nothing was released: {figures}."


def _projected(facts: Mapping[str, Any]) -> str:
    told = facts["guarantee"]
    pair = f"(ε, δ) = ({told['epsilon']:g}, {told['delta']:g})"
    if not facts["private"]:
        return f"Not private: bounds were read off the table, so {pair} is not claimed."
    if not told["holds"]:
        return f"Not proved: {pair} is what was stated, and this noise costs ε = {_number(told['costs'])}."
    of = change(told["unit"], told["neighbours"])
    return f"The components are {pair}-differentially private; neighbours: {of} ({told['standing']})."


def _voted(facts: Mapping[str, Any]) -> str:
    told = facts["publishable"]
    if told["standing"] == "unaccounted":
        return f"No figure is claimed for these labels: {UNLISTED}."
    return (
        f"The labels give away at most {_number(told['nats'])} nats about any one {told['unit']}: nobody's chance of a "
        f"right guess grows by more than a factor {_number(told['factor'])} ({told['standing']})."
    )


def _trained(facts: Mapping[str, Any]) -> str:
    told = facts["guarantee"]
    pair = f"(ε, δ) = ({_number(told['epsilon'])}, {told['delta']:g})"
    stamp = f"{facts['stamp']}. " if facts["simulation"] else ""
    if told["standing"] == "unaccounted":
        return f"{stamp}Not claimed: the rounds are accounted at {pair}, and more was read off the rows (not covered)."
    return (
        f"{stamp}The model is {pair}-differentially private for each client: {told['neighbours']} ({told['standing']})."
    )


def _planned(facts: Mapping[str, Any]) -> str:
    if facts["over"]:
        return f"Refused: {facts['over']}."
    return (
        f"{facts['rounds']} rounds with noise multiplier {facts['noise']:.4g} keep within ε = "
        f"{facts['budget']['epsilon']:g} at δ = {facts['budget']['delta']:g}."
    )


_EVERYBODY = {
    "dosimeter.measurement": _measured,
    "dosimeter.repair": _repaired,
    "dosimeter.components": _projected,
    "dosimeter.pate": _voted,
    "dosimeter.federate": _trained,
    "dosimeter.federate-plan": _planned,
}
_HOUSE = {**_EVERYBODY, "dosimeter.measurement": _measured_inside, "dosimeter.repair": _repaired_inside}
