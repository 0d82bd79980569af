"""From parts to findings: what each part is by name, by its neighbours, or by its shape."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.scan.contents import Contents, FileArray
from dosimeter.scan.finding import Finding, Severity
from dosimeter.scan.known_attributes import WEIGHTS, KnownAttribute, known

Siblings = Mapping[str, FileArray]
_NUMBER = re.compile(r"\[\d+\]")
_MERGED_ABOVE = 3
_COULD_BE = "its shape could be a table of people: compare it with the table (--data)"


def siblings_of(contents: Contents) -> dict[str, dict[str, FileArray]]:
    """Parts of one object by name, for every holder; the first of a name stands."""
    found: dict[str, dict[str, FileArray]] = defaultdict(dict)
    for part in contents.parts:
        found[part.holder].setdefault(part.name, part)
    return found


def recognise(contents: Contents) -> list[tuple[Finding, FileArray]]:
    """Findings with the part that each came from, in the order of the file."""
    siblings = siblings_of(contents)
    made = [(one, part) for part in contents.parts for one in _of(part, siblings[part.holder], contents.kind)]
    return [*made, *_columns(contents)]


def merged(findings: list[Finding]) -> list[Finding]:
    """Findings that differ only in a number of their place become one: the trees of a forest."""
    alike: dict[Any, list[Finding]] = defaultdict(list)
    for one in findings:
        alike[(_NUMBER.sub("[*]", one.place), one.severity, one.what, one.certainty, one.match)].append(one)
    made = []
    for (place, *_), group in alike.items():
        if len(group) <= _MERGED_ABOVE:
            made.extend(group)
        else:
            made.append(replace(group[0], place=place, count=sum(one.count for one in group), shape=()))
    return made


def table_of(part: FileArray, siblings: Siblings) -> NDArray[Any] | None:
    """The part as lines of numbers (n, d), None if it cannot be; a single line of two numbers or more is a table."""
    if not part.numeric:
        return None
    values = part.values
    if part.owner in ("SVMClassifier", "SVMRegressor") and part.name == "support_vectors":
        n = _vectors(siblings)
        return values.reshape(n, -1) if n and values.size % n == 0 else None
    if values.ndim == 1:
        return values[None, :] if values.size >= 2 else None
    return values.reshape(len(values), -1) if values.ndim >= 2 else None


def _vectors(siblings: Siblings) -> int:
    """How many support vectors an ONNX operator has: their weights, of which each class but one has its own."""
    if "vectors_per_class" in siblings:
        return int(siblings["vectors_per_class"].values.sum())
    return siblings["coefficients"].values.size if "coefficients" in siblings else 0


def _of(part: FileArray, siblings: Siblings, kind: str) -> Iterator[Finding]:
    if part.values.dtype.names is not None:
        yield from _nodes(part)
        return
    entry = _of_strategy(part, siblings) or known(part.owner, part.name, first=part.place.endswith("[0]"))
    if entry is not None:
        if part.texts or part.numeric:
            table = table_of(part, siblings)
            lines = entry.severity == "rows" and table is not None
            count = len(table) if lines and table is not None else int(np.prod(part.shape, dtype=object))
            shape = table.shape if lines and table is not None else part.shape
            yield Finding(part.place, entry.severity, entry.what, entry.why, count, part.owner, shape)
            yield from _alone(part, siblings)
    elif part.name not in WEIGHTS:
        yield from _by_shape(part, kind)


def _of_strategy(part: FileArray, siblings: Siblings) -> KnownAttribute | None:
    """What fills gaps is a mean where the imputer says so; medians and most frequent values are somebody's."""
    told = siblings["strategy"].texts if "strategy" in siblings else ()
    mean = part.owner == "SimpleImputer" and part.name == "statistics_" and told == ("mean",)
    return known("", "mean_") if mean else None


def _by_shape(part: FileArray, kind: str) -> Iterator[Finding]:
    settings = kind == "skops" and not part.name.endswith("_")  # scikit-learn's mark of what was learnt
    if part.texts and len(part.texts) >= 2 and not settings:
        why = "a list that may come from the table"
        yield Finding(part.place, "lists", "texts", why, len(part.texts), part.owner, part.shape, "possible")
    elif part.numeric and part.values.ndim == 2 and min(part.shape) >= 2:
        yield Finding(part.place, "rows", "numbers", _COULD_BE, len(part.values), part.owner, part.shape, "possible")


def _alone(part: FileArray, siblings: Siblings) -> Iterator[Finding]:
    """Means of a group of one are that person's row."""
    counted = {"cluster_centers_": "labels_", "theta_": "class_count_"}.get(part.name, "")
    if counted not in siblings or not siblings[counted].numeric or part.values.ndim != 2:
        return
    values = siblings[counted].values.ravel()
    counts = values if counted == "class_count_" else np.unique(values, return_counts=True)[1]
    alone = int((counts == 1).sum())
    if alone:
        why = "the mean of one person is that person's row"
        yield Finding(part.place, "rows", "means of groups of one", why, alone, part.owner, (alone, part.shape[1]))


def _nodes(part: FileArray) -> Iterator[Finding]:
    """Trees: leaves of one person, and thresholds midway between two people's values."""
    names = part.values.dtype.names or ()
    size = next((name for name in ("n_node_samples", "count") if name in names), "")
    if "left_child" in names and size:
        leaf = part.values["left_child"] == -1
    elif "is_leaf" in names and size:
        leaf = part.values["is_leaf"].astype(bool)
    else:
        return
    alone = int((part.values[size][leaf] == 1).sum())
    severity: Severity = "values of single people"
    if alone:
        why = "the path to the leaf describes one person, and the leaf's value is their target"
        yield Finding(part.place, severity, "leaves of one person", why, alone, part.owner, part.shape)
    if (~leaf).any():
        why = "each lies midway between two people's values of a column"
        yield Finding(part.place, severity, "thresholds", why, int((~leaf).sum()), part.owner, part.shape)


def _columns(contents: Contents) -> Iterator[tuple[Finding, FileArray]]:
    """Arrays of one length side by side, in files that do not say what they are: the columns of a table?"""
    if contents.kind not in ("npz", "safetensors"):
        return
    alike: dict[tuple[str, int], list[FileArray]] = defaultdict(list)
    for part in contents.parts:
        if part.numeric and part.values.ndim == 1 and part.values.size >= 2 and part.name not in WEIGHTS:
            alike[(part.holder, part.values.size)].append(part)
    for (holder, n), parts in alike.items():
        if 2 <= len(parts) <= 10_000:
            place = f"{holder or contents.kind}: {len(parts)} arrays of length {n}"
            values = np.column_stack([part.values.astype(np.result_type(part.values, np.float32)) for part in parts])
            whole = FileArray(place, holder, "", "columns", values)
            yield Finding(place, "rows", "numbers", _COULD_BE, n, "", whole.shape, "possible"), whole
