"""How to do it again: the command as it was given, without names of files and without text that could hold data."""

from __future__ import annotations

import hashlib
import platform
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    from dosimeter.tables.table import Table

WORDS = frozenset(
    "target loss noise unit shape missing mechanism neighbours sampling model estimator components budget hidden "
    "dataset plan scaler".split()
)
"""Options whose text is a word of ours, a number, or the target's name, which stands in the release."""
ASIDE = frozenset(
    "json quiet color show_ids ledger keys no_ledger name to note override dose processes jobs help".split()
)
GATES = frozenset({"measure", "demo"})
"""Verbs whose --max-dose only says yes or no: named where it was not kept, it would tell that it was not."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "dp-accounting")


def how_asked(context: typer.Context, table: Table | None = None) -> dict[str, Any]:
    """The facts under "reproduce". The fingerprint of the table is internal: it is a function of the table."""
    from importlib.metadata import version

    from dosimeter.core.version import __version__

    return {
        "version": __version__,
        "command": _command(context),
        "python": platform.python_version(),
        "libraries": {name: version(name) for name in LIBRARIES},
        "table": "" if table is None else _digest(table),
    }


def _command(context: typer.Context) -> str:
    """The command line, word by word."""
    verb = str(context.info_name)
    words = ["dosimeter", verb]
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if name in ASIDE or source is None or source.name == "DEFAULT" or (name == "max_dose" and verb in GATES):
            continue
        words += _words(param, context.params.get(name))
    return shlex.join(words)


def _words(param: Any, value: Any) -> list[str]:
    if value is None or value == ():
        return []
    if param.param_type_name == "argument":
        return [_shown(param, value)]
    if isinstance(value, bool):
        return [param.opts[0]] if value else [*param.secondary_opts[:1]]
    many = list(value) if isinstance(value, list | tuple) else [value]
    return [word for one in many for word in (param.opts[0], _shown(param, one))]


def _shown(param: Any, value: Any) -> str:
    """A number or a word of ours as it is; of anything else its kind."""
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str) and param.name in WORDS:
        return value
    return str(param.name).upper()


def _digest(table: Table) -> str:
    """SHA-256 of names, kinds and cells, hex: the same whether the table came as .csv or as .parquet."""
    found = hashlib.sha256()
    for name in table.names:
        column, kind = table[name], table.kind(name)
        cells = repr(column.tolist()).encode() if kind == "text" else column.tobytes()
        found.update(repr((name, kind, len(cells))).encode() + cells)
    return found.hexdigest()
