"""Principal components of a noisy second moment: the release, its privacy cost, and what it does not cover."""

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
from dosimeter.noise_addition import add_noise, simulate
from dosimeter.pca.accounting import cost, event
from dosimeter.pca.bounded_sums import moments, root_weights
from dosimeter.pca.bounds import Bounds, Box, bounds_of
from dosimeter.pca.components import Components, as_rows, components
from dosimeter.pca.mechanism import Mechanism, true_sensitivity
from dosimeter.pca.moment_plan import PERSON, ROW, MomentPlan, plan_moments
from dosimeter.pca.sensitivity import REPLACE, Sensitivity

_LOCAL = LocalEngine()
NOT_PRIVATE = "not private"
_ONE_ROW = "the unit is a row: a person with several rows is protected less than the figure says"
_ONE_PERSON = (
    "the unit is a person: all rows of one person together weigh as much as one row; which names are in the table, "
    "and how many, is assumed to be public"
)
# Values below 2^45 steps can be drawn (noise_addition/grid.py); one bit is spare.
_BITS = 44


@dataclass(frozen=True, eq=False, repr=False)
class PrivateComponents:
    """A noisy second moment and perhaps a noisy mean, their components, and the privacy cost to every unit.

    Examples
    --------
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> release(X, AnalyticGaussian(1.0, 1e-5), bounds=Bounds(0.0, 1.0)).holds
    True
    """

    mechanism: Mechanism
    box: Box
    n_samples: int
    """N, public: rows, or people if the unit is a person."""
    scales: FloatArray
    """(d, d) scale of the noise on each entry of A."""
    mean_scale: float
    """Scale of the noise on each entry of the mean; 0 if no mean is released."""
    release: Release
    """`second_moment` (d, d) about the centre, `mean` (d,) if it was noised, the public `centre` and bounds (d,)."""
    components: Components
    """Post-processing of the noisy matrix and mean: no further privacy cost."""
    dose: EventDose
    """The event: one for all rows, or people, in the declared neighbour relation."""
    clipped_share: float = 0.0
    """Share of rows that the bounds changed. Internal: an unprotected statistic of the table."""

    @property
    def standing(self) -> Standing:
        """Of `dose` and `epsilon`: an upper bound, or unaccounted if a constant was read from the table."""
        return self.dose.standing

    @property
    def second_moment(self) -> FloatArray:
        """(d, d) noisy A."""
        return self.release.values["second_moment"]

    @property
    def unit(self) -> str:
        """Whom the guarantee protects: "example", one row, or "person", all rows of one person."""
        return self.dose.unit

    @property
    def not_covered(self) -> tuple[str, ...]:
        """Constants that were read from the table."""
        return self.release.recipe.not_covered

    @property
    def sensitivity(self) -> Sensitivity:
        """The most that one unit can move. Public: it follows from the bounds and N."""
        return true_sensitivity(self.mechanism, self.box, self.n_samples)

    def epsilon(self, delta: float | None = None) -> float:
        """ε at δ (None: the budget's) of these scales in the declared relation, an upper bound.

        It is independent of the mechanism's claim: for a mechanism as published it may differ from `mechanism.epsilon`.
        """
        delta_read = self.mechanism.budget_delta if delta is None else delta
        return cost(self.mechanism, self.scales, self.sensitivity, self.n_samples, delta_read, self.mean_scale)

    @property
    def holds(self) -> bool:
        """Whether the stated (ε, δ) is proved for this release."""
        return self.standing is not Standing.UNACCOUNTED and self.epsilon() <= self.mechanism.epsilon * (1 + 1e-9)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader must know, in sentences. Public: they follow from the recipe."""
        return _remarks(self)

    def __repr__(self) -> str:
        note = f", {NOT_PRIVATE}" if self.standing is Standing.UNACCOUNTED else ""
        unit = "" if self.unit == ROW else " person"
        return f"<PrivateComponents of {self.box.d} columns, {self.mechanism}, {self.dose.adjacency}{unit}{note}>"


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
    """Release private principal components: clip the rows, add noise to their second moment, and decompose it.

    Parameters
    ----------
    X : array_like of shape (n, d)
        The table.
    mechanism : Mechanism
        Budget and noise, e.g. `AnalyticGaussian(1.0, 1e-6)`. With `mechanism.mean_share` a noisy mean is released
        within the same budget, and the components are about that mean; else they are about the public centre.
    bounds : Bounds, optional
        Public bounds of the rows. Without them the release is refused, unless `private=False`.
    person : sequence of hashable of length n, optional
        Whose each row is; None for a row without a person. The unit is then a person: their rows weigh 1 in total, and
        N counts people. Default: the unit is a row.
    n_samples : int, optional
        N, public; needed if neighbours add or remove one. Default: the number of rows, or of people. With `person` it
        may be larger, and missing people count as the centre. More than 2N rows or people are refused, and that refusal
        reveals that there are more than 2N: declare an N with room to spare.
    private : bool, default True
        False reads missing bounds from the table; the release then says "not private".
    rng : numpy.random.Generator, optional
        A simulation, not for release. Default: random bits from the operating system.
    engine : Engine
        Where the sums run; default: in this process.

    Returns
    -------
    PrivateComponents

    Raises
    ------
    Refusal
        If bounds or n_samples are missing, a number is not finite, or there are too many rows.

    Notes
    -----
    Noise is added to the lower triangle of A = Σ zzᵀ / N, z the clipped and centred rows, and mirrored. With a noisy
    mean m the components are those of A - mmᵀ. Section 5 of [Zari22]; docs/explanation/pca.md, "The mechanisms".

    Examples
    --------
    >>> from dosimeter.pca.mechanisms import AnalyticGaussian
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> private_pca = release(X, AnalyticGaussian(1.0, 1e-5), bounds=Bounds(0.0, 1.0))
    >>> private_pca.components.vectors.shape, round(private_pca.epsilon(1e-5), 6), private_pca.standing.value
    ((2, 2), 1.0, 'upper bound')
    >>> mechanism = AnalyticGaussian(1.0, 1e-5, mean_share=0.1)
    >>> by_person = release(X, mechanism, bounds=Bounds(0.0, 1.0), person=["a", "b", "a"])
    >>> by_person.unit, by_person.n_samples, sorted(by_person.release.values), round(by_person.epsilon(1e-5), 6)
    ('person', 2, ['centre', 'lower', 'mean', 'second_moment', 'upper'], 1.0)
    """
    rows = as_rows(X)
    if person is not None and len(person) != len(rows):
        raise Refusal(f"{len(rows)} rows need one person each, not {len(person)} names")
    roots, units = (np.ones(len(rows)), len(rows)) if person is None else root_weights(person)
    if bounds is None and private:
        raise Refusal(
            "a private release needs bounds that are known without the table: pass bounds=Bounds(lower, upper) or "
            "Bounds(row_norm=C); private=False reads them from the table and marks the release not private"
        )
    plan = plan_moments(
        rows.shape[1],
        units,
        ROW if person is None else PERSON,
        mechanism,
        bounds_of(rows) if bounds is None else bounds,
        n_samples=n_samples,
        private=private,
        bounds_read=bounds is None,
    )
    changed_rows: list[int] = []
    exact = exact_moments(plan, units, *moments(_clip_blocks(rows, roots, plan.box, changed_rows), engine))
    return private_components(plan, add_noise_to(plan, exact, rng), sum(changed_rows) / len(rows), rng is not None)


@dataclass(frozen=True, eq=False)
class MomentPair:
    """A second moment (d, d) about the centre and a mean (d,) relative to it: exact and internal, or noised."""

    second_moment: FloatArray
    mean: FloatArray | None
    """None if no mean is released."""


def exact_moments(plan: MomentPlan, units: int, products: FloatArray, sums: FloatArray) -> MomentPair:
    """A and the mean from Σ yyᵀ and Σ r y of `units` rows, or people. Internal."""
    N = plan.n_samples
    A, mean = products / N, sums / N
    if plan.mechanism.relation == REPLACE and units < N:
        # A person declared but missing counts as the centre, clipped to the bounds like any row.
        z = plan.box.clip(plan.box.centre[None, :]).rows[0]
        A, mean = A + (N - units) / N * np.outer(z, z), mean + (N - units) / N * z
    return MomentPair(A, mean)


def person_sums(X: ArrayLike, person: Sequence[Hashable], bounds: Bounds) -> tuple[FloatArray, FloatArray, int]:
    """(Σ zzᵀ, Σ z, people) of clipped and centred rows, each person's rows weighing 1 together: one party's exact sums.

    Sums of several parties add up to those of all their people, for `exact_moments`. Not noised: internal.
    """
    rows = as_rows(X)
    box = bounds.over(rows.shape[1])
    box.refuse_extreme()
    roots, people = root_weights(person)
    products, sums = moments(_clip_blocks(rows, roots, box, []), _LOCAL)
    return products, sums, people


def release_sums(
    products: FloatArray, sums: FloatArray, people: int, mechanism: Mechanism, *, bounds: Bounds
) -> PrivateComponents:
    """The release from Σ zzᵀ (d, d) and Σ z (d,) of `people` people, whose number is public."""
    plan = plan_moments(len(sums), people, PERSON, mechanism, bounds, n_samples=people)
    noised = add_noise_to(plan, exact_moments(plan, people, products, sums), None)
    return private_components(plan, noised, 0.0, False)


def add_noise_to(plan: MomentPlan, exact: MomentPair, rng: np.random.Generator | None) -> MomentPair:
    """The noised pair. rng: a simulation; None: random bits from the operating system."""
    if exact.mean is None:
        raise Refusal("the exact mean is missing")
    A, mean = exact.second_moment, exact.mean
    return MomentPair(*_add_noise(A, mean, plan.scales, plan.mean_scale, plan.box, plan.mechanism, rng))


def private_components(
    plan: MomentPlan, noised: MomentPair, clipped_share: float, simulation: bool
) -> PrivateComponents:
    """Components, recipe and privacy cost of a noised pair: post-processing."""
    mechanism, box, N, mean_scale = plan.mechanism, plan.box, plan.n_samples, plan.mean_scale
    recipe = Recipe(
        "principal components" + (f", {NOT_PRIVATE}" if plan.not_covered else ""),
        _describe_noise(mechanism, plan.scales, mean_scale),
        _settings(mechanism, box, N, plan.unit),
        plan.not_covered,
        simulation=simulation,
    )
    moves = true_sensitivity(mechanism, box, N)
    standing = Standing.UNACCOUNTED if plan.not_covered else Standing.UPPER_BOUND
    mean_value = {} if noised.mean is None else {"mean": box.centre + noised.mean}
    variance = mechanism.law(1.0).variance * mean_scale**2  # type: ignore[call-arg]
    return PrivateComponents(
        mechanism,
        box,
        N,
        plan.scales,
        mean_scale,
        Release({"second_moment": noised.second_moment, **mean_value, **public_values(box)}, recipe),
        components(noised.second_moment, box.centre)
        if noised.mean is None
        else components_about_mean(noised.second_moment, noised.mean, variance, box),
        EventDose(event(mechanism, plan.scales, moves, N, mean_scale), plan.unit, mechanism.relation, standing),
        clipped_share=clipped_share,
    )


def dose_of(mechanism: Mechanism, box: Box, n_samples: int, unit: str = PERSON) -> EventDose:
    """The event of a release with these public constants: what `release_sums` costs, without its sums."""
    scales, mean_scale = mechanism.scales(box, n_samples), mechanism.mean_scale(box, n_samples)
    moves = true_sensitivity(mechanism, box, n_samples)
    composed = event(mechanism, scales, moves, n_samples, mean_scale)
    return EventDose(composed, unit, mechanism.relation, Standing.UPPER_BOUND)


def components_about_mean(A: FloatArray, mean: FloatArray, variance: float, box: Box) -> Components:
    """Components of a noisy A (d, d) about the centre, taken about a noisy mean (d,), also relative to the centre.

    Post-processing. The mean is shrunk towards the centre in proportion to its noise (James and Stein; `variance`, of
    that noise, is public) and clipped to the bounds. If noise dominates the mean, the moments stay about the centre,
    and the squared noise is not subtracted.
    """
    size = float(mean @ mean)
    shrinkage = max(0.0, 1 - max(box.d - 2, 1) * variance / size) if size > 0 else 0.0
    m = np.clip(shrinkage * mean, box.low, box.high)
    return components(A - np.outer(m, m), box.centre + m)


def _clip_blocks(rows: NDArray[np.generic], roots: FloatArray, box: Box, changed: list[int]) -> Iterator[RowBlock]:
    """Blocks of centred rows within the bounds, times the roots of their weights; counts changed rows in `changed`."""
    step = rows_per_block(box.d)
    for start in range(0, len(rows), step):
        clipped, r = box.clip(rows[start : start + step], start), roots[start : start + step]
        changed.append(round(clipped.changed_share * len(clipped.rows)))
        yield clipped.rows * r[:, None], r


def _add_noise(
    A: FloatArray,
    m: FloatArray,
    scales: FloatArray,
    mean_scale: float,
    box: Box,
    mechanism: Mechanism,
    rng: np.random.Generator | None,
) -> tuple[FloatArray, FloatArray | None]:
    """A with noise on its lower triangle, mirrored, and the mean m with noise, or None if no mean is released.

    Entries are divided by their scale, noised at scale 1 and multiplied again, which is post-processing. The rounding
    of the division is part of the sensitivity. An entry of scale 0 has one value for every table within the bounds.
    """
    lower = np.tril_indices(len(A))
    width, values, largest = scales[lower], A[lower], np.outer(box.reach, box.reach)[lower]
    if mean_scale > 0:
        values, largest = np.concatenate([values, m]), np.concatenate([largest, box.reach])
        width = np.concatenate([width, np.full(box.d, mean_scale)])
    is_noisy = width > 0
    scaled, unit_noise = values[is_noisy] / width[is_noisy], mechanism.law(1.0)  # type: ignore[call-arg]
    grid = _grid(largest[is_noisy], width[is_noisy])
    noised = add_noise(scaled, unit_noise, grid=grid) if rng is None else simulate(scaled, unit_noise, rng, grid=grid)
    values[is_noisy] = noised * width[is_noisy]
    noisy_moment = np.zeros_like(A)
    noisy_moment[lower] = values[: len(lower[0])]
    return noisy_moment + np.tril(noisy_moment, -1).T, values[len(lower[0]) :] if mean_scale > 0 else None


def _grid(largest: FloatArray, width: FloatArray) -> float | None:
    """None for the usual step; a coarser one, from public constants, if the noise is tiny relative to the bounds."""
    if not len(width):
        return None
    bits = math.ceil(math.log2(2 * float((largest / width).max()) + 1))
    return None if bits - _BITS <= -16 else 2.0 ** (bits - _BITS)


def _describe_noise(mechanism: Mechanism, scales: FloatArray, mean_scale: float) -> str:
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


def public_values(box: Box) -> dict[str, FloatArray]:
    """Public arrays that accounting needs."""
    bounded = np.isfinite(box.lower).all()
    return {"centre": box.centre, **({"lower": box.lower, "upper": box.upper} if bounded else {})}


def _remarks(private_pca: PrivateComponents) -> tuple[str, ...]:
    """Sentences that follow from the recipe."""
    remarks, mechanism = list(private_pca.release.recipe.not_covered), private_pca.mechanism
    if mechanism.as_published:
        remarks += [f"as published: {fault}" for fault in mechanism.errata]
        real, delta = private_pca.epsilon(), mechanism.budget_delta
        verdict = "holds" if private_pca.holds else "is not proved"
        remarks.append(
            f"the published claim ε = {mechanism.epsilon:g} {verdict}: for one row replaced this noise costs "
            f"ε = {real:.4g} at δ = {delta:g}"
        )
    constant = np.flatnonzero(private_pca.box.spread == 0)
    if len(constant):
        remarks.append(f"columns {_list_columns(constant)} cannot vary within their bounds and carry no component")
    if private_pca.n_samples < private_pca.box.d and private_pca.unit == ROW:
        remarks.append(
            f"{private_pca.n_samples} rows have at most that many directions; the other components are only noise"
        )
    remarks.append(_ONE_ROW if private_pca.unit == ROW else _ONE_PERSON)
    return tuple(remarks)


def _list_columns(columns: NDArray[np.intp]) -> str:
    first_five = ", ".join(str(j) for j in columns[:5])
    return first_five if len(columns) <= 5 else f"{first_five} and {len(columns) - 5} more"
