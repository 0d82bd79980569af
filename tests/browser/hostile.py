"""Facts in which every text that could be a stranger's is a payload."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import cycle
from typing import Any

from tests.report.samples import SAMPLES

from .payloads import PAYLOADS

OURS = {"schema", "here_on", "end", "scale_from", "kind", "unit", "version"}
"""Fields that hold one of a few words of ours; the schema refuses others, or they choose what is shown."""


def hostile(name: str) -> dict[str, Any]:
    """A slice's facts: the lists that name columns, groups, people and notes have one entry for each payload."""
    return _stretched(_everywhere(name, cycle(PAYLOADS).__next__), name, PAYLOADS)


def harmless_twin(name: str) -> dict[str, Any]:
    """The same with dull words in every place, for counting elements."""
    words = tuple(f"word {k}" for k in range(len(PAYLOADS)))
    return _stretched(_everywhere(name, cycle(words).__next__), name, words)


def _everywhere(name: str, following: Callable[[], str]) -> dict[str, Any]:
    def fill(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {k: fill(one, k) for k, one in value.items()}
        if isinstance(value, list):
            return [fill(one, key) for one in value]
        kept = key in OURS or value in ("unbounded", "unknown", "replace-one", "add-or-remove-one", "")
        return following() if isinstance(value, str) and not kept else value

    filled: dict[str, Any] = fill(deepcopy(SAMPLES[name]), "")
    return filled


def _stretched(facts: dict[str, Any], name: str, words: tuple[str, ...]) -> dict[str, Any]:
    facts["remarks"] = list(words)
    if name == "measurement":
        number, category = facts["columns"]
        facts["columns"] = [{**(number, category)[k % 2], "column": word} for k, word in enumerate(words)]
        facts["groups"] = [{**facts["groups"][0], "column": word, "group": word} for word in words]
        facts["ranked"] = [{**facts["ranked"][0], "rank": k, "id": word} for k, word in enumerate(words)]
        facts["strip"] = {
            "rows": list(range(50)), "ids": list(words[:50]), "columns": list(words), "kinds": ["number"] * len(words),
            "eta": [[1.0 + i + j for j in range(len(words))] for i in range(50)],
        }  # fmt: skip
    return facts
