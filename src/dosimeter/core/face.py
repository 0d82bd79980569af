"""How an option is written for the reader of a message: `--missing drop` in a shell, `missing="drop"` in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

Face = Literal["python", "command line"]

_FACE: ContextVar[Face] = ContextVar("face", default="python")


@contextmanager
def speaking(face: Face) -> Iterator[None]:
    """Within it, messages name options as this face writes them. The command line enters it once, at its start."""
    before = _FACE.set(face)
    try:
        yield
    finally:
        _FACE.reset(before)


def option(name: str, value: object = None) -> str:
    """An option by its Python name, with a value if there is one, as the current face writes it.

    >>> option("missing", "drop"), option("max_dose", 0.5), option("person")
    ('missing="drop"', 'max_dose=0.5', 'person=')
    >>> with speaking("command line"):
    ...     option("missing", "drop"), option("max_dose", 0.5), option("person")
    ('--missing drop', '--max-dose 0.5', '--person')
    """
    if _FACE.get() == "command line":
        flag = f"--{name.replace('_', '-')}"
        return flag if value is None else f"{flag} {value}"
    if value is None:
        return f"{name}="
    return f'{name}="{value}"' if isinstance(value, str) else f"{name}={value!r}"
