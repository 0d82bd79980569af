"""The same model without the rows in it, where that is possible; otherwise a refusal.

A .skops file loses the attributes that hold rows or single people's values, as long as its predictions stay the same
to the last bit. An .npz file loses such arrays. A folder of MLflow loses its examples of the input. What predicts with
its rows (a support vector machine, nearest neighbours) cannot be redacted.
"""

from __future__ import annotations

import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.adapters.read_model import HARMLESS
from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list
from dosimeter.files.archive import Archive
from dosimeter.scanner.contents import Contents
from dosimeter.scanner.finding import Finding
from dosimeter.scanner.members import Member
from dosimeter.scanner.skops import read_skops

KINDS = (".skops", ".npz")
EXAMPLES = ("input_example.json", "serving_input_example.json")
_PROBES = 64
_GAPS = 0.3
_SILENT = ("GaussianProcessRegressor",)
"""Without their rows they are no error but an unfitted model, which answers from its prior."""
_MOST_TABLES = 4
_METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples", "apply", "kneighbors")
_EXAMPLE_INFO = re.compile(r"^saved_input_example_info:\n(?:[ \t]+.*\n?)*", re.MULTILINE)
_Entry = tuple[dict[str, Any], str]


@dataclass(frozen=True)
class Redaction:
    """The bytes of a file without what was removed from it, by place."""

    data: bytes
    removed: tuple[str, ...]


def personal_places(findings: tuple[Finding, ...]) -> list[str]:
    """Places that hold rows or values of single people."""
    return [
        finding.place
        for finding in findings
        if finding.severity in ("rows", "values of single people") and finding.certainty != "possible"
    ]


def redact_npz(data: bytes, findings: tuple[Finding, ...], limit: int, source: Location) -> Redaction:
    """The archive without the arrays that hold people."""
    archive = Archive(data, limit, source)
    places = set(personal_places(findings))
    removed = [name for name in archive.names if name.removesuffix(".npy") in places]
    if not removed:
        raise source.refusal("nothing in it can be removed by name", "write it again without the rows")
    if len(removed) == len(archive.names):
        raise source.refusal("nothing would be left", "there is no model in it")
    kept = {name: archive.read(name) for name in archive.names if name not in removed}
    return Redaction(_zip(kept), tuple(name.removesuffix(".npy") for name in removed))


def redact_skops(data: bytes, findings: tuple[Finding, ...], limit: int, source: Location) -> Redaction:
    """The model without the attributes that hold people, if it then predicts the same."""
    archive = Archive(data, limit, source)
    schema = json.loads(archive.read("schema.json"))
    places = personal_places(findings)
    model = _load(data, source)
    probes = _probes(model, read_skops(archive, source), source)
    answers = _answers(model, probes)
    removed: list[str] = []
    current = data
    silent = {finding.place for finding in findings if finding.owner in _SILENT}
    for place in dict.fromkeys(places):
        if place in silent:
            continue
        entry = next((entry for at, entry in _attributes(schema) if at == place), None)
        if entry is None:
            continue
        holder, name = entry
        undo = json.dumps(holder)
        _remove(holder, name)
        candidate = _packed(schema, archive)
        try:
            same = _equal(answers, _answers(_load(candidate, source), probes))
        except Exception:  # without the attribute the model fails in one way or another: it needs it
            same = False
        if same:
            removed.append(place)
            current = candidate
        else:
            holder.clear()
            holder.update(json.loads(undo))
    if not removed:
        raise source.refusal(f"it predicts with what is in {safe_list(places)}", "release a model without rows instead")
    return Redaction(current, tuple(removed))


def redact_members(members: list[Member], source: Location) -> tuple[list[Member], tuple[str, ...]]:
    """The files of an MLflow model without its examples of the input."""
    removed = [member.name for member in members if Path(member.name).name in EXAMPLES]
    if not removed:
        raise source.refusal("there is no example of the input in it", "redact its files one by one")
    kept = []
    for member in members:
        if member.name in removed:
            continue
        described = Path(member.name).name == "MLmodel"
        text = _EXAMPLE_INFO.sub("", member.data.decode("utf-8", "replace")).encode() if described else member.data
        kept.append(Member(member.name, text))
    return kept, tuple(removed)


def _attributes(schema: dict[str, Any]) -> Iterator[tuple[str, _Entry]]:
    """(place, (the dict of attributes, name)) of every attribute of every object, in the places that `scan` names."""
    stack: list[tuple[Any, str]] = [(schema, "")]
    while stack:
        node, place = stack.pop()
        if not isinstance(node, dict):
            continue
        content = node.get("content")
        if isinstance(content, dict) and "__loader__" in content:
            inner = content.get("content")
            if isinstance(inner, dict):
                for name, child in inner.items():
                    below = f"{place}.{name}".removeprefix(".")
                    yield below, (content, name)
                    stack.append((child, below))
        elif isinstance(content, dict):
            stack.extend((child, f"{place}.{name}".removeprefix(".")) for name, child in content.items())
        elif isinstance(content, list):
            named = node.get("__loader__") == "TupleNode" and len(content) in (2, 3)
            stack.extend((child, place if named and k == 1 else f"{place}[{k}]") for k, child in enumerate(content))


def _remove(attributes: dict[str, Any], name: str) -> None:
    """Remove an attribute and the entry of its key's type."""
    position = list(attributes["content"]).index(name)
    del attributes["content"][name]
    kinds = attributes.get("key_types", {}).get("content")
    if isinstance(kinds, list) and position < len(kinds):
        del kinds[position]


def _packed(schema: dict[str, Any], archive: Archive) -> bytes:
    """A .skops file of the schema, with the members that it still names."""
    text = json.dumps(schema)
    named = {name for name in archive.names if f'"{name}"' in text}
    return _zip({**{name: archive.read(name) for name in archive.names if name in named}, "schema.json": text.encode()})


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _load(data: bytes, source: Location) -> Any:
    """The model, if it is made of scikit-learn, numpy and scipy alone."""
    from skops.io import get_untrusted_types, loads

    untrusted = [name for name in get_untrusted_types(data=data) if name not in HARMLESS]
    foreign = [name for name in untrusted if not name.startswith("sklearn.")]
    if foreign:
        raise source.refusal(f"it holds types that are not trusted: {safe_list(foreign)}", "redact it by hand")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return loads(data, trusted=[*untrusted, *HARMLESS])


def _probes(model: Any, contents: Contents, source: Location) -> list[NDArray[np.float64]]:
    """Inputs (64, d) of many sizes; of small whole numbers; with gaps; and near what the file itself holds.

    What fills gaps is not asked without them: KNNImputer looks into its rows only then. Far from its rows a Gaussian
    process answers as if it had none.
    """
    width = getattr(model, "n_features_in_", None)
    if not isinstance(width, int) or not 1 <= width <= 100_000:
        raise source.refusal("it does not say how many columns it takes", "redact it by hand")
    rng = np.random.Generator(np.random.Philox(key=width))
    numbers = rng.normal(size=(_PROBES, width)) * 10.0 ** rng.uniform(-2, 3, size=(_PROBES, 1))
    gaps = np.where(rng.random(numbers.shape) < _GAPS, np.nan, numbers)
    gaps[np.arange(_PROBES), rng.integers(0, width, _PROBES)] = np.nan
    return [numbers, rng.integers(0, 3, size=(_PROBES, width)).astype(np.float64), gaps, *_nearby(contents, width, rng)]


def _nearby(contents: Contents, width: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """Rows of arrays of d columns, and rows between the limits or around the centres of a step of d columns."""
    by_holder: dict[str, dict[str, NDArray[np.float64]]] = {}
    tables = 0
    for part in contents.parts:
        values = part.values.astype(np.float64) if part.numeric and part.values.ndim in (1, 2) else np.empty(0)
        if not np.isfinite(values).all() or not values.size or values.shape[-1] != width:
            continue
        if values.ndim == 2 and tables < _MOST_TABLES:
            tables += 1
            yield values[np.linspace(0, len(values) - 1, _PROBES).astype(np.intp)]
        elif values.ndim == 1:
            by_holder.setdefault(part.holder, {})[part.name] = values
    for vectors in list(by_holder.values())[:_MOST_TABLES]:
        for centre, spread in (("mean_", "scale_"), ("center_", "scale_")):
            if centre in vectors:
                yield vectors[centre] + vectors.get(spread, np.ones(width)) * rng.normal(size=(_PROBES, width))
        if {"data_min_", "data_max_"} <= vectors.keys():
            low, high = vectors["data_min_"], vectors["data_max_"]
            yield low + (high - low) * rng.random((_PROBES, width))


def _answers(model: Any, probes: list[NDArray[np.float64]]) -> dict[str, Any]:
    """What each method of the model answers to each list, and to its own transforms the way back; or which error."""
    answers: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, probe in enumerate(probes):
            for name in _METHODS:
                answers |= _answer(f"{name} {k}", model, name, probe)
            answers |= _answer(f"deviation {k}", model, "predict", probe, return_std=True)
            back = answers.get(f"transform {k}")
            if isinstance(back, np.ndarray):
                answers |= _answer(f"inverse_transform {k}", model, "inverse_transform", back)
    if all(isinstance(answer, str) for answer in answers.values()):
        raise Refusal("a model without predictions cannot be compared with itself")
    return answers


def _answer(key: str, model: Any, method: str, inputs: NDArray[Any], **options: Any) -> dict[str, Any]:
    if not hasattr(model, method):
        return {}
    try:
        answer = getattr(model, method)(inputs, **options)
    except Exception as error:  # levels that it does not know, gaps that it does not take
        return {key: type(error).__name__}
    pieces = answer if isinstance(answer, tuple) else (answer,)
    dense = [piece.toarray() if hasattr(piece, "toarray") else np.asarray(piece) for piece in pieces]
    return {key if k == 0 else f"{key} ({k})": piece for k, piece in enumerate(dense)}


def _equal(first: dict[str, Any], second: dict[str, Any]) -> bool:
    return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return isinstance(first, str) and isinstance(second, str) and first == second
    return np.array_equal(first, second, equal_nan=first.dtype.kind == "f")
