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

TomlTable = dict[str, Any]
"""A table of a TOML file, or click's default map, which has the same form."""
FILE = "dosimeter.toml"
SHARED = {"url": "ledger", "keys": "keys"}
"""Of the table [ledger]: key -> the option that it is the default of, whichever verb has that option."""


def settings_file(known: TomlTable, folder: Path | None = None) -> TomlTable:
    """The file as click's default map, one table a verb; {} if there is none.

    known: verb -> its options as they are written, without the dashes before them ("max-dose"); a group of verbs is a
    dict of the same kind.
    """
    path = (folder or Path()) / FILE
    if not path.is_file():
        return {}
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(f"{path}: not valid TOML ({error}): fix or remove it") from None
    shared = _shared(tables, path)
    return _everywhere(_defaults(tables, known, path), known, shared)


def _shared(tables: TomlTable, path: Path) -> dict[str, str]:
    """The settings under [ledger] that hold for all verbs, removed from it; tables of its own verbs stay."""
    table = tables.get("ledger")
    if not isinstance(table, dict):
        return {}
    settings = {}
    for key, option in SHARED.items():
        if key not in table or isinstance(table[key], dict):  # [ledger.keys.backup] is a verb's own table
            continue
        value = table.pop(key)
        if not isinstance(value, str) or not value:
            fault = "is empty" if value == "" else "is not a text"
            raise Refusal(f'{path}: [ledger] {key} {fault}: write {key} = "releases.db", for example')
        settings[option] = value
    return settings


def _everywhere(defaults: TomlTable, known: Mapping[str, Any], shared: Mapping[str, str]) -> TomlTable:
    """The defaults with the shared ones for each verb that takes them and has none of its own."""
    merged = dict(defaults)
    for verb, options in known.items():
        name = verb.replace("-", "_")
        if not verb:
            continue
        if isinstance(options, Mapping):
            merged[name] = _everywhere(merged.get(name, {}), options, shared)
            taken = {
                option: value for option, value in shared.items() if "ledger" in options[""] and option in options[""]
            }
            merged[name] = {**taken, **merged[name]}
        elif "ledger" in options:
            taken = {option: value for option, value in shared.items() if option in options}
            merged[name] = {**taken, **merged.get(name, {})}
    return merged


def _defaults(table: TomlTable, known: Any, path: Path, verb: str = "") -> TomlTable:
    defaults = {}
    for key, value in table.items():
        group = isinstance(known, Mapping)
        if verb and group and key.replace("_", "-") in known[""]:
            defaults[key.replace("-", "_")] = value  # an option of a verb that has subcommands: [federate] epsilon = 8
            continue
        if group and not isinstance(value, dict):
            if verb == "ledger":
                raise Refusal(f"{path}: [ledger] has no key {safe_text(key)}: {_advice(key, [*SHARED])}")
            raise Refusal(f"{path}: {safe_text(key)} is outside a verb's table: put it under [measure], for example")
        name = key if group else key.replace("_", "-")
        if name not in known:
            fault = f"there is no verb [{safe_text(key)}]" if group else f"[{verb}] has no option {safe_text(key)}"
            raise Refusal(f"{path}: {fault}: {_advice(name, known)}")
        inner = _defaults(value, known[name], path, f"{verb} {name}".strip()) if group else value
        defaults[name.replace("-", "_")] = inner
    return defaults


def _advice(word: str, known: Collection[str]) -> str:
    near = get_close_matches(word[:100], known, n=1)
    return f"did you mean {near[0]}?" if near else f"use {safe_list(known, 30)}"
