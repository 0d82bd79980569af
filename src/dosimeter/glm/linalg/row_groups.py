"""Rows by their groups: the persons of a table, in the order in which they appear."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal


def first_appearance(groups: Any, n: int) -> tuple[list[Hashable], Any]:
    """The groups in the order of their first rows, and (n,) the number of each row's group."""
    names = groups.tolist() if isinstance(groups, np.ndarray) else list(groups)
    if len(names) != n:
        raise Refusal(f"{n} rows need one group each, not {len(names)} groups")
    unnamed = next((i for i, g in enumerate(names) if isinstance(g, float) and g != g), None)
    if unnamed is not None:
        raise Refusal(f"row {unnamed} has no group (nan): name it or drop it")
    try:
        order = {g: k for k, g in enumerate(dict.fromkeys(names))}
    except TypeError:
        raise Refusal("groups must be hashable values such as names or numbers, one per row") from None
    return list(order), np.array([order[g] for g in names])


def groups_by_size(index: Index, sizes: Index) -> Iterator[tuple[Index, Index]]:
    """Groups of the same size together: their numbers (g,), and their rows (g, k). Groups of one row are left out."""
    by_group = np.split(np.argsort(index, kind="stable").astype(np.intp), np.cumsum(sizes)[:-1])
    for size in np.unique(sizes[sizes > 1]):
        same_size = np.flatnonzero(sizes == size)
        yield same_size, np.stack([by_group[k] for k in same_size])
