"""Principal components released from a table: the noise, the number of components, and the dose of each person."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.core.face import option
from dosimeter.core.notion import FISHER, MEMBERSHIP, Notion
from dosimeter.core.release import Recipe
from dosimeter.core.text import safe_text
from dosimeter.models.component_rows import ComponentRows
from dosimeter.pca.bounded_sums import root_weights
from dosimeter.pca.mechanism import MEAN_SHARE, MOST_SHARE, Mechanism
from dosimeter.pca.mechanisms import AnalyticGaussian, LaplaceJoint, LaplaceSplit, PLDLaplace
from dosimeter.pca.moment_plan import PERSON
from dosimeter.pca.published_mechanisms import AnalyzeGauss, LaplaceAdvanced, LaplaceScalar, LaplaceVector
from dosimeter.pca.release import PrivateComponents
from dosimeter.pca.sensitivity import REPLACE
from dosimeter.tables.bounds_file import NEIGHBOURS, TableBounds, nearest

if TYPE_CHECKING:
    from dosimeter.core.accounts import PersonDoses
    from dosimeter.core.dose import Dose

FEW = 5
"""Components that are released by default."""
MECHANISMS: dict[str, type[Mechanism]] = {
    "analyze-gauss": AnalyticGaussian,
    "laplace": PLDLaplace,
    "laplace-split": LaplaceSplit,
    "laplace-joint": LaplaceJoint,
    "published-analyze-gauss": AnalyzeGauss,
    "published-laplace-scalar": LaplaceScalar,
    "published-laplace-vector": LaplaceVector,
    "published-laplace-advanced": LaplaceAdvanced,
}
"""analyze-gauss has the analytic scale and the declared relation; the published ones are Table 1 of [Zari22]."""
PURE = ("laplace-joint", "laplace-split")
"""Mechanisms that work with δ = 0."""
MEASURED_IN = {False: "half ranges", True: "own units"}
"""The unit of η, by whether columns keep their own units."""
PRESENCE = "presence against absence, N fixed"
"""What μ compares, for replace-one too: it does not compare one row with another, where the shifts of both add up."""
TAKEN = "the bounds are taken as known without the table: this is not checked"


@dataclass(frozen=True, eq=False, kw_only=True)
class NoisedComponents:
    """A release of components, as it leaves and as it was declared."""

    private: PrivateComponents
    declared: TableBounds
    mechanism: str
    """Its name in MECHANISMS."""
    k: int
    """How many components are released."""
    share: float | None = None
    """The share of the noisy variance that decided k, if one did."""

    @property
    def is_released(self) -> bool:
        """Whether it may be released: the stated (ε, δ) is proved, or nothing is claimed."""
        return not self.declared.public or self.private.holds

    @property
    def recipe(self) -> Recipe:
        """How it was made: public constants."""
        recipe = self.private.release.recipe
        settings = {**recipe.settings, "components": self.k}
        return replace(recipe, settings=settings, not_covered=(*recipe.not_covered, TAKEN))


@dataclass(frozen=True, eq=False, kw_only=True)
class TableComponents(NoisedComponents):
    """The release of a table's components, with the rows it was computed from. Internal."""

    rows: ComponentRows

    @cached_property
    def covariance(self) -> FloatArray:
        """(d, d) of the clipped rows about their mean. Each person has weight one if a person is the unit. Internal."""
        Z = self.private.box.clip(self.rows.X).rows
        weighted = self.private.unit == PERSON and self.rows.ids is not None
        r, count = root_weights(self.rows.ids) if weighted and self.rows.ids else (np.ones(len(Z)), len(Z))
        Y = (Z - r**2 @ Z / max(count, 1)) * r[:, None]
        return np.asarray(Y.T @ Y / max(count, 1))

    @cached_property
    def measured(self) -> tuple[tuple[Dose, ...], str]:
        """η and then μ of each row or person, as far as they can be measured, and why the next one cannot."""
        from dosimeter.pca.fisher import measure

        ids = self.rows.ids
        doses: list[Dose] = []
        try:
            leakage = measure(self.private, self.rows.X, ids)
            for notion, unit in dose_units(self.declared):
                doses.append(leakage.dose(ids, of="components", notion=notion, measured_in=unit))
        except CannotMeasure as reason:  # Laplace noise has no μ, and an entry without noise no η
            return tuple(doses), str(reason)
        return tuple(doses), ""

    @property
    def person_doses(self) -> tuple[PersonDoses, ...]:
        """One event for every person, all their rows together, and η² and μ² where they can be measured.

        Empty if no person was named, or if the bounds were read off the table: there is nothing to book.
        """
        from dosimeter.core.accounts import SharedEventDose

        if self.rows.ids is None or not self.rows.declared.public:
            return ()
        return (SharedEventDose(tuple(self.rows.counts), self.private.dose), *self.measured[0])

    @property
    def noise(self) -> FloatArray:
        """(d, d) noisy minus exact second moment: the noise, up to rounding. Internal."""
        X, person = self.rows.for_release(self.private.mechanism.relation)
        Y = self.private.box.clip(X).rows
        if person is not None:
            Y = Y * root_weights(person)[0][:, None]
        return np.asarray(self.private.second_moment - Y.T @ Y / self.private.n_samples)


def release_components(
    rows: ComponentRows, mechanism: Mechanism, name: str, components: int | float | None = None
) -> TableComponents:
    """Noise on the second moment of the rows, and its first components.

    components: how many, or a share of the noisy variance below 1; FEW, or all columns if there are fewer, if None.
    """
    from dosimeter.pca.release import release

    count = component_count(components, rows.X.shape[1])
    public = rows.declared.public
    X, person = rows.for_release(mechanism.relation)
    n = rows.n_public(mechanism.relation)
    private = release(X, mechanism, bounds=rows.bounds if public else None, person=person, n_samples=n, private=public)
    k, share = released_count(private, count)
    return TableComponents(private=private, declared=rows.declared, mechanism=name, k=k, share=share, rows=rows)


def released_count(private: PrivateComponents, count: int | float) -> tuple[int, float | None]:
    """How many components leave, and the share of the noisy variance that decided it."""
    from dosimeter.pca.utility import rank_for_variance

    if isinstance(count, int):
        return count, None
    values = private.components.values
    return rank_for_variance(values, count) if values.sum() > 0 else 1, count


def dose_units(declared: TableBounds) -> tuple[tuple[Notion, str], ...]:
    """Notions of a dose and the unit of each.

    μ has no unit of an unknown; what it compares takes its place, so that unlike comparisons are never added.
    """
    return (FISHER, MEASURED_IN[declared.own_units]), (MEMBERSHIP, PRESENCE)


def component_count(components: int | float | None, d: int) -> int | float:
    """A number of components, or a share of the explained variance, checked.

    >>> component_count(None, 64), component_count(3, 64), component_count(0.9, 64)
    (5, 3, 0.9)
    """
    if components is None:
        return min(FEW, d)
    if isinstance(components, int | np.integer) and not isinstance(components, bool) and 1 <= components <= d:
        return int(components)
    if isinstance(components, float) and 0 < components < 1:
        return float(components)
    raise Refusal(f"{option('components', components)}: give a whole number from 1 to {d}, or a share such as 0.9")


def neighbour_relation(neighbours: str | None, declared: TableBounds) -> str:
    """The neighbour relation: the option, else the bounds file, else replace-one."""
    if neighbours is not None and neighbours not in NEIGHBOURS:
        raise Refusal(f"{option('neighbours', safe_text(neighbours))}: use replace-one or add-or-remove")
    relation = NEIGHBOURS[neighbours] if neighbours is not None else declared.neighbours or REPLACE
    if relation != REPLACE and declared.n is None and declared.public:
        shown = option("neighbours", "add-or-remove")
        raise Refusal(
            f"{shown} hides the number of rows (of people with {option('person')}): put a public n = ... into the "
            "bounds file"
        )
    return relation


def mechanism_of(name: str, epsilon: float, delta: float, relation: str, mean_share: float | None) -> Mechanism:
    """A mechanism by its name, with a checked budget and part of it for the mean."""
    from dosimeter.pca.calibration import DELTAS

    if name not in MECHANISMS:
        raise Refusal(f"{option('mechanism', safe_text(name))} is not known: {nearest(name, tuple(MECHANISMS))}")
    if delta != 0 and not DELTAS[0] <= delta <= DELTAS[1]:
        shown = option("delta", float(delta))
        raise Refusal(f"{shown}: give 0 or a number from {DELTAS[0]:g} to {DELTAS[1]:g}")
    kind = MECHANISMS[name]
    parameters = kind.__dataclass_fields__
    if delta == 0 and name not in PURE and "delta" in parameters:
        raise Refusal(f"{option('delta', 0)}: {name} needs δ > 0; {' and '.join(PURE)} work with 0")
    settings: dict[str, float | str] = {"epsilon": epsilon}
    if "delta" in parameters:
        settings["delta"] = delta
    if "neighbours" in parameters:
        settings["neighbours"] = relation
    elif relation != REPLACE:
        shown = option("mechanism", name)
        raise Refusal(f"{shown} is published for replace-one: leave {option('neighbours')} out")
    if "mean_share" in parameters:
        share = MEAN_SHARE if mean_share is None else mean_share
        if not 0 <= share <= MOST_SHARE:
            raise Refusal(f"{option('mean_share', float(share))}: give a number from 0 to {MOST_SHARE:g}")
        settings["mean_share"] = share
    elif mean_share:
        raise Refusal(f"{option('mechanism', name)} is published without a mean: leave {option('mean_share')} out")
    return kind(**settings)  # type: ignore[arg-type]
