"""Which columns of a table the steps before a model read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dosimeter.adapters.steps.containers import branches, is_drop, positions
from dosimeter.adapters.steps.registry import kind_of


def columns_read(steps: Sequence[Any], names: Sequence[str]) -> tuple[int, ...]:
    """Positions of the source columns that the steps read.

    Those that a leading ColumnTransformer drops may hold dates, missing values or anything else.
    """
    first: Any = next((step for step in steps if not (step is None or isinstance(step, str))), None)
    kind = None if first is None else kind_of(first)
    if kind is not None and kind.name == "Pipeline":
        return columns_read([step for _, step in first.steps], names)
    if kind is None or kind.name != "ColumnTransformer":
        return tuple(range(len(names)))
    chosen = [positions(columns, names) for _, step, columns in branches(first) if not is_drop(step)]
    return tuple(sorted({j for every in chosen for j in every}))
