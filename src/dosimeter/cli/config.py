"""Defaults from `dosimeter.toml` in the working folder: options over environment over this file over built-in ones.

[measure]
max-dose = 0.1

[ledger]
url = "releases.db"

A table or key that no verb knows is refused: a misspelt limit would be no limit. `url` and `keys` under [ledger] hold
for every verb that books.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text

FILE = "dosimeter.toml"
SHARED = {"url": "ledger", "keys": "keys"}
"""Of the table [ledger]: key -> the option that it is the default of, whichever verb has that option."""


def settings_file(known: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """The file as click's default map, one table a verb; {} where there is none.

    known: verb -> its options as they are written, without the dashes before them ("max-dose"); a group of verbs is a
    dict of the same kind.
    """
    path = (folder or Path()) / FILE
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as handle:
            tables = tomllib.load(handle)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: not valid TOML ({error}): mend or remove it") from None
    shared = _shared(tables, path)
    return _everywhere(_defaults(tables, known, path), known, shared)


def _shared(tables: dict[str, Any], path: Path) -> dict[str, str]:
    """What [ledger] says to all verbs, taken out of it; its own verbs' tables stay."""
    table = tables.get("ledger")
    if not isinstance(table, dict):
        return {}
    found = {}
    for key, option in SHARED.items():
        if key not in table or isinstance(table[key], dict):  # [ledger.keys.backup] is a verb's own table
            continue
        value = table.pop(key)
        if not isinstance(value, str) or not value:
            what = "is empty" if value == "" else "is not a text"
            raise Refusal(f'{path}: [ledger] {key} {what}: write {key} = "releases.db", say')
        found[option] = value
    return found


def _everywhere(made: dict[str, Any], known: Mapping[str, Any], shared: Mapping[str, str]) -> dict[str, Any]:
    """The defaults with the shared ones for each verb that takes them and has none of its own."""
    made = dict(made)
    for verb, options in known.items():
        name = verb.replace("-", "_")
        if isinstance(options, Mapping):
            made[name] = _everywhere(made.get(name, {}), options, shared)
        elif "ledger" in options:
            own = {option: value for option, value in shared.items() if option in options}
            made[name] = {**own, **made.get(name, {})}
    return made


def _defaults(table: dict[str, Any], known: Any, path: Path, verb: str = "") -> dict[str, Any]:
    made = {}
    for key, value in table.items():
        group = isinstance(known, Mapping)
        if group and not isinstance(value, dict):
            if verb == "ledger":
                raise Refusal(f"{path}: [ledger] has no key {safe_text(key)}: {_advice(key, [*SHARED])}")
            raise Refusal(f"{path}: {safe_text(key)} stands outside a verb's table: put it under [measure], say")
        name = key if group else key.replace("_", "-")
        if name not in known:
            what = f"there is no verb [{safe_text(key)}]" if group else f"[{verb}] has no option {safe_text(key)}"
            raise Refusal(f"{path}: {what}: {_advice(name, known)}")
        made[name.replace("-", "_")] = _defaults(value, known[name], path, f"{verb} {name}".strip()) if group else value
    return made


def _advice(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word[:100], known, n=1)
    return f"did you mean {near[0]}?" if near else f"use {safe_list(known, 30)}"
