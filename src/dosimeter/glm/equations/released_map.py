"""R, what is released of the parameters θ of estimating equations: θ itself, a linear map, or a smooth one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class ReleasedMap:
    """R, the map from the parameters to the released values, with its differential.

    Parameters
    ----------
    of : str
        What is released, in words.
    names : tuple of str
        One name for each released value.
    value : callable
        θ (q,) to the released values (r,).
    push : callable
        (θ, moves of θ (k, q, u)) to the moves of the released values (k, r, u).

    Examples
    --------
    >>> R = ReleasedMap.linear([[1.0, -1.0]], "a difference")
    >>> R.value(np.array([3.0, 1.0]))
    array([2.])
    """

    of: str
    names: tuple[str, ...]
    value: Callable[[FloatArray], FloatArray]
    push: Callable[[FloatArray, FloatArray], FloatArray]

    @classmethod
    def identity(cls, names: Sequence[str], of: str = "the parameters") -> ReleasedMap:
        """θ itself."""
        return cls(of, tuple(names), lambda theta: theta, lambda theta, moves: moves)

    @classmethod
    def part(cls, which: slice, names: Sequence[str], of: str) -> ReleasedMap:
        """Some of the parameters."""
        return cls(of, tuple(names), lambda theta: theta[which], lambda theta, moves: moves[:, which])

    @classmethod
    def linear(cls, A: Any, of: str, names: Sequence[str] = ()) -> ReleasedMap:
        """A θ, A (r, q)."""
        matrix = np.atleast_2d(np.asarray(A, dtype=np.float64))
        named = tuple(names) or tuple(f"value {i}" for i in range(len(matrix)))
        return cls(of, named, lambda theta: matrix @ theta, lambda theta, moves: matrix @ moves)
