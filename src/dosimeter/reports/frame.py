"""The main table of a result as a dataframe of the kind that the user works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from importlib import import_module
from typing import Any

from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.reports.document import load_sections
from dosimeter.results.result import Result

Columns = Mapping[str, list[Any]]
KINDS: Mapping[str, Callable[[Any, Columns], Any]] = {
    "pandas": lambda library, columns: library.DataFrame(dict(columns)),
    "polars": lambda library, columns: library.DataFrame(dict(columns)),
    "pyarrow": lambda library, columns: library.table(dict(columns)),
}
"""Library -> how it makes a table of columns."""


@singledispatch
def table_of(result: Result) -> Columns:
    """Column -> values of the main table. A result type registers its own; one that has none is refused."""
    raise Refusal(f"{type(result).__name__} has no table: use to_dict()")


def to_frame(result: Result, kind: str = "pandas") -> Any:
    """The main table of a result. kind: "pandas", "polars" or "pyarrow". As private as the result."""
    if kind not in KINDS:
        raise Refusal(f"kind={safe_text(kind)!r}: use {', '.join(KINDS)}")
    load_sections()
    columns = table_of(result)
    try:
        library = import_module(kind)
    except ModuleNotFoundError:
        raise Refusal(f"kind={kind!r}: {kind} is not installed; install it, or use another kind") from None
    return KINDS[kind](library, columns)
