"""The policy of `check`, in TOML: what may leave, by which limits, and against which table it is checked.

max-dose = 1.0                   # highest η of a person from one file; without it no dose fails
least-residual-df = 10           # ACRO's rule for regressions
least-count = 10                 # smallest count of people that a file may reveal
exact = "review"                 # coefficients without noise: fail, review or allow
unread = "review"                # files that could not be looked into: fail, review or allow
booked = "allow"                 # models that are not in the ledger: fail, review or allow

[data]                           # the training table, if it is at hand
table = "patients.csv"
target = "readmitted"
person = "patient_id"
exclude = ["ward"]
categorical = ["site"]

[[release]]                      # what is known about files, by their names
file = "model-*.skops"
noise = "gaussian"
scale = 0.05
loss = "logistic"                # of a coefficient table; squared if its tests are t tests
target = "readmitted"            # if it is not that of [data]

[ledger]
url = "ledger.db"
keys = "ledger.db.keys"
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_list, safe_text
from dosimeter.files.file_checks import read_bytes, regular_file
from dosimeter.glm import LOSSES
from dosimeter.workflows.noise_name import noise_class

TomlTable = Mapping[str, Any]
"""A table of the file as it was parsed."""
RULES = ("fail", "review", "allow")
_LARGEST = 1 << 20
_TOP = ("max-dose", "least-residual-df", "least-count", "exact", "unread", "booked", "data", "release", "ledger")
_DATA = ("table", "target", "person", "exclude", "categorical", "delimiter", "decimal")
_RELEASE = ("file", "noise", "scale", "loss", "target")
_LEDGER = ("url", "keys")


@dataclass(frozen=True)
class Declared:
    """What is known about the files that match a pattern."""

    file: str
    noise: str = "gaussian"
    scale: float | None = None
    """None for a release without noise."""
    loss: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Policy:
    """Limits, rules, and where the table and the ledger are."""

    max_dose: float | None = None
    least_residual_df: int = 10
    least_count: int = 10
    exact: str = "review"
    unread: str = "review"
    booked: str = "allow"
    data: TomlTable = field(default_factory=dict)
    releases: tuple[Declared, ...] = ()
    ledger: str | None = None
    keys: str | None = None

    def declared(self, name: str) -> Declared:
        """What is known about a file: the first pattern that matches its name."""
        return next((entry for entry in self.releases if fnmatchcase(name, entry.file)), Declared(name))


def read_policy(path: str | os.PathLike[str] | None) -> Policy:
    """The policy in a file; the default one without it. A key that is not known is refused: it would be no limit."""
    if path is None:
        return Policy()
    file, source = regular_file(path, _LARGEST)
    try:
        parsed = tomllib.loads(read_bytes(file, source).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise source.refusal(f"not valid TOML ({safe_text(error, 100)})", "correct the policy") from None
    _known(parsed, _TOP, "", source)
    data, ledger = _table(parsed, "data", source), _table(parsed, "ledger", source)
    _known(data, _DATA, "[data] ", source)
    _known(ledger, _LEDGER, "[ledger] ", source)
    releases = parsed.get("release", [])
    if not isinstance(releases, list) or not all(isinstance(entry, dict) for entry in releases):
        raise source.refusal("release is not a list of tables", "write [[release]]")
    folder = file.parent
    return Policy(
        max_dose=_number(parsed, "max-dose", source),
        least_residual_df=_count(parsed, "least-residual-df", 10, source),
        least_count=_count(parsed, "least-count", 10, source),
        exact=_rule(parsed, "exact", "review", source),
        unread=_rule(parsed, "unread", "review", source),
        booked=_rule(parsed, "booked", "allow", source),
        data=_data(data, folder, source),
        releases=tuple(_declared(entry, source) for entry in releases),
        ledger=_place(ledger.get("url"), folder, "url", source),
        keys=_place(ledger.get("keys"), folder, "keys", source),
    )


def _known(table: TomlTable, names: tuple[str, ...], where: str, source: Location) -> None:
    for key in table:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            advice = f"did you mean {near[0]}?" if near else f"use {safe_list(names, 12)}"
            raise source.refusal(f"{where}has no key {safe_text(key)}", advice)


def _table(parsed: TomlTable, key: str, source: Location) -> TomlTable:
    table = parsed.get(key, {})
    if not isinstance(table, dict):
        raise source.refusal(f"{key} is not a table", f"write [{key}]")
    return table


def _number(parsed: TomlTable, key: str, source: Location) -> float | None:
    value = parsed.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < float(value) < math.inf:
        raise source.refusal(f"{key} is {safe_text(value)}", "give a number above 0")
    return float(value)


def _count(parsed: TomlTable, key: str, default: int, source: Location) -> int:
    value = parsed.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise source.refusal(f"{key} is {safe_text(value)}", "give a whole number, 0 or above")
    return value


def _rule(parsed: TomlTable, key: str, default: str, source: Location) -> str:
    value = parsed.get(key, default)
    if value not in RULES:
        raise source.refusal(f"{key} is {safe_text(value)}", f"use {', '.join(RULES)}")
    return str(value)


def _place(value: Any, folder: Path, key: str, source: Location) -> str | None:
    """A path beside the policy, or a URL as it is."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise source.refusal(f"{key} is not a text", "give a path, or the URL of a database")
    return value if "://" in value else str(folder / value)


def _data(table: TomlTable, folder: Path, source: Location) -> TomlTable:
    if not table:
        return {}
    for key in ("table", "target"):
        if not isinstance(table.get(key), str):
            raise source.refusal(f"[data] has no {key}", f'write {key} = "..."')
    for key in ("exclude", "categorical"):
        names = table.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise source.refusal(f"[data] {key} is not a list of names", f'write {key} = ["..."]')
    for key in ("person", "delimiter", "decimal"):
        if key in table and not isinstance(table[key], str):
            raise source.refusal(f"[data] {key} is not a text", f'write {key} = "..."')
    return {**table, "table": str(folder / table["table"])}


def _declared(entry: TomlTable, source: Location) -> Declared:
    _known(entry, _RELEASE, "[[release]] ", source)
    for key in ("file", "noise", "loss", "target"):
        if key in entry and not isinstance(entry[key], str):
            raise source.refusal(f"[[release]] {key} is not a text", f'write {key} = "..."')
    if "file" not in entry:
        raise source.refusal("[[release]] has no file", 'write file = "model-*.skops"')
    if entry.get("loss", "squared") not in LOSSES:
        raise source.refusal(f"loss {safe_text(entry['loss'])} is not known", f"use {', '.join(LOSSES)}")
    if "noise" in entry:
        try:
            noise_class(entry["noise"])
        except Refusal as refusal:
            raise source.refusal(f"[[release]] {refusal}", "correct the policy") from None
    scale = _number(entry, "scale", source)
    if "noise" in entry and scale is None:
        raise source.refusal("[[release]] has a noise and no scale", "state its scale, or leave both out")
    named = {key: entry[key] for key in ("file", "noise", "loss", "target") if key in entry}
    return Declared(**named, scale=scale)
