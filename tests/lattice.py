"""The lattice attack: is a number of a released file, times or plus a statistic of the table, on a grid of any width?

A noised weight g·k divided by a column's scale s in float64 gives (g·k/s)·s/g = k for the true s and for practically no
other, whatever g is. Whoever knows all rows but one cell tries every value of the cell. So a candidate is judged by the
most regular number that its statistics make of anything in the file: trailing zeros where g is a power of two, and a
ratio of small whole numbers between two weights where it is not.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from dosimeter.noise_addition.linear_map import significant_bits

KEPT = 51
"""Bits of a number that are looked at: two fewer than float64 has, so that its roundings do not matter."""
REGULAR = 19
"""Zeros at the end that make a number regular: by chance one number in 2^19 has as many."""
TOGETHER = 14
"""Zeros of all unfolded weights together: by chance one candidate in a thousand."""
SURPLUS = 12
"""Bits by which a ratio of two weights is simpler than chance: one ratio in 2^12 is."""
SHORT = 36
"""A number with so few significant bits is on a grid of its own: times a mean, N/60, it ends in zeros for N's sake."""
LEAST_DIGITS = 9
"""Numbers with fewer decimal digits (0.3, 1e-6, a count) are constants, and `skeleton` compares them as they stand."""

_RELEASED = "coef intercept second_moment"
_MODELS = "coef_ intercept_ n_iter_"
_COMPONENTS = "mean mean_ components_ explained_variance_ explained_variance_ratio_ singular_values_ noise_variance_"
NOISED = frozenset(f"{_RELEASED} {_MODELS} {_COMPONENTS}".split())
"""Names of a `Release`, and attributes of scikit-learn models, under which noised numbers stand."""


# What a file holds ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def numbers_in(data: bytes) -> np.ndarray:
    """Every number in the bytes of a .skops, .safetensors, .json or text file."""
    found = [np.ravel(np.asarray(v, dtype=np.float64)) for _, v in contents(data) if _is_number(v)]
    texts = [v for _, v in contents(data) if isinstance(v, str)]
    written = [float(word) for text in texts for word in re.findall(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", text)]
    every = np.concatenate([*found, np.array(written)])
    every = every[np.isfinite(every)]
    return np.unique([v for v in every.tolist() if digits_of(v) >= LEAST_DIGITS])


def digits_of(value: float) -> int:
    """Decimal digits that it takes to write the number.

    >>> digits_of(0.3), digits_of(-1.5e-6), digits_of(1 / 3)
    (1, 2, 16)
    """
    return len(repr(value).split("e")[0].replace(".", "").strip("-0"))


def contents(data: bytes) -> Iterator[tuple[str, Any]]:
    """(place, value): arrays, numbers and texts of a file, in its order."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from _nodes(json.loads(archive.read("schema.json")), "", archive)
    elif data[8:9] == b"{":
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        for name, text in sorted(header.pop("__metadata__", {}).items()):
            yield f"metadata/{name}", text
        for name, told in sorted(header.items()):
            start, end = told["data_offsets"]
            kind = {"F32": "<f4", "F64": "<f8"}[told["dtype"]]
            yield f"tensor/{name}", np.frombuffer(data[8 + size :][start:end], kind).reshape(told["shape"])
    else:
        yield "text", data.decode()


def skeleton(data: bytes) -> list[tuple[str, str]]:
    """All that a file holds but its noised numbers, of which it keeps the places and shapes."""
    told = []
    for place, value in contents(data):
        noised = place.startswith("tensor/") or not NOISED.isdisjoint(place.split("/"))
        told.append((place, str(np.shape(value)) if noised and _is_number(value) else repr(value)))
    return told


def _nodes(node: Any, place: str, archive: zipfile.ZipFile) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        for k, item in enumerate(node):
            yield from _nodes(item, f"{place}/{k}", archive)
    elif isinstance(node, dict) and node.get("type") == "numpy":
        yield place, np.load(io.BytesIO(archive.read(node["file"])), allow_pickle=False)
    elif isinstance(node, dict) and node.get("__loader__") == "JsonNode":
        yield place, json.loads(node["content"])
    elif isinstance(node, dict):
        for name, item in node.items():
            if name != "__id__":  # where the object lay in memory
                yield from _nodes(item, place if name == "content" else f"{place}/{name}", archive)
    else:
        yield place, node


def _is_number(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fiu"
    return isinstance(value, int | float) and not isinstance(value, bool)


# The attack ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guess:
    """What one candidate makes of the file."""

    statistics: np.ndarray
    """Means, deviations, sums ... of the table with this candidate in it."""
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The file's weights in standardised units, were the candidate true."""
    magnitude: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """The largest term of each of them: its rounding error is 2^-53 of this."""


def statistics(column: np.ndarray) -> np.ndarray:
    """What programs compute of a column, in float64: first deviations and lengths, then what holds no root."""
    u = np.asarray(column, dtype=np.float64)
    size = np.abs(u).max()
    deviations = [u.std(), u.std(ddof=1), (u / size).std() * size]
    means = [u.mean(), (u / size).mean() * size]
    roots = [*deviations, np.sqrt(u @ u), means[0] / deviations[0]]
    return np.array(
        [*roots, *means, u.var(), u.var(ddof=1), u.sum(), u @ u, (u @ u) / len(u), np.ptp(u), u.min(), u.max()]
    )


ROOTS = np.arange(len(statistics(np.arange(3.0)))) < 5
"""Which of them are square roots: no candidate makes one regular by itself."""


def regularities(file: np.ndarray, guesses: Sequence[Guess]) -> np.ndarray:
    """(guesses, maps): zeros at the end of all that a candidate's statistics make of the file's numbers.

    What has fewer than REGULAR counts as none.
    """
    v, t = file[:, None], np.stack([guess.statistics for guess in guesses])[:, None, :]
    with np.errstate(all="ignore"):
        mapped = [(x, np.abs(x)) for x in (v * t, v / t)]
        mapped += [(x, np.maximum(np.abs(v), np.abs(t))) for x in (v + t, v - t)]
    roots = np.tile(ROOTS, t.shape[-1] // len(ROOTS))
    short = (significant_bits(file)[:, None] <= SHORT) & ~roots
    zeros = np.stack([np.where(short, 0, trailing_zeros(x, size)) for x, size in mapped], axis=1)
    zeros = zeros.reshape(len(guesses), -1)
    return np.where(zeros >= REGULAR, zeros, 0)


def trailing_zeros(x: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    """Zeros at the end of x in KEPT bits below the magnitude."""
    fine = np.isfinite(x) & (magnitude > 0)
    exponent = np.frexp(np.where(fine, magnitude, 1.0))[1]
    whole = np.rint(np.ldexp(np.where(fine, x, 0.0), KEPT - exponent)).astype(np.int64)
    return np.where(whole == 0, 0, np.frexp((whole & -whole).astype(np.float64))[1] - 1)


def simplicities(weights: np.ndarray) -> np.ndarray:
    """The same for a grid of any width g: how much simpler than chance each ratio of two weights of a row is."""
    above, below = np.tril_indices(weights.shape[1], -1)
    a, b = weights[:, above], weights[:, below]
    both = (a != 0) & (b != 0)
    surplus = np.zeros(a.shape)
    surplus[both] = _surplus(np.abs(a[both] / b[both]))
    return np.where(surplus >= SURPLUS, np.floor(surplus), 0.0)


def _surplus(ratios: np.ndarray) -> np.ndarray:
    """The first convergent p/q within 2^-50 of each: log2 of 2^50/(p q), about 0 by chance.

    The convergents are exact in float64 where it matters: a surplus above 0 has p q < 2^50.
    """
    surplus, place = np.zeros(ratios.shape), np.arange(len(ratios))
    ratio, x = ratios, ratios
    p, q, p0, q0 = (np.full(ratios.shape, start) for start in (1.0, 0.0, 0.0, 1.0))
    for _ in range(60):
        whole = np.floor(x)
        p, q, p0, q0 = whole * p + p0, whole * q + q0, p, q
        near = (p > 0) & (np.abs(ratio - p / q) <= 2.0**-50 * ratio)
        surplus[place[near]] = 50 - np.log2(p[near]) - np.log2(q[near])
        going = ~near & (x != whole) & (q <= 2**40)
        ratio, x, whole, p, q, p0, q0, place = (part[going] for part in (ratio, x, whole, p, q, p0, q0, place))
        if not len(place):
            break
        x = 1 / (x - whole)
    return surplus


@dataclass(frozen=True)
class Outcome:
    """How candidates fared in one attack: the regularity of each, and which one is true."""

    scores: tuple[int, ...]
    true: int

    @property
    def found(self) -> bool:
        """The true candidate is the only survivor, or stands alone above the others."""
        mine = self.scores[self.true]
        return mine > 0 and all(score < mine for k, score in enumerate(self.scores) if k != self.true)


def attack(data: bytes, guesses: Sequence[Guess], true: int) -> Outcome:
    """Every candidate tried on every number of the file; what is regular for most of them tells none apart."""
    file = numbers_in(data)
    scores = [
        _telling(regularities(file, guesses), 0).max(axis=1, initial=0),
        _telling(simplicities(np.stack([guess.weights for guess in guesses])), 0).max(axis=1, initial=0),
    ]
    weights, magnitude = (np.stack([getattr(guess, name) for guess in guesses]) for name in ("weights", "magnitude"))
    zeros = trailing_zeros(weights, magnitude)
    together = _telling(zeros, 6).sum(axis=1)
    scores.append(np.where(together >= TOGETHER, together, 0))
    return Outcome(tuple(int(score) for score in np.max(scores, axis=0)), true)


def _telling(scores: np.ndarray, least: int) -> np.ndarray:
    """Columns in which at most half of the candidates are regular."""
    return scores[:, (scores > least).mean(axis=0) <= 0.5]


def repeated(draws: Sequence[Outcome]) -> Outcome:
    """What shows in most of several files of one table with noise of their own; chance does not come twice.

    All attacks on one file meet the same true table, so a regularity that is chance would count once for each of them.
    """
    scores = np.median([one.scores for one in draws], axis=0)
    return Outcome(tuple(int(score) for score in scores), draws[0].true)


def no_better_than_chance(outcomes: Sequence[Outcome]) -> bool:
    """The true candidate survives and is named no more often than the false ones do, at 1e-7 each.

    With three files of each table, some 2,000 numbers of a file and REGULAR zeros, a candidate survives in two files by
    chance once in 3·2000²/2^38 = 2e4 attacks.
    """
    from scipy.stats import binom

    T = len(outcomes)
    false = [score > 0 for one in outcomes for k, score in enumerate(one.scores) if k != one.true]
    rate = (sum(false) + 1) / (len(false) + 1)
    survived = sum(one.scores[one.true] > 0 for one in outcomes)
    named = sum(one.found for one in outcomes)
    fewest = min(len(one.scores) for one in outcomes)
    return bool(binom.sf(survived - 1, T, rate) > 1e-7 and binom.sf(named - 1, T, 1 / fewest) > 1e-7)
