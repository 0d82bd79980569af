"""Values of a schema file, each checked where it is read; a refusal names the key."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.tables.bounds_file import nearest

_EXAMPLES = {"person": "patient_id", "target": "readmitted"}
"""Names of columns in refusals."""
_WORD = re.compile(r"\w(?:[\w .+\-]{0,58}[\w.+\-])?")


class SchemaValues:
    """The tables of a schema file and where they come from."""

    def __init__(self, tables: Mapping[str, Any], source: Location) -> None:
        self.tables = tables
        self.source = source

    def known(self, table: Any, keys: tuple[str, ...], where: str) -> Mapping[str, Any]:
        """A table with these keys only."""
        if not isinstance(table, Mapping):
            raise self.source.refusal(f"[{where}] is not a table", f"write [{where}] and its keys below")
        for key in table:
            if key not in keys:
                shown = f"[{where}] {safe_text(key)}" if where else safe_text(key)
                raise self.source.refusal(f"{shown} is not a key", nearest(str(key), keys))
        return table

    def word(self, key: str, value: Any) -> str:
        """A name of at most 60 plain characters."""
        if not isinstance(value, str) or not _WORD.fullmatch(value):
            fault = f"{key} = {safe_text(repr(value))}"
            raise self.source.refusal(fault, "give 1 to 60 letters, digits, . _ - + and blanks")
        return value

    def column(self, key: str) -> str:
        """The name of a column."""
        value = self.tables.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.source.refusal(f"there is no {key}", f'name the column: {key} = "{_EXAMPLES[key]}"')
        return value

    def number(self, table: Mapping[str, Any], key: str, where: str) -> float:
        """A finite number."""
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.source.refusal(f"{_shown(where, key)} = {safe_text(repr(value))}", "give a number")
        return float(value)

    def positive(self, table: Mapping[str, Any], key: str, where: str, most: float = 1e6) -> float:
        """A number above 0."""
        value = self.number(table, key, where)
        if not 0 < value <= most:
            raise self.source.refusal(f"{_shown(where, key)} = {value:g}", f"give a number above 0, at most {most:g}")
        return value

    def whole(self, table: Mapping[str, Any], key: str, where: str, least: int, most: int) -> int:
        """A whole number."""
        value = table.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            remedy = f"give a whole number from {least} to {most}"
            raise self.source.refusal(f"{_shown(where, key)} = {safe_text(repr(value))}", remedy)
        return value

    def choice(self, table: Mapping[str, Any], key: str, where: str, options: tuple[str, ...]) -> str:
        """One of the options, the first one by default."""
        value = table.get(key, options[0])
        if value not in options:
            raise self.source.refusal(f"{_shown(where, key)} = {safe_text(repr(value))}", f"use {' or '.join(options)}")
        return str(value)


def _shown(where: str, key: str) -> str:
    return f"[{where}] {key}" if where else key
