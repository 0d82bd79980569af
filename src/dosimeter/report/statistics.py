"""Statistics of doses that somebody asked to publish: over ten people or more, two digits, and a sentence with them.

Ten or more on both sides: a group is left out where it, or everybody outside the groups that are shown, are fewer, for
those can be had by subtraction; a quantile where fewer lie above it. The ends of a histogram are open, for an edge
beside the highest dose is nearly that person's figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dosimeter.results.groups import SMALLEST

WARNING = (
    "These statistics of doses are computed from the data without protection: no figure in this report covers them. "
    f"Groups of fewer than {SMALLEST} are left out or merged, and numbers have two digits."
)
FEW = f"fewer than {SMALLEST}"
MANY = {"row": "rows", "person": "people", "teacher": "teachers"}
ALIKE = "every client has the same (ε, δ): there are no statistics of doses"


def statistics(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What may be added on request, under the sentence that says what it is."""
    found = _OF[facts["schema"].split("/")[0]](facts)
    return {"says": WARNING, **{name: value for name, value in found.items() if value not in (None, [], "")}}


def rounded(value: Any) -> Any:
    """Two significant digits.

    >>> rounded(0.08696), rounded(442), rounded("unbounded")
    (0.087, 440, 'unbounded')
    """
    if isinstance(value, str):
        return value
    short = float(f"{value:.1e}")
    return int(short) if isinstance(value, int) else short


def counted(some: int, whole: int) -> Any:
    """How many of the whole, rounded; where they or the others are fewer than SMALLEST, that alone is said.

    >>> counted(61, 442), counted(3, 442), counted(440, 442), counted(0, 442)
    (61, 'fewer than 10', 'all but fewer than 10', 0)
    """
    if 0 < some < SMALLEST:
        return FEW
    return f"all but {FEW}" if 0 < whole - some < SMALLEST else rounded(some)


def _measurement(facts: Mapping[str, Any]) -> dict[str, Any]:
    people = facts["people"]
    if people < 2 * SMALLEST:
        return {"people": FEW if people < SMALLEST else rounded(people)}
    verdict = facts.get("verdict")
    return {
        "people": rounded(people),
        "typical": rounded(facts["dose"]["typical"]),
        "worst_1_percent": rounded(facts["dose"]["worst_1_percent"]) if people >= 100 * SMALLEST else None,
        "limit": verdict["limit"] if verdict else None,
        "above_the_limit": counted(verdict["above"], people) if verdict else None,
        "score": _score(facts["model"].get("score_name"), facts["model"].get("score")),
        "histogram": histogram(facts["distribution"]),
        "groups": groups(facts["groups"], people),
    }


def _repair(facts: Mapping[str, Any]) -> dict[str, Any]:
    score, people = facts["score"], facts["people"]
    told = {"noise": facts["noise"] if facts["scale_from"] == "the data" else None}
    if people < 2 * SMALLEST:
        return told
    return {
        **told,
        "people": rounded(people),
        "typical": rounded(facts["dose"]["typical"]),
        "score_before": _score(score["name"], score["before"]),
        "score_after": _score(score["name"], score["after"]),
        "histogram": histogram(facts["distribution"]),
        "groups": groups(facts.get("groups", []), people),
    }


def _components(facts: Mapping[str, Any]) -> dict[str, Any]:
    inside, attack = facts["internal"], facts.get("attack")
    people = _size(inside.get("distribution"))
    if people < 2 * SMALLEST:
        return {}
    return {
        "people": rounded(people),
        "typical": _typical(inside.get("dose")),
        "typical_membership": _typical(inside.get("membership")),
        "captured_variance": rounded(inside["captured"]["q"]),
        "auc_before_noise": rounded(attack["before"]["figure"]) if attack else None,
        "auc_after_noise": rounded(attack["after"]["figure"]) if attack else None,
        "histogram": histogram(inside["distribution"]),
    }


def _labels(facts: Mapping[str, Any]) -> dict[str, Any]:
    inside = facts["internal"]
    if _size(inside.get("distribution")) < 2 * SMALLEST:
        return {}
    return {
        "typical_nats": rounded(inside["typical_nats"]),
        "histogram": histogram(inside["distribution"]),
    }


def _clients(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"none": ALIKE}


_OF: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "dosimeter.measurement": _measurement,
    "dosimeter.repair": _repair,
    "dosimeter.components": _components,
    "dosimeter.pate": _labels,
    "dosimeter.federate": _clients,
    "dosimeter.federate-plan": _clients,
}


def _score(name: str | None, value: float | None) -> str | None:
    return None if value is None else f"{name} {rounded(value):g}"


def _typical(reading: Mapping[str, Any] | None) -> Any:
    found = (reading or {}).get("typical")
    return None if found is None else rounded(found)


def _size(found: Mapping[str, Any] | None) -> int:
    return 0 if not found else sum(found["counts"]) + found["zero"]


def histogram(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bins of SMALLEST or more: neighbours are merged from below, and the first and the last are open.

    >>> spread = {"unit": "person", "edges": [1.0, 2.0, 4.0, 8.0], "counts": [12, 3, 9], "zero": 0}
    >>> histogram(spread)
    [{'doses': 'below 2', 'people': 12}, {'doses': 'from 2', 'people': 12}]
    """
    edges, bins, held = list(found["edges"]), [], found["zero"]
    start: float | None = None
    for end, count in zip(edges[1:], found["counts"], strict=True):
        held += count
        if held >= SMALLEST:
            bins.append([start, end, held])
            start, held = end, 0
    if held and bins:
        bins[-1][2] += held
    if not bins:
        return []
    bins[-1][1] = None
    many = MANY[found["unit"]]
    return [{"doses": _between(low, high), many: rounded(people)} for low, high, people in bins]


def _between(low: float | None, high: float | None) -> str:
    ends = [f"from {rounded(low):g}"] if low is not None else []
    ends += [f"{'to' if ends else 'below'} {rounded(high):g}"] if high is not None else []
    return " ".join(ends) or "any"


def groups(found: Sequence[Mapping[str, Any]], people: int) -> list[dict[str, Any]]:
    """Groups of SMALLEST or more, of each column so many that the people outside them are none, or as many."""
    out = []
    for column in dict.fromkeys(g["column"] for g in found):
        mine = sorted((g for g in found if g["column"] == column), key=lambda g: -int(g["people"]))
        mine = [g for g in mine if g["people"] >= SMALLEST]
        while mine and 0 != people - sum(g["people"] for g in mine) < SMALLEST:
            mine.pop()
        out += [_group(g) for g in mine]
    return out


def _group(found: Mapping[str, Any]) -> dict[str, Any]:
    told = {
        "column": found["column"],
        "group": found["end"] or found["group"],
        "people": rounded(found["people"]),
        "median": rounded(found["median"]),
    }
    enough = found["people"] >= 100 * SMALLEST
    return {**told, "worst_1_percent": rounded(found["worst_1_percent"])} if enough else told
