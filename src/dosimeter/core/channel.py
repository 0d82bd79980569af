"""Finite channels: maximal leakage of [Saeidian21] in nats, and two ways to combine channels.

A channel is P_{Y|X}, an array (|X|, |Y|) whose rows are distributions.
"""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.errors import Refusal

Array = NDArray[np.float64]

# The largest accepted distance of a row's sum from one. A row that is off by t moves the leakage by up to about t,
# so this is also the accuracy of the result; rows rounded to float32 (1e-7) are refused.
TOLERANCE = 1e-9


@overload
def maximal_leakage(channel: ArrayLike, *, prior: ArrayLike | None = None, conditional: None = None) -> float: ...


@overload
def maximal_leakage(channel: ArrayLike, *, conditional: ArrayLike) -> Array: ...


def maximal_leakage(
    channel: ArrayLike, *, prior: ArrayLike | None = None, conditional: ArrayLike | None = None
) -> float | Array:
    """Maximal leakage from X to Y of a finite channel, in nats.

    Parameters
    ----------
    channel : array (|X|, |Y|) or (|Z|, |X|, |Y|)
        P_{Y|X}, each row a distribution; or P_{Y|XZ}, which needs `conditional`.
    prior : array (|X|,), optional
        P_X, of which only the support matters. By default every x is possible.
    conditional : array (|Z|, |X|), optional
        P_{X|Z}: for each value z of the adversary's knowledge, which x remain possible.

    Returns
    -------
    float or array (|Z|,)
        The leakage; with `conditional`, the pointwise leakage for each z.

    Raises
    ------
    Refusal
        If a shape does not fit, a row is not a distribution, or both `prior` and `conditional` are passed.

    Notes
    -----
    log Σ_y max_{x: P_X(x) > 0} P(y|x), eq. 2 of [Saeidian21]. With `conditional` it is eq. 5 for a channel (|X|, |Y|)
    and eq. 4 for a channel (|Z|, |X|, |Y|). Rows of impossible x are not read: P(y|x) is undefined there.

    Examples
    --------
    >>> round(maximal_leakage([[0.75, 0.25], [0.25, 0.75]]), 6)  # log 1.5
    0.405465
    >>> maximal_leakage([[0.75, 0.25], [0.25, 0.75]], prior=[1.0, 0.0])
    0.0
    >>> maximal_leakage([[0.75, 0.25], [0.25, 0.75]], conditional=[[0.5, 0.5], [0.0, 1.0]]).round(6).tolist()
    [0.405465, 0.0]
    """
    P = np.asarray(channel, dtype=np.float64)
    if conditional is None:
        if P.ndim != 2:
            raise Refusal(f"channel must be (|X|, |Y|), or come with conditional=P_X|Z (|Z|, |X|); got shape {P.shape}")
        return _leakage(P, _support(prior, P.shape[0], "prior"), "channel")
    if prior is not None:
        raise Refusal("pass prior=P_X or conditional=P_X|Z, not both")
    if P.ndim not in (2, 3):
        raise Refusal(f"channel must be (|X|, |Y|) or (|Z|, |X|, |Y|), got shape {P.shape}")
    Q = np.asarray(conditional, dtype=np.float64)
    if Q.ndim != 2 or (P.ndim == 3 and len(P) != len(Q)):
        raise Refusal(f"conditional must be (|Z|, |X|) for a channel of shape {P.shape}, got shape {Q.shape}")
    supports = [_support(row, P.shape[-2], f"conditional[{z}]") for z, row in enumerate(Q)]
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
    """The second channel applied to the output of the first, P(y2|x) = Σ_y1 P(y1|x) P(y2|y1): X - Y1 - Y2 of Lemma 6.

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
    # Σ_y max_x P - 1 loses all digits for a quiet channel. A row sums to one, so subtract a row entry by entry:
    # every term is >= 0, equal rows give exactly 0, and a leakage of 1e-15 keeps its digits. Subtracting the row with
    # the smallest sum makes the result independent of the order of x and never too low.
    excess = (rows.max(axis=0) - rows[rows.sum(axis=1).argmin()]).sum()
    return float(np.log1p(excess))


def _channel(channel: ArrayLike, name: str) -> Array:
    P = np.asarray(channel, dtype=np.float64)
    if P.ndim != 2:
        raise Refusal(f"{name} must be (|X|, |Y|), got shape {P.shape}")
    _check_rows(P, np.arange(len(P)), name)
    return P


def _support(distribution: ArrayLike | None, size: int, name: str) -> NDArray[np.intp]:
    """The x with positive probability; all of them without a distribution."""
    if size == 0:
        raise Refusal("the channel has no rows: X needs at least one value")
    if distribution is None:
        return np.arange(size)
    p = np.asarray(distribution, dtype=np.float64)
    if p.shape != (size,):
        raise Refusal(f"{name} must have one probability for each of the channel's {size} rows, got shape {p.shape}")
    if (p == 0).all():
        raise Refusal(f"{name} leaves no x possible: every probability is 0")
    _check_rows(p[None, :], np.arange(1), name, single=True)
    return np.flatnonzero(p > 0)


def _check_rows(rows: Array, labels: NDArray[np.intp], name: str, *, single: bool = False) -> None:
    """Refuse rows that are not distributions. single: `name` is the name of the only row."""
    if rows.size == 0:
        raise Refusal(f"{name} is empty: X and Y need at least one value each")
    bad = ~(np.isfinite(rows) & (rows >= 0))
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        place = f"{name}[{j}]" if single else f"{name}[{int(labels[i])}, {j}]"
        raise Refusal(f"{place} is {rows[i, j]}; a probability must be finite and not negative")
    sums = rows.sum(axis=1)
    i = int(np.abs(sums - 1).argmax())
    if abs(sums[i] - 1) > TOLERANCE:
        place = name if single else f"{name}[{int(labels[i])}]"
        raise Refusal(f"{place} sums to {float(sums[i])!r}; a distribution must sum to one within {TOLERANCE}")
