"""How a result was made: the command as it was typed, without file names and without text that could hold data."""

from __future__ import annotations

import hashlib
import platform
import shlex
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import typer

    from dosimeter.results.parts import Provenance
    from dosimeter.tables.table import Table

CHOICES = frozenset(
    "target loss noise unit noise_shape missing mechanism neighbours sampling architecture estimator components budget "
    "hidden dataset scaler decimal".split()
)
"""Options whose text is a fixed choice, a number, or the target's name, which is in the release anyway."""
ASIDE = frozenset(
    "json quiet color show_ids ledger keys no_ledger name to note override dose_file processes jobs help".split()
)
GATES = frozenset({"measure", "demo"})
"""For these verbs --max-dose only sets the exit code. It is left out of the recorded command because its presence would
reveal a failed check."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "dp-accounting")


def provenance(context: typer.Context, table: Table | None = None) -> Provenance:
    """How the result was made. The fingerprint of the table is internal: it is a function of the table."""
    from importlib.metadata import version

    from dosimeter.core.version import __version__
    from dosimeter.results.parts import Provenance

    return Provenance(
        version=__version__,
        command=_command(context),
        python=platform.python_version(),
        libraries={name: version(name) for name in LIBRARIES},
        table="" if table is None else _digest(table),
    )


def _command(context: typer.Context) -> str:
    """The command line as it can be run again."""
    arguments = context.command_path.split()
    verb = arguments[-1]
    for param in context.command.params:
        name = param.name or ""
        source = context.get_parameter_source(name)
        if name in ASIDE or source is None or source.name == "DEFAULT" or (name == "max_dose" and verb in GATES):
            continue
        arguments += _arguments(param, context.params.get(name))
    return shlex.join(arguments)


def _arguments(param: Any, value: Any) -> list[str]:
    if value is None or value == ():
        return []
    if param.param_type_name == "argument":
        return [_shown(param, value)]
    if isinstance(value, bool):
        return [param.opts[0]] if value else [*param.secondary_opts[:1]]
    many = list(value) if isinstance(value, list | tuple) else [value]
    return [text for item in many for text in (param.opts[0], _shown(param, item))]


def _shown(param: Any, value: Any) -> str:
    """A number or a fixed choice as it is; for anything else its kind."""
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, str) and param.name in CHOICES:
        return value
    return str(param.name).upper()


def _digest(table: Table) -> str:
    """SHA-256 of names, kinds and cells, hex: the same whether the table came as .csv or as .parquet."""
    digest = hashlib.sha256()
    for name in table.names:
        column, kind = table[name], table.kind(name)
        cells = repr(column.tolist()).encode() if kind == "text" else column.tobytes()
        digest.update(repr((name, kind, len(cells))).encode() + cells)
    return digest.hexdigest()
