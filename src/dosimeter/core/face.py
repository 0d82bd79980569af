"""Option names in messages, as the reader writes them.

`--missing drop` in a shell, `missing="drop"` in Python, `missing = "drop"` in the config file of a site.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Face = Literal["python", "command line", "config file"]
_KEYS = {
    "missing": "site.toml", "delimiter": "site.toml", "decimal": "site.toml",
    "epsilon": "[release]", "noise_multiplier": "[training]", "rounds": "[training]",
}  # fmt: skip
"""Where a consortium writes an option: a site's config file says how a table is read, the schema all else."""

_FACE: ContextVar[Face] = ContextVar("face", default="python")


@contextmanager
def speaking(face: Face) -> Iterator[None]:
    """Inside this context, messages name options as this face writes them. The command line enters it at start."""
    token = _FACE.set(face)
    try:
        yield
    finally:
        _FACE.reset(token)


def shows_names() -> bool:
    """Whether messages may show the names that a table gives its columns.

    Not in a consortium, whose logs hold no cell of a table: without a header line the first patient's cells are names.
    """
    return _FACE.get() != "config file"


def option(name: str, value: object = None) -> str:
    """The option with this Python name, and its value if any, as the current face writes it.

    >>> option("missing", "drop"), option("max_dose", 0.5), option("person")
    ('missing="drop"', 'max_dose=0.5', 'person=')
    >>> with speaking("command line"):
    ...     option("missing", "drop"), option("max_dose", 0.5), option("person"), option("delimiter", ";")
    ('--missing drop', '--max-dose 0.5', '--person', "--delimiter ';'")
    >>> with speaking("config file"):
    ...     option("missing", "drop")
    'missing = "drop" in site.toml'
    """
    if _FACE.get() == "config file":
        key = name.replace("_", "-")
        text = f'"{value}"' if isinstance(value, str) else value
        where = f" in {_KEYS[name]}" if name in _KEYS else ""
        return f"{key}{where}" if value is None else f"{key} = {text}{where}"
    if _FACE.get() == "command line":
        flag = f"--{name.replace('_', '-')}"
        if value is None:
            return flag
        return f"{flag} {f'{value:g}' if isinstance(value, float) else shlex.quote(str(value))}"
    if value is None:
        return f"{name}="
    return f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}"


def offers(name: str) -> bool:
    """Whether the reader can give this option.

    >>> with speaking("config file"):
    ...     offers("missing"), offers("exclude")
    (True, False)
    """
    return _FACE.get() != "config file" or name in _KEYS


def entry(name: str, key: str, value: object) -> str:
    """One entry of an option that holds values by name.

    >>> entry("impute", "age", "VALUE")
    'impute={"age": VALUE}'
    >>> with speaking("command line"):
    ...     entry("impute", "age", "VALUE")
    '--impute age=VALUE'
    """
    if _FACE.get() == "command line":
        return option(name, f"{key}={value}")
    return f'{name}={{"{key}": {value}}}'


def command_or_call(command: str, call: str) -> str:
    """A command line or the Python call that does the same, as the current face needs it.

    >>> command_or_call("dosimeter scan FILE", "dosimeter.scan(file)")
    'dosimeter.scan(file)'
    """
    return command if _FACE.get() == "command line" else call
