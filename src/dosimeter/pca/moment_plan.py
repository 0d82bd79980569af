"""All of a private second moment but its numbers: the public constants, fixed before the rows are summed."""

from __future__ import annotations

from dataclasses import dataclass

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.pca.bounds import Bounds, Box
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.sensitivity import ADD_OR_REMOVE, REPLACE

ROW, PERSON = "example", "person"
"""The unit of a guarantee: one row, or all rows of one person."""
BOUNDS_READ = "not private: the bounds, and so the centre and the scale of the noise, were read from the table"
ROWS_READ = "not private: the number of rows was read from the table, although neighbours add or remove a row"


@dataclass(frozen=True, eq=False)
class MomentPlan:
    """Mechanism, bounds, N and the scales of the noise. Public, if nothing is listed in `not_covered`."""

    mechanism: Mechanism
    box: Box
    n_samples: int
    """N: rows, or people if the unit is a person."""
    unit: str
    """ROW or PERSON."""
    scales: FloatArray
    """(d, d) scale of the noise on each entry of A."""
    mean_scale: float
    """Scale of the noise on each entry of the mean; 0 if no mean is released."""
    not_covered: tuple[str, ...] = ()
    """Constants that were read from the table."""


def plan_moments(
    d: int,
    units: int,
    unit: str,
    mechanism: Mechanism,
    bounds: Bounds,
    *,
    n_samples: int | None = None,
    private: bool = True,
    bounds_read: bool = False,
) -> MomentPlan:
    """The constants for a table of d columns with `units` rows, or people. bounds_read: from the table."""
    N, rows_read = _divisor(units, unit, mechanism, n_samples, private)
    box = bounds.over(d)
    box.refuse_extreme()
    not_covered = (*((BOUNDS_READ,) if bounds_read else ()), *((ROWS_READ,) if rows_read else ()))
    return MomentPlan(mechanism, box, N, unit, mechanism.scales(box, N), mechanism.mean_scale(box, N), not_covered)


def _divisor(units: int, unit: str, mechanism: Mechanism, n_samples: int | None, private: bool) -> tuple[int, bool]:
    """N, and whether it was read from the table although neighbours differ in it."""
    if mechanism.relation == REPLACE:
        # N is the same in all neighbours, so it is public by the relation itself.
        if unit == ROW and n_samples not in (None, units):
            raise Refusal(
                f"n_samples = {n_samples}, but the table has {units} rows, and replacing a row keeps their number"
            )
        N = units if n_samples is None else n_samples
        if units > N:
            raise Refusal(f"the table has more people than the declared n_samples = {N}; nothing was released")
        if N < 1:
            raise Refusal("no row has a person; nothing was released")
        return N, False
    kind = "rows" if unit == ROW else "people"
    if n_samples is None and private:
        raise Refusal(
            f"neighbours = {ADD_OR_REMOVE!r} hides the number of {kind}: pass n_samples, a public N to divide by"
        )
    N = units if n_samples is None else n_samples
    if units > 2 * N:
        raise Refusal(f"the table has more than twice the declared n_samples = {N} {kind}; nothing was released")
    return N, n_samples is None
