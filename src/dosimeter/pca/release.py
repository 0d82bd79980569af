"""Principal components of a noisy second moment: the release, what it costs, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import EventDose
from dosimeter.core.engine import Engine, LocalEngine, RowBlock, rows_per_block
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.core.release import Recipe, Release
from dosimeter.noise_addition import noisy, simulate
from dosimeter.pca.accounting import cost, event
from dosimeter.pca.bounded_sums import moments, root_weights
from dosimeter.pca.bounds import Bounds, Box, bounds_of
from dosimeter.pca.components import Components, as_rows, components
from dosimeter.pca.mechanisms import Mechanism, true_sensitivity
from dosimeter.pca.sensitivity import ADD_OR_REMOVE, REPLACE, Sensitivity

_LOCAL = LocalEngine()
NOT_PRIVATE = "not private"
ROW, PERSON = "example", "person"
"""The unit of a guarantee: one row, or all rows of one person."""
_BOUNDS = "not private: the bounds, and with them the centre and the scale of the noise, were read off the table"
_ROWS = "not private: the number of rows was read off the table, where neighbours add or remove a row"
_ONE_ROW = "the unit is a row: somebody with several rows is protected less than the figure says"
_ONE_PERSON = (
    "the unit is a person: all rows of one person weigh as much as one row; which names are in the table, and how "
    "many, is taken as given"
)
# Values below 2^45 steps can be drawn (noise_addition/grid.py); a bit to spare.
_BITS = 44


@dataclass(frozen=True, eq=False, repr=False)
class PrivateComponents:
    """A noisy second moment and perhaps a noisy mean, their components, and what the release costs every unit."""

    mechanism: Mechanism
    box: Box
    n_samples: int
    """N, public: rows, or people where the unit is a person."""
    scales: FloatArray
    """(d, d) scale of the noise on each entry of A."""
    mean_scale: float
    """Scale of the noise on each entry of the mean; 0 where no mean is released."""
    release: Release
    """`second_moment` (d, d) about the centre, `mean` (d,) if it was noised, the public `centre` and bounds (d,)."""
    components: Components
    """Post-processing of the noisy matrix and the noisy mean: no further cost."""
    dose: EventDose
    """The event: one for all rows, or people, in the declared neighbour relation."""
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

    @property
    def unit(self) -> str:
        """Who the guarantee is about: "example", one row, or "person", all rows of one."""
        return self.dose.unit

    @property
    def sensitivity(self) -> Sensitivity:
        """What one unit can move. Public: it follows from the bounds and N."""
        return true_sensitivity(self.mechanism, self.box, self.n_samples)

    def epsilon(self, delta: float | None = None) -> float:
        """ε at δ (None: the budget's own) that these scales cost in the declared relation, an upper bound.

        Whatever the mechanism claims: it may be more or less than `mechanism.epsilon` for those as published.
        """
        at = self.mechanism.budget_delta if delta is None else delta
        return cost(self.mechanism, self.scales, self.sensitivity, self.n_samples, at, self.mean_scale)

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
        of = "" if self.unit == ROW else " person"
        return f"<PrivateComponents of {self.box.d} columns, {self.mechanism}, {self.dose.adjacency}{of}{words}>"


def release(
    X: ArrayLike,
    mechanism: Mechanism,
    *,
    bounds: Bounds | None = None,
    person: Sequence[Hashable] | None = None,
    n_samples: int | None = None,
    private: bool = True,
    rng: np.random.Generator | None = None,
    engine: Engine = _LOCAL,
) -> PrivateComponents:
    """Clip rows X (n, d), add noise to the lower triangle of A = Σ zzᵀ / N, mirror it, and find its components.

    With `mechanism.mean_share` the mean Σ z / N is noised within the same budget, and the components are those of
    A - mmᵀ, about that mean; without it they are those of A, about the public centre.

    bounds: public. Without them the release is refused; with `private=False` they are read off the table and the
    release says "not private". person: whose each row is (n,), None for nobody's. The unit is then a person, whose rows
    weigh 1 in all, and N counts people. n_samples: N, public; needed where neighbours add or remove one. Else it is
    len(X), or with `person` the number of people: more may be declared, and who is not there counts as the centre.
    More than 2N rows or people are refused, which tells 2N from 2N + 1: declare an N that leaves room.
    rng: a simulation, not for release; without it the bits come from the operating system.

    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> out = release(X, AnalyticGaussian(1.0, 1e-5), bounds=Bounds(0.0, 1.0))
    >>> out.components.vectors.shape, round(out.epsilon(1e-5), 6), out.standing.value
    ((2, 2), 1.0, 'upper bound')
    >>> about = release(X, AnalyticGaussian(1.0, 1e-5, mean_share=0.1), bounds=Bounds(0.0, 1.0), person=["a", "b", "a"])
    >>> about.unit, about.n_samples, sorted(about.release.values), round(about.epsilon(1e-5), 6)
    ('person', 2, ['centre', 'lower', 'mean', 'second_moment', 'upper'], 1.0)
    """
    rows = as_rows(X)
    if person is not None and len(person) != len(rows):
        raise Refusal(f"{len(rows)} rows need as many names of persons, not {len(person)}")
    roots, units = (np.ones(len(rows)), len(rows)) if person is None else root_weights(person)
    unit = ROW if person is None else PERSON
    box, N, uncovered = _public(rows, units, unit, mechanism, bounds, n_samples, private)
    box.refuse_extreme()
    scales, mean_scale = mechanism.scales(box, N), mechanism.mean_scale(box, N)
    changed: list[int] = []
    A, m = (total / N for total in moments(_clipped(rows, roots, box, changed), engine))
    if mechanism.relation == REPLACE and units < N:
        # Whoever is declared and not there stands as the centre, held to the bounds: a row like any other.
        z = box.clip(box.centre[None, :]).rows[0]
        A, m = A + (N - units) / N * np.outer(z, z), m + (N - units) / N * z
    noised, mean = _noised(A, m, scales, mean_scale, box, mechanism, rng)
    recipe = Recipe(
        "principal components" + (f", {NOT_PRIVATE}" if uncovered else ""),
        _noise_in_words(mechanism, scales, mean_scale),
        _settings(mechanism, box, N, unit),
        uncovered,
        simulation=rng is not None,
    )
    moved = true_sensitivity(mechanism, box, N)
    standing = Standing.UNACCOUNTED if uncovered else Standing.UPPER_BOUND
    about = {} if mean is None else {"mean": box.centre + mean}
    variance = mechanism.law(1.0).variance * mean_scale**2  # type: ignore[call-arg]
    return PrivateComponents(
        mechanism,
        box,
        N,
        scales,
        mean_scale,
        Release({"second_moment": noised, **about, **_constants(box)}, recipe),
        components(noised, box.centre) if mean is None else about_mean(noised, mean, variance, box),
        EventDose(event(mechanism, scales, moved, N, mean_scale), unit, mechanism.relation, standing),
        clipped_share=sum(changed) / len(rows),
    )


def about_mean(A: FloatArray, mean: FloatArray, variance: float, box: Box) -> Components:
    """Components of a noisy A (d, d) about the centre, taken about a noisy mean (d,), also from the centre.

    Post-processing. The mean is shrunk towards the centre as far as it may be noise (James and Stein; `variance`, of
    its noise, is public) and held to the bounds: where noise drowns it, the moments stay about the centre, and nothing
    is made of the noise squared.
    """
    size = float(mean @ mean)
    kept = max(0.0, 1 - max(box.d - 2, 1) * variance / size) if size > 0 else 0.0
    m = np.clip(kept * mean, box.low, box.high)
    return components(A - np.outer(m, m), box.centre + m)


def _public(
    rows: NDArray[np.generic],
    units: int,
    unit: str,
    mechanism: Mechanism,
    bounds: Bounds | None,
    n_samples: int | None,
    private: bool,
) -> tuple[Box, int, tuple[str, ...]]:
    """The public constants, and what was not public about them."""
    d, of = rows.shape[1], "rows" if unit == ROW else "people"
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
        if unit == ROW and n_samples not in (None, units):
            raise Refusal(
                f"n_samples = {n_samples}, but the table has {units} rows, and replacing one leaves their number"
            )
        N = units if n_samples is None else n_samples
        if units > N:
            raise Refusal(f"the table has more people than the declared n_samples = {N}; nothing was released")
        if N < 1:
            raise Refusal("no row has a person: nothing was released")
        return bounds.over(d), N, tuple(uncovered)
    if n_samples is None:
        if private:
            raise Refusal(
                f"neighbours = {ADD_OR_REMOVE!r} hides the number of {of}: declare n_samples, a public N to divide by"
            )
        uncovered.append(_ROWS)
    N = units if n_samples is None else n_samples
    if units > 2 * N:
        raise Refusal(f"the table has more than twice the declared n_samples = {N} {of}; nothing was released")
    return bounds.over(d), N, tuple(uncovered)


def _clipped(rows: NDArray[np.generic], roots: FloatArray, box: Box, changed: list[int]) -> Iterator[RowBlock]:
    """Blocks of centred rows within the bounds, times the roots of their weights; how many rows were changed goes into
    `changed`."""
    step = rows_per_block(box.d)
    for start in range(0, len(rows), step):
        held, r = box.clip(rows[start : start + step], start), roots[start : start + step]
        changed.append(round(held.share * len(held.rows)))
        yield held.rows * r[:, None], r


def _noised(
    A: FloatArray,
    m: FloatArray,
    scales: FloatArray,
    mean_scale: float,
    box: Box,
    mechanism: Mechanism,
    rng: np.random.Generator | None,
) -> tuple[FloatArray, FloatArray | None]:
    """A with noise on its lower triangle, mirrored, and the mean m with noise, or None where it stays inside.

    Entries are divided by their scale, drawn at scale one and multiplied again, which is post-processing; what the
    division rounds is in the sensitivity. An entry of scale 0 has one value for every table within the bounds.
    """
    lower = np.tril_indices(len(A))
    width, values, most = scales[lower], A[lower], np.outer(box.reach, box.reach)[lower]
    if mean_scale > 0:
        values, most = np.concatenate([values, m]), np.concatenate([most, box.reach])
        width = np.concatenate([width, np.full(box.d, mean_scale)])
    noisy_here = width > 0
    units, unit = values[noisy_here] / width[noisy_here], mechanism.law(1.0)  # type: ignore[call-arg]
    grid = _grid(most[noisy_here], width[noisy_here])
    drawn = noisy(units, unit, grid=grid) if rng is None else simulate(units, unit, rng, grid=grid)
    values[noisy_here] = drawn * width[noisy_here]
    noised = np.zeros_like(A)
    noised[lower] = values[: len(lower[0])]
    return noised + np.tril(noised, -1).T, values[len(lower[0]) :] if mean_scale > 0 else None


def _grid(largest: FloatArray, width: FloatArray) -> float | None:
    """None for the usual step; a coarser one, from public constants, where the noise is tiny beside the bounds."""
    if not len(width):
        return None
    bits = math.ceil(math.log2(2 * float((largest / width).max()) + 1))
    return None if bits - _BITS <= -16 else 2.0 ** (bits - _BITS)


def _noise_in_words(mechanism: Mechanism, scales: FloatArray, mean_scale: float) -> str:
    low, high = float(scales.min()), float(scales.max())
    mean = f"; on the mean, scale {mean_scale:.6g}" if mean_scale > 0 else ""
    if low == high and low > 0:
        return f"{mechanism.law(low)!r}{mean}"  # type: ignore[call-arg]
    return f"{mechanism.law.__name__}, scale {low:.6g} to {high:.6g} by entry, on the lower triangle, mirrored{mean}"


def _settings(mechanism: Mechanism, box: Box, N: int, unit: str) -> dict[str, str | int | float | bool | None]:
    return {
        "mechanism": type(mechanism).__name__,
        "epsilon": float(mechanism.epsilon),
        "delta": mechanism.budget_delta,
        "neighbours": mechanism.relation,
        "unit": "row" if unit == ROW else unit,
        "mean_share": mechanism.share,
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
    if made.n_samples < made.box.d and made.unit == ROW:
        told.append(f"{made.n_samples} rows have at most as many directions; the other components are noise alone")
    told.append(_ONE_ROW if made.unit == ROW else _ONE_PERSON)
    return tuple(told)


def _listed(columns: NDArray[np.intp]) -> str:
    few = ", ".join(str(j) for j in columns[:5])
    return few if len(columns) <= 5 else f"{few} and {len(columns) - 5} more"
