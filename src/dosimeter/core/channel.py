"""Finite channels: maximal leakage of [Saeidian21] in nats, and the two ways of joining channels.

A channel is P_{Y|X}, an array (|X|, |Y|) whose rows are distributions.
"""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.errors import Refusal

Array = NDArray[np.float64]

# How far from one a row may sum. A row that misses by t moves the leakage by up to about t, so this is also
# the accuracy for a channel given carelessly; rows rounded to float32 (1e-7) are refused.
TOLERANCE = 1e-9


@overload
def maximal_leakage(channel: ArrayLike, *, prior: ArrayLike | None = None, given: None = None) -> float: ...


@overload
def maximal_leakage(channel: ArrayLike, *, given: ArrayLike) -> Array: ...


def maximal_leakage(
    channel: ArrayLike, *, prior: ArrayLike | None = None, given: ArrayLike | None = None
) -> float | Array:
    """Maximal leakage from X to Y, log Σ_y max_{x: P_X(x) > 0} P(y|x), nats; eq. 2 of [Saeidian21].

    channel: P_{Y|X}, (|X|, |Y|).
    prior: P_X, (|X|,), of which only the support counts; without it every x is possible.
    given: P_{X|Z}, (|Z|, |X|), what each value of the adversary's knowledge Z leaves possible. The answer is
    then pointwise, (|Z|,): eq. 5 for a channel (|X|, |Y|), eq. 4 for a channel P_{Y|XZ}, (|Z|, |X|, |Y|).

    Rows of impossible x are not read, for P(y|x) is not defined there.

    >>> round(maximal_leakage([[0.75, 0.25], [0.25, 0.75]]), 6)  # log 1.5
    0.405465
    >>> maximal_leakage([[0.75, 0.25], [0.25, 0.75]], prior=[1.0, 0.0])
    0.0
    >>> maximal_leakage([[0.75, 0.25], [0.25, 0.75]], given=[[0.5, 0.5], [0.0, 1.0]]).round(6).tolist()
    [0.405465, 0.0]
    """
    P = np.asarray(channel, dtype=np.float64)
    if given is None:
        if P.ndim != 2:
            raise Refusal(f"channel must be (|X|, |Y|), or come with given=P_X|Z, (|Z|, |X|); got shape {P.shape}")
        return _leakage(P, _support(prior, P.shape[0], "prior"), "channel")
    if prior is not None:
        raise Refusal("give prior=P_X or given=P_X|Z, not both")
    if P.ndim not in (2, 3):
        raise Refusal(f"channel must be (|X|, |Y|) or (|Z|, |X|, |Y|), got shape {P.shape}")
    Q = np.asarray(given, dtype=np.float64)
    if Q.ndim != 2 or (P.ndim == 3 and len(P) != len(Q)):
        raise Refusal(f"given must be (|Z|, |X|) for the channel's {P.shape}, got shape {Q.shape}")
    supports = [_support(row, P.shape[-2], f"given[{z}]") for z, row in enumerate(Q)]
    if P.ndim == 2:
        return np.array([_leakage(P, support, "channel") for support in supports])
    return np.array([_leakage(P[z], support, f"channel[{z}]") for z, support in enumerate(supports)])


def compose(channel1: ArrayLike, channel2: ArrayLike) -> Array:
    """Both outputs together, P(y1, y2|x) = P(y1|x) P(y2|x), the chain Y1 - X - Y2 of Lemma 5 of [Saeidian21].

    (|X|, |Y1|) and (|X|, |Y2|) -> (|X|, |Y1||Y2|), y2 running fastest.

    >>> compose([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]).tolist()
    [[0.5, 0.5, 0.0, 0.0], [0.0, 0.5, 0.0, 0.5]]
    """
    P1, P2 = _channel(channel1, "channel1"), _channel(channel2, "channel2")
    if len(P1) != len(P2):
        raise Refusal(
            f"both channels must start at the same X: {P1.shape} has {len(P1)} rows, {P2.shape} has {len(P2)}"
        )
    return (P1[:, :, None] * P2[:, None, :]).reshape(len(P1), -1)


def cascade(channel1: ArrayLike, channel2: ArrayLike) -> Array:
    """The first output processed further, P(y2|x) = Σ_y1 P(y1|x) P(y2|y1): X - Y1 - Y2 of Lemma 6.

    (|X|, |Y1|) and (|Y1|, |Y2|) -> (|X|, |Y2|).

    >>> cascade([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]).tolist()
    [[0.5, 0.5], [0.25, 0.75]]
    """
    P1, P2 = _channel(channel1, "channel1"), _channel(channel2, "channel2")
    if P1.shape[1] != len(P2):
        raise Refusal(f"channel2 must have a row for each output of channel1: {P1.shape} then {P2.shape}")
    return P1 @ P2


def _leakage(P: Array, support: NDArray[np.intp], name: str) -> float:
    rows = P[support]
    _check_rows(rows, support, name)
    # Σ_y max_x P - 1 drowns in rounding for a quiet channel. A row sums to one, so take one off by entries:
    # every term is >= 0, equal rows give exactly 0, and a leakage of 1e-15 keeps its digits. Of rows given
    # carelessly the one that sums to least: the order of x then does not matter, and nothing is under-reported.
    excess = (rows.max(axis=0) - rows[rows.sum(axis=1).argmin()]).sum()
    return float(np.log1p(excess))


def _channel(channel: ArrayLike, name: str) -> Array:
    P = np.asarray(channel, dtype=np.float64)
    if P.ndim != 2:
        raise Refusal(f"{name} must be (|X|, |Y|), got shape {P.shape}")
    _check_rows(P, np.arange(len(P)), name)
    return P


def _support(distribution: ArrayLike | None, size: int, name: str) -> NDArray[np.intp]:
    """The x with positive probability; all of them when there is no distribution."""
    if size == 0:
        raise Refusal("the channel has no rows: X needs at least one value")
    if distribution is None:
        return np.arange(size)
    p = np.asarray(distribution, dtype=np.float64)
    if p.shape != (size,):
        raise Refusal(f"{name} must have one probability for each of the channel's {size} rows, got shape {p.shape}")
    if (p == 0).all():
        raise Refusal(f"{name} leaves no x possible: every probability is 0")
    _check_rows(p[None, :], np.arange(1), name, whole=True)
    return np.flatnonzero(p > 0)


def _check_rows(rows: Array, labels: NDArray[np.intp], name: str, *, whole: bool = False) -> None:
    """Refuse rows that are not distributions; `whole` says that the name is that of the row itself."""
    if rows.size == 0:
        raise Refusal(f"{name} is empty: X and Y need at least one value each")
    bad = ~(np.isfinite(rows) & (rows >= 0))
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        place = f"{name}[{j}]" if whole else f"{name}[{int(labels[i])}, {j}]"
        raise Refusal(f"{place} is {rows[i, j]}; a probability must be finite and not negative")
    sums = rows.sum(axis=1)
    i = int(np.abs(sums - 1).argmax())
    if abs(sums[i] - 1) > TOLERANCE:
        place = name if whole else f"{name}[{int(labels[i])}]"
        raise Refusal(f"{place} sums to {float(sums[i])!r}; a distribution must sum to one within {TOLERANCE}")
