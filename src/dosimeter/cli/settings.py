"""Defaults from `dosimeter.toml` in the working folder: options over environment over this file over built-in ones.

[measure]
max-dose = 0.1
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from dosimeter.core.refusal import Refusal

FILE = "dosimeter.toml"


def settings_file(folder: Path | None = None) -> dict[str, Any]:
    """The file as click's default map, one table a verb; {} where there is none."""
    path = (folder or Path()) / FILE
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as handle:
            tables = tomllib.load(handle)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: not valid TOML ({error}): mend or remove it") from None
    loose = [key for key, value in tables.items() if not isinstance(value, dict)]
    if loose:
        raise Refusal(f"{path}: {loose[0]} stands outside a verb's table: put it under [measure], say")
    return {verb: {k.replace("-", "_"): v for k, v in table.items()} for verb, table in tables.items()}
