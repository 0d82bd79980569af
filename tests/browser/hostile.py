"""Results in which every text that could be untrusted is a payload."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import cycle
from typing import Any

from dosimeter.results.result import Result, read
from tests.reports.samples import SAMPLES

from .payloads import PAYLOADS

OURS = {"schema", "here_on", "end", "scale_from", "kind", "unit", "version"}
"""Fields that hold one of a few texts of ours; the schema refuses others, or they choose what is shown."""


def hostile(name: str) -> Result:
    """A verb's result: the lists that name columns, groups, people and notes have one entry for each payload."""
    return read(_stretched(_everywhere(name, cycle(PAYLOADS).__next__), name, PAYLOADS))


def harmless_twin(name: str) -> Result:
    """The same with dull texts in every place, for counting elements."""
    texts = tuple(f"word {k}" for k in range(len(PAYLOADS)))
    return read(_stretched(_everywhere(name, cycle(texts).__next__), name, texts))


def _everywhere(name: str, following: Callable[[], str]) -> dict[str, Any]:
    def fill(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {k: fill(inner, k) for k, inner in value.items()}
        if isinstance(value, list):
            return [fill(inner, key) for inner in value]
        kept = key in OURS or value in ("unbounded", "unknown", "replace-one", "add-or-remove-one", "")
        return following() if isinstance(value, str) and not kept else value

    filled: dict[str, Any] = fill(deepcopy(SAMPLES[name]), "")
    return filled


def _stretched(values: dict[str, Any], name: str, texts: tuple[str, ...]) -> dict[str, Any]:
    values["remarks"] = list(texts)
    if name == "measurement":
        number, category = values["columns"]
        values["columns"] = [{**(number, category)[k % 2], "column": text} for k, text in enumerate(texts)]
        values["groups"] = [{**values["groups"][0], "column": text, "group": text} for text in texts]
        values["ranked"] = [{**values["ranked"][0], "rank": k, "id": text} for k, text in enumerate(texts)]
        values["strip"] = {
            "rows": list(range(50)), "ids": list(texts[:50]), "columns": list(texts), "kinds": ["number"] * len(texts),
            "eta": [[1.0 + i + j for j in range(len(texts))] for i in range(50)],
        }  # fmt: skip
    return values
