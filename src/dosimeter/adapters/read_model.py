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
from dosimeter.files.file_checks import GIBIBYTE, os_error_refusal, refuse_pickle, regular_file
from dosimeter.files.strict_json import parse

_KEYS = {"loss", "l2", "intercept", "coef"}
_SCHEMA = '{"loss": "logistic", "l2": 0.001, "intercept": null, "coef": {"column": 1.0}}'
_LARGEST_JSON = 2**24


def read_model(path: str | os.PathLike[str], *, limit: int = GIBIBYTE) -> Any:
    """The estimator in a .skops file, or the `Coefficients` in a .json file; other files are refused unopened.

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
        raise os_error_refusal(error, source, "read") from None
    return _skops(data, limit, source) if kind == ".skops" else _coefficients(data, source)


_MEANS = ("HalfPoissonLoss", "HalfGammaLoss", "HalfTweedieLoss", "HalfTweedieLossIdentity")
HARMLESS = ("numpy.dtype", *(f"sklearn._loss.loss.{name}" for name in _MEANS))
"""Trusted in addition to what skops trusts: a SimpleImputer holds an array type, stored as an empty array, and a
regressor of means its loss, of which some versions of skops know a few only."""


def _skops(data: bytes, limit: int, source: Location) -> Any:
    if not data.startswith(b"PK\x03\x04"):
        raise source.refusal("not a skops file", "write it with skops.io.dump")
    from skops.io import get_untrusted_types, loads

    try:
        _check_archive(data, limit, source)
        untrusted = [name for name in get_untrusted_types(data=data) if name not in HARMLESS]
        if untrusted and all(name.startswith("sklearn.") for name in untrusted):
            # Types of scikit-learn, such as the trees of a forest: not hostile, but not linear either.
            raise CannotMeasure(
                f"{source.label}: a model made of {safe_list(untrusted)}, and only linear models have a leakage figure"
            )
        if untrusted:
            fault = f"it holds types that are not trusted: {safe_list(untrusted)}"
            raise source.refusal(fault, "dump a model made of scikit-learn, numpy and scipy alone")
        with warnings.catch_warnings():
            # Another version of scikit-learn, or Python 2: the model is checked against the table anyway.
            warnings.simplefilter("ignore")
            return loads(data, trusted=list(HARMLESS))
    except Refusal:
        raise
    except Exception as error:  # zlib, json, numpy, recursion, memory: any error
        fault = f"cannot be read as skops ({safe_text(f'{type(error).__name__}: {error}', 100)})"
        raise source.refusal(fault, "it may be damaged; dump it again with skops >= 0.13") from None


def _check_archive(data: bytes, limit: int, source: Location) -> None:
    """Check the declared sizes, each counted as often as the schema uses it, which may be a thousand times.

    zipfile never unpacks more of a member than its entry declares, so the declaration is a bound.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        sizes = {member.filename: member.file_size for member in members}
        if len(sizes) != len(members):
            raise source.refusal("two members of the archive have one name", "dump the model again")
        needed = sum(sizes.values()) + 15 * sizes.get("schema.json", 0)  # JSON grows when it is parsed
        if needed <= limit:
            names = _member_names(json.loads(archive.read("schema.json")))
            needed = sum(sizes.get(name, 0) for name in names)
    if needed > limit:
        fault = f"it declares {needed} bytes unpacked, above the limit of {limit}"
        raise source.refusal(fault, "dump a smaller model")


def _member_names(schema: Any) -> list[str]:
    names: list[str] = []
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("file"), str):
                names.append(node["file"])
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return names


def _coefficients(data: bytes, source: Location) -> Coefficients:
    if len(data) > _LARGEST_JSON:
        raise source.refusal(f"{len(data)} bytes of coefficients", f"give at most {_LARGEST_JSON}")
    try:
        document = parse(data.decode("utf-8-sig"))
    except Refusal as error:
        raise source.refusal(str(error), "correct the file") from None
    except (ValueError, RecursionError) as error:
        place = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise source.refusal(f"not JSON in UTF-8{place}", f"write {_SCHEMA}") from None
    if not isinstance(document, dict) or set(document) != _KEYS:
        raise source.refusal(_other_keys(document), f"write {_SCHEMA}")
    if not isinstance(document["coef"], dict) or not isinstance(document["loss"], str):
        raise source.refusal("coef is not an object, or loss is not text", f"write {_SCHEMA}")
    source.check_names(document["coef"])
    coef = {name: _figure(value, f"coef of {safe_text(name)}", source) for name, value in document["coef"].items()}
    intercept = None if document["intercept"] is None else _figure(document["intercept"], "intercept", source)
    try:
        return Coefficients(document["loss"], _figure(document["l2"], "l2", source), intercept, coef)
    except Refusal as error:
        raise Refusal(f"{safe_text(source.label, 120)}: {error}") from None


def _other_keys(document: Any) -> str:
    """Which keys are missing, and which do not belong there."""
    if not isinstance(document, dict):
        return "it is not an object of coefficients"
    lacks, more = _KEYS - set(document), set(document) - _KEYS
    parts = [f"it lacks {safe_list(sorted(lacks))}"] if lacks else []
    return " and ".join([*parts, *([f"{safe_list(sorted(more))} does not belong there"] if more else [])])


def _figure(value: Any, subject: str, source: Location) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise source.refusal(f"{subject} is not a number", f"write {_SCHEMA}")
    try:
        return float(value)
    except OverflowError:
        raise source.refusal(f"{subject} is beyond float64", "give a smaller number") from None
