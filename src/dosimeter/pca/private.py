"""Principal components of a noisy second moment: the release, what it costs, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.dose import EventDose
from dosimeter.core.engine import Block, Engine, Local, rows_per_block
from dosimeter.core.notion import FloatArray, Standing
from dosimeter.core.refusal import Refusal
from dosimeter.core.release import Recipe, Release
from dosimeter.pca.clipping import Bounds, Box, bounds_of
from dosimeter.pca.components import Components, as_rows, components, second_moment_of_blocks
from dosimeter.pca.mechanisms import Mechanism, true_sensitivity
from dosimeter.pca.price import cost, event
from dosimeter.pca.sensitivity import ADD_OR_REMOVE, REPLACE
from dosimeter.sampling import noisy, simulate

_LOCAL = Local()
NOT_PRIVATE = "not private"
_BOUNDS = "not private: the bounds, and with them the centre and the scale of the noise, were read off the table"
_ROWS = "not private: the number of rows was read off the table, where neighbours add or remove a row"
# Values below 2^45 steps can be drawn (sampling/grid.py); a bit to spare.
_BITS = 44


@dataclass(frozen=True, eq=False, repr=False)
class PrivateComponents:
    """A noisy second moment, its components, and what the release costs every row."""

    mechanism: Mechanism
    box: Box
    n_samples: int
    """N, public."""
    scales: FloatArray
    """(d, d) scale of the noise on each entry of A."""
    release: Release
    """`second_moment` (d, d), and the public `centre`, `lower` and `upper` (d,)."""
    components: Components
    """Post-processing of the noisy matrix: no further cost."""
    dose: EventDose
    """The event: one for all rows, in the declared neighbour relation."""
    clipped_share: float = 0.0
    """Share of rows that the bounds changed. Internal: a statistic of the table without protection."""

    @property
    def standing(self) -> Standing:
        """Of `dose` and `epsilon`: an upper bound, or unaccounted where the table set a constant."""
        return self.dose.standing

    @property
    def second_moment(self) -> FloatArray:
        """(d, d) noisy A."""
        return self.release.values["second_moment"]

    def epsilon(self, delta: float | None = None) -> float:
        """ε at δ (None: the budget's own) that these scales cost in the declared relation, an upper bound.

        Whatever the mechanism claims: it may be more or less than `mechanism.epsilon` for those as published.
        """
        at = self.mechanism.budget_delta if delta is None else delta
        moved = true_sensitivity(self.mechanism, self.box, self.n_samples)
        return cost(self.mechanism, self.scales, moved, self.n_samples, at)

    @property
    def holds(self) -> bool:
        """Whether the stated (ε, δ) is proved for this release."""
        return self.standing is not Standing.UNACCOUNTED and self.epsilon() <= self.mechanism.epsilon * (1 + 1e-9)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know, in sentences. Public: they follow from the recipe."""
        return _remarks(self)

    def __repr__(self) -> str:
        words = f", {NOT_PRIVATE}" if self.standing is Standing.UNACCOUNTED else ""
        return f"<PrivateComponents of {self.box.d} columns, {self.mechanism}, {self.dose.adjacency}{words}>"


def release(
    X: ArrayLike,
    mechanism: Mechanism,
    *,
    bounds: Bounds | None = None,
    n_samples: int | None = None,
    private: bool = True,
    rng: np.random.Generator | None = None,
    engine: Engine = _LOCAL,
) -> PrivateComponents:
    """Clip rows X (n, d), add noise to the lower triangle of A = Σ zzᵀ / N, mirror it, and find its components.

    bounds: public. Without them the release is refused; with `private=False` they are read off the table and the
    release says "not private". n_samples: N, public; needed where neighbours add or remove a row, else it is len(X).
    More than 2N rows are refused, which tells 2N rows from 2N + 1: declare an N that leaves room.
    rng: a simulation, not for release; without it the bits come from the operating system.

    >>> from dosimeter.pca.mechanisms import AnalyticGauss
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> out = release(X, AnalyticGauss(1.0, 1e-5), bounds=Bounds(0.0, 1.0))
    >>> out.components.vectors.shape, round(out.epsilon(1e-5), 6), out.standing.value
    ((2, 2), 1.0, 'upper bound')
    """
    rows = as_rows(X)
    box, N, uncovered = _public(rows, mechanism, bounds, n_samples, private)
    box.refuse_extreme()
    scales = mechanism.scales(box, N)
    changed: list[int] = []
    A = second_moment_of_blocks(_clipped(rows, box, changed), None, engine, N)
    noised = _noised(A, scales, box, mechanism, rng)
    recipe = Recipe(
        "principal components" + (f", {NOT_PRIVATE}" if uncovered else ""),
        _noise_in_words(mechanism, scales),
        _settings(mechanism, box, N),
        uncovered,
        simulation=rng is not None,
    )
    moved = true_sensitivity(mechanism, box, N)
    standing = Standing.UNACCOUNTED if uncovered else Standing.UPPER_BOUND
    return PrivateComponents(
        mechanism,
        box,
        N,
        scales,
        Release({"second_moment": noised, **_constants(box)}, recipe),
        components(noised, box.centre),
        EventDose(event(mechanism, scales, moved, N), "example", mechanism.relation, standing),
        clipped_share=sum(changed) / len(rows),
    )


def _public(
    rows: NDArray[np.generic], mechanism: Mechanism, bounds: Bounds | None, n_samples: int | None, private: bool
) -> tuple[Box, int, tuple[str, ...]]:
    """The public constants, and what was not public about them."""
    n, d = rows.shape
    uncovered: list[str] = []
    if bounds is None:
        if private:
            raise Refusal(
                "a private release needs bounds that are known without the table: bounds=Bounds(lower, upper) or "
                "Bounds(row_norm=C); private=False reads them off the table and says so"
            )
        bounds = bounds_of(rows)
        uncovered.append(_BOUNDS)
    if mechanism.relation == REPLACE:
        # The same in all neighbours, so public by the relation itself.
        if n_samples not in (None, n):
            raise Refusal(f"n_samples = {n_samples}, but the table has {n} rows, and replacing one leaves their number")
        return bounds.over(d), n, tuple(uncovered)
    if n_samples is None:
        if private:
            raise Refusal(
                f"neighbours = {ADD_OR_REMOVE!r} hides the number of rows: declare n_samples, a public N to divide by"
            )
        uncovered.append(_ROWS)
    N = n if n_samples is None else n_samples
    if n > 2 * N:
        raise Refusal(f"the table has more than twice the declared n_samples = {N} rows; nothing was released")
    return bounds.over(d), N, tuple(uncovered)


def _clipped(rows: NDArray[np.generic], box: Box, changed: list[int]) -> Iterator[Block]:
    """Blocks of centred rows within the bounds; how many rows each had to change goes into `changed`."""
    step = rows_per_block(box.d)
    for start in range(0, len(rows), step):
        held = box.clip(rows[start : start + step], start)
        changed.append(round(held.share * len(held.rows)))
        yield (held.rows,)


def _noised(
    A: FloatArray, scales: FloatArray, box: Box, mechanism: Mechanism, rng: np.random.Generator | None
) -> FloatArray:
    """A with noise on its lower triangle, mirrored.

    Entries are divided by their scale, drawn at scale one and multiplied again, which is post-processing; what the
    division rounds is in the sensitivity. An entry of scale 0 has one value for every table within the bounds.
    """
    lower = np.tril_indices(len(A))
    width, values = scales[lower], A[lower]
    noisy_here = width > 0
    units, unit = values[noisy_here] / width[noisy_here], mechanism.law(1.0)  # type: ignore[call-arg]
    grid = _grid(np.outer(box.reach, box.reach)[lower][noisy_here], width[noisy_here])
    drawn = noisy(units, unit, grid=grid) if rng is None else simulate(units, unit, rng, grid=grid)
    values[noisy_here] = drawn * width[noisy_here]
    noised = np.zeros_like(A)
    noised[lower] = values
    return noised + np.tril(noised, -1).T


def _grid(largest: FloatArray, width: FloatArray) -> float | None:
    """None for the usual step; a coarser one, from public constants, where the noise is tiny beside the bounds."""
    if not len(width):
        return None
    bits = math.ceil(math.log2(2 * float((largest / width).max()) + 1))
    return None if bits - _BITS <= -16 else 2.0 ** (bits - _BITS)


def _noise_in_words(mechanism: Mechanism, scales: FloatArray) -> str:
    low, high = float(scales.min()), float(scales.max())
    if low == high and low > 0:
        return repr(mechanism.law(low))  # type: ignore[call-arg]
    return f"{mechanism.law.__name__}, scale {low:.6g} to {high:.6g} by entry, on the lower triangle, mirrored"


def _settings(mechanism: Mechanism, box: Box, N: int) -> dict[str, str | int | float | bool | None]:
    return {
        "mechanism": type(mechanism).__name__,
        "epsilon": float(mechanism.epsilon),
        "delta": mechanism.budget_delta,
        "neighbours": mechanism.relation,
        "n_samples": N,
        "row_norm": None if math.isinf(box.norm) else box.norm,
        "columns": box.d,
    }


def _constants(box: Box) -> dict[str, FloatArray]:
    """Public arrays that accounting needs."""
    bounded = np.isfinite(box.lower).all()
    return {"centre": box.centre, **({"lower": box.lower, "upper": box.upper} if bounded else {})}


def _remarks(made: PrivateComponents) -> tuple[str, ...]:
    """Sentences that follow from the recipe."""
    told, mechanism = list(made.release.recipe.uncovered), made.mechanism
    if mechanism.as_published:
        told += [f"as published: {fault}" for fault in mechanism.errata]
        real, delta = made.epsilon(), mechanism.budget_delta
        worth = "holds" if made.holds else "is not proved"
        told.append(
            f"the published claim ε = {mechanism.epsilon:g} {worth}: for one row replaced this noise costs "
            f"ε = {real:.4g} at δ = {delta:g}"
        )
    still = np.flatnonzero(made.box.spread == 0)
    if len(still):
        told.append(f"columns {_listed(still)} cannot vary within their bounds and carry no component")
    if made.n_samples < made.box.d:
        told.append(f"{made.n_samples} rows have at most as many directions; the other components are noise alone")
    told.append("the unit is a row: somebody with several rows is protected less than the figure says")
    return tuple(told)


def _listed(columns: NDArray[np.intp]) -> str:
    few = ", ".join(str(j) for j in columns[:5])
    return few if len(columns) <= 5 else f"{few} and {len(columns) - 5} more"
