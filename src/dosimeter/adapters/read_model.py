"""A fitted model from a file: skops with its default trust, or coefficients as JSON. Never a pickle."""

from __future__ import annotations

import io
import json
import os
import warnings
import zipfile
from typing import Any

from dosimeter.adapters.coefficients import Coefficients
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text
from dosimeter.files.file_checks import GIBIBYTE, cannot, refuse_pickle, regular_file
from dosimeter.files.strict_json import parse

_KEYS = {"loss", "l2", "intercept", "coef"}
_SCHEMA = '{"loss": "logistic", "l2": 0.001, "intercept": null, "coef": {"column": 1.0}}'
_LARGEST_JSON = 2**24


def read_model(path: str | os.PathLike[str], *, limit: int = GIBIBYTE) -> Any:
    """The estimator in a .skops file, or the `Coefficients` in a .json file; all else is refused unopened.

    limit: bytes of the file, and of what a .skops file declares to hold.
    """
    file, source = regular_file(path, limit)
    refuse_pickle(file, source, model=True)
    kind = file.suffix.lower()
    if kind not in (".skops", ".json"):
        named = f"the ending {safe_text(kind, 20)}" if kind else "a name without ending"
        todo = "give a .skops file (skops.io.dump) or coefficients as .json"
        raise source.refusal(f"{named} is not a model file", todo)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise cannot(error, source, "read") from None
    return _skops(data, limit, source) if kind == ".skops" else _coefficients(data, source)


HARMLESS = ("numpy.dtype",)
"""Beside what skops trusts: a kind of array, kept as an empty array of it, which a SimpleImputer holds."""


def _skops(data: bytes, limit: int, source: Location) -> Any:
    if not data.startswith(b"PK\x03\x04"):
        raise source.refusal("not a skops file", "write it with skops.io.dump")
    from skops.io import get_untrusted_types, loads

    try:
        _check_archive(data, limit, source)
        untrusted = [name for name in get_untrusted_types(data=data) if name not in HARMLESS]
        if untrusted and all(name.startswith("sklearn.") for name in untrusted):
            # scikit-learn's own, such as the trees of a forest: nothing hostile, but nothing linear either.
            raise CannotMeasure(
                f"{source.label}: a model made of {safe_list(untrusted)}, and only linear models have a leakage figure"
            )
        if untrusted:
            what = f"it holds types that are not trusted: {safe_list(untrusted)}"
            raise source.refusal(what, "dump a model made of scikit-learn, numpy and scipy alone")
        with warnings.catch_warnings():
            # Of another version of scikit-learn, of Python 2: what is measured is held against the table all the same.
            warnings.simplefilter("ignore")
            return loads(data, trusted=list(HARMLESS))
    except Refusal:
        raise
    except Exception as error:  # of zlib, json, numpy, the recursion, the memory: anything
        what = f"cannot be read as skops ({safe_text(f'{type(error).__name__}: {error}', 100)})"
        raise source.refusal(what, "it may be damaged; dump it again with skops >= 0.13") from None


def _check_archive(data: bytes, limit: int, source: Location) -> None:
    """Declared sizes, each counted as often as the schema asks for it: a thousand times is possible.

    zipfile never unpacks more of a member than its entry declares, so the declaration is a bound.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        sizes = {member.filename: member.file_size for member in members}
        if len(sizes) != len(members):
            raise source.refusal("two members of the archive have one name", "dump the model again")
        needed = sum(sizes.values()) + 15 * sizes.get("schema.json", 0)  # JSON grows when it is parsed
        if needed <= limit:
            asked = _files_asked_for(json.loads(archive.read("schema.json")))
            needed = sum(sizes.get(name, 0) for name in asked)
    if needed > limit:
        what = f"it declares {needed} bytes unpacked, above the limit of {limit}"
        raise source.refusal(what, "dump a smaller model")


def _files_asked_for(schema: Any) -> list[str]:
    asked: list[str] = []
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("file"), str):
                asked.append(node["file"])
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return asked


def _coefficients(data: bytes, source: Location) -> Coefficients:
    if len(data) > _LARGEST_JSON:
        raise source.refusal(f"{len(data)} bytes of coefficients", f"give at most {_LARGEST_JSON}")
    try:
        found = parse(data.decode("utf-8-sig"))
    except Refusal as error:
        raise source.refusal(str(error), "correct the file") from None
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise source.refusal(f"not JSON in UTF-8{place}", f"write {_SCHEMA}") from None
    if not isinstance(found, dict) or set(found) != _KEYS:
        raise source.refusal(_other_keys(found), f"write {_SCHEMA}")
    if not isinstance(found["coef"], dict) or not isinstance(found["loss"], str):
        raise source.refusal("coef is not an object, or loss is not text", f"write {_SCHEMA}")
    source.check_names(found["coef"])
    coef = {name: _figure(value, f"coef of {safe_text(name)}", source) for name, value in found["coef"].items()}
    intercept = None if found["intercept"] is None else _figure(found["intercept"], "intercept", source)
    try:
        return Coefficients(found["loss"], _figure(found["l2"], "l2", source), intercept, coef)
    except Refusal as error:
        raise Refusal(f"{safe_text(source.label, 120)}: {error}") from None


def _other_keys(found: Any) -> str:
    """What is missing among the keys, and what does not belong there."""
    if not isinstance(found, dict):
        return "it is not an object of coefficients"
    lacks, more = _KEYS - set(found), set(found) - _KEYS
    parts = [f"it lacks {safe_list(sorted(lacks))}"] if lacks else []
    return " and ".join([*parts, *([f"{safe_list(sorted(more))} does not belong there"] if more else [])])


def _figure(value: Any, what: str, source: Location) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise source.refusal(f"{what} is not a number", f"write {_SCHEMA}")
    try:
        return float(value)
    except OverflowError:
        raise source.refusal(f"{what} is beyond float64", "give a smaller number") from None
