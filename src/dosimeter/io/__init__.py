"""Files in and out. Nothing is parsed before its kind and declared size are known; a pickle never is.

The names below are imported when first used: `frames` needs `io.text`, and `io.tables` needs `frames`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dosimeter.io.atomic import write_bytes as write_bytes
    from dosimeter.io.atomic import write_text as write_text
    from dosimeter.io.checkpoint import read_state as read_state
    from dosimeter.io.checkpoint import write_state as write_state
    from dosimeter.io.doses import DoseFile as DoseFile
    from dosimeter.io.doses import read_doses as read_doses
    from dosimeter.io.doses import write_doses as write_doses
    from dosimeter.io.models import read_model as read_model
    from dosimeter.io.networks import read_network as read_network
    from dosimeter.io.networks import write_network as write_network
    from dosimeter.io.sheet import write_sheet as write_sheet
    from dosimeter.io.tables import read_column as read_column
    from dosimeter.io.tables import read_table as read_table
    from dosimeter.io.tables import table_names as table_names
    from dosimeter.io.text import harmless as harmless
    from dosimeter.io.votes import read_progress as read_progress
    from dosimeter.io.votes import read_votes as read_votes
    from dosimeter.io.votes import write_progress as write_progress

_HOME = {
    "DoseFile": "doses",
    "harmless": "text",
    "read_column": "tables",
    "read_doses": "doses",
    "read_model": "models",
    "read_network": "networks",
    "read_progress": "votes",
    "read_state": "checkpoint",
    "read_table": "tables",
    "read_votes": "votes",
    "table_names": "tables",
    "write_bytes": "atomic",
    "write_doses": "doses",
    "write_network": "networks",
    "write_progress": "votes",
    "write_sheet": "sheet",
    "write_state": "checkpoint",
    "write_text": "atomic",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dosimeter.io.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dosimeter.io' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
