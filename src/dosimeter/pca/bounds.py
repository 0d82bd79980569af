"""Bounds and clipping: the range of a row, declared before the table is seen, and rows clipped to it.

Every mechanism scales its noise to the most that one row can change. That maximum exists only if rows are bounded, and
it is public only if the bounds are: bounds are inputs and never read from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal
from dosimeter.pca.components import as_rows, refuse_not_finite

ROUNDING = 2.0**-53
"""Relative error of one float64 rounding."""
_LEAST, _MOST = 1e-60, 1e60


@dataclass(frozen=True, eq=False)
class Bounds:
    """Public bounds of a row: a box [lower, upper] per column, or a row norm about the centre, or both.

    A row is clamped into the box, then centred, then scaled down to the norm. All bounds must be known without the
    table; bounds read from the table are not private (see `release`).

    Parameters
    ----------
    lower, upper : float or array_like of shape (d,), optional
        Smallest and largest value of each column, in the column's unit. One number applies to all columns. Give both or
        neither.
    row_norm : float, optional
        C: no centred row is longer. Needed if there is no box.
    centre : float or array_like of shape (d,), optional
        Point that is subtracted from every row. Default: the middle of the box, or 0 without a box.

    Raises
    ------
    Refusal
        If neither a box nor a norm is given, or a bound is not finite.

    Examples
    --------
    >>> Bounds(0.0, [2.0, 4.0]).over(2).reach.tolist()
    [1.0, 2.0]
    """

    lower: Any = None
    """(d,) or one number for all columns."""
    upper: Any = None
    """(d,) or one number for all columns."""
    row_norm: float | None = None
    """C: no centred row is longer."""
    centre: Any = None
    """(d,) or one number for all columns; public."""

    def __post_init__(self) -> None:
        if (self.lower is None) != (self.upper is None):
            raise Refusal("bounds need both lower and upper")
        if self.lower is None and self.row_norm is None:
            raise Refusal(
                "bounds need lower and upper for each column, or a row_norm; choose them without looking at the table"
            )
        if self.row_norm is not None and not (np.isfinite(self.row_norm) and self.row_norm > 0):
            raise Refusal(f"row_norm must be a finite number > 0, not {self.row_norm}")
        for name in ("lower", "upper", "centre"):
            if getattr(self, name) is not None:
                _set_read_only(self, name, _as_numbers(getattr(self, name), name))

    def over(self, d: int) -> Box:
        """The same bounds for a table of d columns."""
        lower, upper = (_broadcast(v, d, n) for v, n in ((self.lower, "lower"), (self.upper, "upper")))
        if lower is None or upper is None:
            centre = np.zeros(d) if self.centre is None else _broadcast(self.centre, d, "centre")
            return Box(np.full(d, -np.inf), np.full(d, np.inf), centre, _norm_or_infinity(self.row_norm))
        if (lower > upper).any():
            j = int(np.argmax(lower > upper))
            raise Refusal(f"the bounds of column {j} are {lower[j]:g} to {upper[j]:g}: lower must not be above upper")
        with np.errstate(over="ignore"):
            middle = lower + (upper - lower) / 2
        if not np.isfinite(middle).all():
            raise Refusal("the bounds are too far apart for float64: state the columns in a larger unit")
        centre = middle if self.centre is None else _broadcast(self.centre, d, "centre")
        return Box(lower, upper, centre, _norm_or_infinity(self.row_norm))


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds of a table with d columns, and what they imply for a centred row z."""

    lower: FloatArray
    """(d,) bounds of the row before centring; -inf if only a norm is declared."""
    upper: FloatArray
    """(d,)."""
    centre: FloatArray
    """(d,)."""
    norm: float
    """C; infinite if there is none."""

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @cached_property
    def shortens(self) -> bool:
        """Whether a row inside the box can still be longer than C."""
        corner = np.maximum(np.abs(self.lower - self.centre), np.abs(self.upper - self.centre))
        return bool(np.linalg.norm(corner) > self.norm)

    @cached_property
    def low(self) -> FloatArray:
        """(d,) smallest z of each column. Scaling a row down moves it towards 0, so 0 then belongs to the range."""
        low = self.lower - self.centre
        return np.maximum(np.minimum(low, 0.0), -self.norm) if self.shortens else low

    @cached_property
    def high(self) -> FloatArray:
        """(d,) largest z of each column."""
        high = self.upper - self.centre
        return np.minimum(np.maximum(high, 0.0), self.norm) if self.shortens else high

    @cached_property
    def reach(self) -> FloatArray:
        """(d,) M, largest |z| of each column."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @cached_property
    def spread(self) -> FloatArray:
        """(d,) Λ of [Zari22], section 5.2: the width of each column's range."""
        return self.high - self.low

    @cached_property
    def length(self) -> float:
        """The largest length of a centred row: C, or the largest that the box allows."""
        return min(self.norm, float(np.linalg.norm(self.reach)))

    def refuse_extreme(self) -> None:
        """Refuse a box whose fourth powers exceed the range of float64 or lose relative precision."""
        ends = np.abs(np.concatenate([self.lower - self.centre, self.upper - self.centre]))
        sizes = np.append(ends[np.isfinite(ends)], self.norm if np.isfinite(self.norm) else 0.0)
        if (sizes > _MOST).any() or ((sizes > 0) & (sizes < _LEAST)).any():
            raise Refusal(
                f"bounds relative to the centre, and the row norm, must be between {_LEAST:g} and {_MOST:g}: "
                "state the columns in another unit"
            )

    def clip(self, X: ArrayLike, first_row: int = 0) -> ClippedRows:
        """Clamp, centre and scale down rows X (n, d); refuse one that is not finite."""
        rows = as_rows(X).astype(np.float64)
        if rows.shape[1] != self.d:
            raise Refusal(f"the bounds are for {self.d} columns, but the table has {rows.shape[1]}")
        refuse_not_finite(rows, "X", first_row)
        clamped = (rows < self.lower) | (rows > self.upper)
        Z = np.clip(rows, self.lower, self.upper) - self.centre
        # Clamp again: a rounded subtraction must not leave [l - c, u - c], the range in `low` and `high`.
        np.clip(Z, self.lower - self.centre, self.upper - self.centre, out=Z)
        factor = np.ones(len(Z))
        if self.shortens:
            lengths = _lengths(Z)
            long = lengths > self.norm
            # d + 8 roundings: the scaled row is never longer than C, which the sensitivity relies on.
            factor[long] = self.norm / lengths[long] * (1 - (self.d + 8) * ROUNDING)
            Z[long] *= factor[long, None]
        return ClippedRows(Z, clamped, factor)


@dataclass(frozen=True, eq=False)
class ClippedRows:
    """Centred rows within their bounds, and how clipping changed them. Internal: all of it describes the rows."""

    rows: FloatArray
    """(n, d) z."""
    clamped: Mask
    """(n, d) True where a cell was outside its column's bounds."""
    factor: FloatArray
    """(n,) factor that scaled the centred row; 1 if it was short enough."""

    @property
    def changed_share(self) -> float:
        """Share of rows that were changed. Internal."""
        return float(np.mean(self.clamped.any(axis=1) | (self.factor < 1)))


def bounds_of(X: ArrayLike) -> Bounds:
    """Bounds read from the table: smallest and largest value of each column. Not private, whatever noise follows.

    >>> bounds_of([[0.0, 5.0], [1.0, 3.0]]).upper.tolist()
    [1.0, 5.0]
    """
    table = as_rows(X).astype(np.float64)
    refuse_not_finite(table, "X")
    return Bounds(table.min(axis=0), table.max(axis=0))


def _lengths(Z: FloatArray) -> FloatArray:
    """(n,) norms, also of rows whose squares exceed the range of float64."""
    top = np.abs(Z).max(axis=1)
    unit = np.where((top > 0) & np.isfinite(top), top, 1.0)
    return np.asarray(np.linalg.norm(Z / unit[:, None], axis=1) * unit)


def _norm_or_infinity(row_norm: float | None) -> float:
    return np.inf if row_norm is None else float(row_norm)


def _as_numbers(value: Any, name: str) -> FloatArray:
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim > 1 or not np.isfinite(numbers).all():
        raise Refusal(f"{name} must be one finite number, or one for each column, not {value!r}")
    return numbers


def _broadcast(value: Any, d: int, name: str) -> Any:
    if value is None:
        return None
    if value.ndim == 1 and len(value) != d:
        raise Refusal(f"{name} has {len(value)} numbers, but the table has {d} columns")
    return np.broadcast_to(value, (d,)).copy()


def _set_read_only(bounds: Bounds, name: str, value: FloatArray) -> None:
    value.setflags(write=False)
    object.__setattr__(bounds, name, value)
