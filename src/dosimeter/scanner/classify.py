"""From arrays to findings: what each array is, by its name, by its neighbours, or by its shape."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.finding import Finding, Severity
from dosimeter.scanner.known_attributes import WEIGHTS, KnownAttribute, known_attribute

Siblings = Mapping[str, FileArray]
_NUMBER = re.compile(r"\[\d+\]")
_MERGED_ABOVE = 3
_LEAF = "the path to the leaf describes one person, and the leaf's value is their target"
_COULD_BE = "its shape could be a table of people: compare it with the training table"


def siblings_of(contents: Contents) -> dict[str, dict[str, FileArray]]:
    """The arrays of each object by name, for every holder; the first of a name counts."""
    siblings: dict[str, dict[str, FileArray]] = defaultdict(dict)
    for part in contents.parts:
        siblings[part.holder].setdefault(part.name, part)
    return siblings


def classify(contents: Contents) -> list[tuple[Finding, FileArray]]:
    """Findings with the array that each came from, in the order of the file."""
    siblings = siblings_of(contents)
    findings = [
        (finding, part)
        for part in contents.parts
        for finding in _classify_part(part, siblings[part.holder], contents.kind)
    ]
    return [*findings, *_arrays_as_columns(contents)]


def merge_similar(findings: list[Finding]) -> list[Finding]:
    """Merge findings that differ only in a number of their place, such as the trees of a forest."""
    alike: dict[Any, list[Finding]] = defaultdict(list)
    for finding in findings:
        alike[
            (_NUMBER.sub("[*]", finding.place), finding.severity, finding.content, finding.certainty, finding.match)
        ].append(finding)
    result = []
    for (place, *_), group in alike.items():
        if len(group) <= _MERGED_ABOVE:
            result.extend(group)
        else:
            result.append(replace(group[0], place=place, count=sum(finding.count for finding in group), shape=()))
    return result


def table_of(part: FileArray, siblings: Siblings) -> NDArray[Any] | None:
    """The array as rows of numbers (n, d), or None; a single row of two or more numbers is a table."""
    if not part.numeric:
        return None
    values = part.values
    if part.owner in ("SVMClassifier", "SVMRegressor") and part.name == "support_vectors":
        n = _vector_count(siblings)
        return values.reshape(n, -1) if n and values.size % n == 0 else None
    if values.ndim == 1:
        return values[None, :] if values.size >= 2 else None
    return values.reshape(len(values), -1) if values.ndim >= 2 else None


def _vector_count(siblings: Siblings) -> int:
    """Number of support vectors of an ONNX operator, from their weights; each class but one has its own weights."""
    if "vectors_per_class" in siblings:
        return int(siblings["vectors_per_class"].values.sum())
    return siblings["coefficients"].values.size if "coefficients" in siblings else 0


def _classify_part(part: FileArray, siblings: Siblings, kind: str) -> Iterator[Finding]:
    if part.values.dtype.names is not None:
        yield from _tree_nodes(part)
        return
    entry = _classify_imputer(part, siblings) or known_attribute(
        part.owner, part.name, first=part.place.endswith("[0]")
    )
    if entry is not None:
        setting = entry.severity == "rows" and part.numeric and part.values.size < 2  # x=FALSE in a call of R
        if (part.texts or part.numeric) and not setting:
            table = table_of(part, siblings)
            lines = entry.severity == "rows" and table is not None
            count = len(table) if lines and table is not None else int(np.prod(part.shape, dtype=object))
            shape = table.shape if lines and table is not None else part.shape
            yield Finding(part.place, entry.severity, entry.content, entry.why, count, part.owner, shape)
            yield from _groups_of_one(part, siblings)
    elif part.owner == "LightGBM":
        yield from _leaf_counts(part)
    elif part.name not in WEIGHTS:
        yield from _by_shape(part, kind)


def _classify_imputer(part: FileArray, siblings: Siblings) -> KnownAttribute | None:
    """An imputer that says so fills gaps with means; medians and most frequent values are single people's."""
    strategy = siblings["strategy"].texts if "strategy" in siblings else ()
    mean = part.owner == "SimpleImputer" and part.name == "statistics_" and strategy == ("mean",)
    return known_attribute("", "mean_") if mean else None


def _by_shape(part: FileArray, kind: str) -> Iterator[Finding]:
    settings = kind == "skops" and not part.name.endswith("_")  # in scikit-learn, "_" marks learnt attributes
    if part.texts and len(part.texts) >= 2 and not settings:
        why = "a list that may come from the table"
        yield Finding(part.place, "lists", "texts", why, len(part.texts), part.owner, part.shape, "possible")
    elif part.numeric and part.values.ndim == 2 and min(part.shape) >= 2:
        yield Finding(part.place, "rows", "numbers", _COULD_BE, len(part.values), part.owner, part.shape, "possible")


def _groups_of_one(part: FileArray, siblings: Siblings) -> Iterator[Finding]:
    """The mean of a group of one is that person's row."""
    counts_name = {"cluster_centers_": "labels_", "theta_": "class_count_"}.get(part.name, "")
    if not counts_name or counts_name not in siblings or not siblings[counts_name].numeric or part.values.ndim != 2:
        return
    values = siblings[counts_name].values.ravel()
    counts = values if counts_name == "class_count_" else np.unique(values, return_counts=True)[1]
    singles = int((counts == 1).sum())
    if singles:
        why = "the mean of one person is that person's row"
        yield Finding(part.place, "rows", "means of groups of one", why, singles, part.owner, (singles, part.shape[1]))


def _leaf_counts(part: FileArray) -> Iterator[Finding]:
    """Leaves that hold one person, in a model written as text."""
    singles = int((part.values == 1).sum()) if part.name == "leaf_count" else 0
    if singles:
        yield Finding(
            part.place, "values of single people", "leaves of one person", _LEAF, singles, part.owner, part.shape
        )


def _tree_nodes(part: FileArray) -> Iterator[Finding]:
    """Trees: leaves of one person, and thresholds halfway between two people's values."""
    names = part.values.dtype.names or ()
    size = next((name for name in ("n_node_samples", "count") if name in names), "")
    if "left_child" in names and size:
        leaf = part.values["left_child"] == -1
    elif "is_leaf" in names and size:
        leaf = part.values["is_leaf"].astype(bool)
    else:
        return
    singles = int((part.values[size][leaf] == 1).sum())
    severity: Severity = "values of single people"
    if singles:
        yield Finding(part.place, severity, "leaves of one person", _LEAF, singles, part.owner, part.shape)
    if (~leaf).any():
        why = "each lies halfway between two people's values of a column"
        yield Finding(part.place, severity, "thresholds", why, int((~leaf).sum()), part.owner, part.shape)


def _arrays_as_columns(contents: Contents) -> Iterator[tuple[Finding, FileArray]]:
    """Arrays of equal length in files that do not say what they are: they could be the columns of a table."""
    if contents.kind not in ("npz", "safetensors"):
        return
    alike: dict[tuple[str, int], list[FileArray]] = defaultdict(list)
    for part in contents.parts:
        is_column = part.values.ndim == 1 or (part.values.ndim == 2 and 1 in part.shape)
        if part.numeric and is_column and part.values.size >= 2 and part.name not in WEIGHTS:
            alike[(part.holder, part.values.size)].append(part)
    for (holder, n), parts in alike.items():
        if 2 <= len(parts) <= 10_000:
            place = f"{holder or contents.kind}: {len(parts)} arrays of length {n}"
            values = np.column_stack(
                [part.values.ravel().astype(np.result_type(part.values, np.float32)) for part in parts]
            )
            whole = FileArray(place, holder, "", "columns", values)
            yield Finding(place, "rows", "numbers", _COULD_BE, n, "", whole.shape, "possible"), whole
