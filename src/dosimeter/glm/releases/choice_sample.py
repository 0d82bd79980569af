"""A sample of rows on which kinds of noise are compared, if the whole table is too large to try each.

The rows are drawn by a public seed and by position, all rows of a person together, and never by their values. A row
of n has an influence of about 1/n, so m of n rows at n/m times the limit need about the same noise, and the loss per
row is about the same. The sample decides which kind is worth trying; the limit is kept on the whole table.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.linalg.row_groups import first_appearance

SEED = 0
"""Public: the same rows for every table of this size."""


@dataclass(frozen=True, eq=False)
class ChoiceSample:
    """Some rows, and the options of `plan` for them."""

    X: FloatArray
    """(m, d), standardised anew where the table is."""
    y: FloatArray
    options: dict[str, Any]
    growth: float
    """n/m: how much higher the same noise reads."""

    @classmethod
    def of(cls, X: Any, y: Any, options: dict[str, Any], size: int) -> ChoiceSample:
        """About `size` rows of X (n, d), y (n,)."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        rows = sample_rows(len(X), options.get("groups"), size)
        some = {name: value for name, value in options.items() if name not in ("groups", "sample_weight", "known")}
        for name in ("sample_weight", "known"):
            values = options.get(name)
            some[name] = None if values is None else np.asarray(values)[rows]
        if (labels := options.get("label_weights")) is not None:
            some["label_weights"] = labels.of_rows(rows)
        groups = options.get("groups")
        some["groups"] = None if groups is None else [groups[i] for i in rows]
        part, input_map = _standardise(X[rows], options.get("scaled"), options.get("input_map"))
        return cls(part, y[rows], {**some, "input_map": input_map}, len(X) / len(rows))


def sample_rows(n: int, groups: Sequence[Hashable] | None, size: int) -> Index:
    """(m,) positions in rising order: m about `size`, all rows of a person or none.

    >>> sample_rows(6, list("aabbcc"), 2).tolist() in ([0, 1], [2, 3], [4, 5])
    True
    """
    order, index = (range(n), np.arange(n)) if groups is None else first_appearance(groups, n)
    shuffled = np.random.Generator(np.random.PCG64(SEED)).permutation(len(order))
    sizes = np.bincount(index, minlength=len(order))[shuffled]
    chosen = np.zeros(len(order), dtype=bool)
    chosen[shuffled[: max(1, int(np.searchsorted(np.cumsum(sizes), size, side="right")))]] = True
    return np.flatnonzero(chosen[index]).astype(np.intp)


def _standardise(X: FloatArray, scaled: Any, input_map: Any) -> tuple[FloatArray, Any]:
    """The columns that the table standardises, standardised by the sample; unknowns keep their units."""
    if scaled is None or not np.any(scaled):
        return X, input_map
    mask = np.asarray(scaled)
    mean, deviation = np.where(mask, X.mean(axis=0), 0.0), np.where(mask, X.std(axis=0), 1.0)
    if not (deviation > 0).all():
        raise Refusal("a column has one value only in the sample")
    P = np.eye(X.shape[1]) if input_map is None else np.asarray(input_map, dtype=np.float64)
    return (X - mean) / deviation, P / deviation[:, None]
