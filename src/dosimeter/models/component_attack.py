"""The membership attack of [Zari22] on one half of a table, before and after the noise. A simulation.

Half of the people are members; their components are computed from all their rows and attacked, before and after the
noise. Up to `MANY` people are split by a shuffle. Of more people the number of the first row decides, by a public hash,
so that a block of rows needs no other. A table of more than `MANY` rows is attacked on some people only, chosen by the
same kind of rule: about `MANY` rows, but at least about `LEAST_ATTACKED` people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.engine import Joined, Largest
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.progress import stage
from dosimeter.glm.releases.folds import by_number, mixed
from dosimeter.models.component_rows import ComponentRows
from dosimeter.pca.bounded_sums import block_moments, root_weights
from dosimeter.pca.bounds import Bounds, Box
from dosimeter.pca.components import components
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.membership import MembershipByComponents, attack
from dosimeter.pca.merged_moments import MergedMoments
from dosimeter.pca.moment_plan import PERSON, ROW, plan_moments
from dosimeter.pca.release import PrivateComponents, add_noise_to, exact_moments, private_components

LEAST_PEOPLE = 8
"""Fewer cannot be split into members and strangers."""
MANY = 1 << 16
"""People above which nothing is shuffled, and rows above which some people are attacked."""
LEAST_ATTACKED = 1 << 10
"""People who are attacked at least, about."""
SEED = 0
"""Public: nothing is released."""
_SALT = np.uint64(0x5DEECE66D)
"""The choice of people is independent of the halves."""


@dataclass(frozen=True, eq=False)
class SplitHalf:
    """Half of the people as members, the others as strangers: the attack on exact and on noised components."""

    members: int
    """Rows of the members."""
    strangers: int
    by_person: bool
    """Whether people were split with all their rows; else rows were."""
    before: MembershipByComponents
    """From the exact components of the members."""
    after: MembershipByComponents
    """From their noised components."""
    attacked: int
    """Rows that were attacked: all, or those of some people."""


@dataclass(frozen=True, eq=False)
class HalfRule:
    """Who is a member, and who is attacked, from the number of a person's first row."""

    first: NDArray[np.int64] | None
    """First rows of all people, ascending, if they are few."""
    chosen: Mask | None
    """Whether each of them is a member."""
    share: float
    """Share of the people who are attacked."""

    @classmethod
    def of(cls, first: NDArray[np.int64] | int, rows: int, rng: np.random.Generator) -> HalfRule:
        """From the first rows of all people, ascending, or from their number if they are more than MANY."""
        people = first if isinstance(first, int) else len(first)
        if people < LEAST_PEOPLE:
            raise Refusal(
                f"{option('attack')}: {people} people are too few to split into members and strangers; "
                f"{LEAST_PEOPLE} are needed"
            )
        share = 1.0 if rows <= MANY else min(1.0, max(MANY / rows, LEAST_ATTACKED / people))
        if people > MANY or isinstance(first, int):
            return cls(None, None, share)
        chosen = np.zeros(people, dtype=bool)
        chosen[rng.permutation(people)[: people // 2]] = True
        return cls(first, chosen, share)

    def is_member(self, first: NDArray[np.int64]) -> Mask:
        """(k,) of people with these first rows."""
        if self.first is None or self.chosen is None:
            return np.asarray(by_number(first, 2) == 0)
        return np.asarray(self.chosen[np.searchsorted(self.first, first)])

    def is_attacked(self, first: NDArray[np.int64]) -> Mask:
        """(k,) of people with these first rows."""
        if self.share >= 1.0:
            return np.ones(len(first), dtype=bool)
        return np.asarray(mixed(first.astype(np.uint64) ^ _SALT) < np.uint64(self.share * 2.0**64))


def half_terms(
    Z: FloatArray, first: NDArray[np.int64], numbers: NDArray[np.int64], by_person: bool, rule: HalfRule
) -> tuple[Any, ...]:
    """What the attack sums over blocks of whole people: moments of the members, and the rows that are attacked.

    Z: (n, d) clipped and centred rows. first: (n,) the first row of each one's person. numbers: (n,) of the rows.
    """
    member, attacked = rule.is_member(first), rule.is_attacked(first)
    Y, of_person = Z[member], first[member]
    r, units = root_weights(of_person.tolist()) if by_person else (np.ones(len(Y)), len(Y))
    products, sums = block_moments((Y * r[:, None], r))
    ends = Largest(np.concatenate([-Y.min(axis=0, initial=np.inf), Y.max(axis=0, initial=-np.inf)]))
    counts = np.array([len(Y), len(Z) - len(Y), units], dtype=np.int64)
    rows = Joined((Z[attacked], first[attacked], numbers[attacked]))
    return products, sums, MergedMoments.of(Y, r**2), MergedMoments.of(Y), ends, counts, rows


@dataclass(frozen=True, eq=False)
class AttackSetting:
    """What the attack has in common with the release."""

    bounds: Bounds
    public: bool
    n_public: int | None
    """N, if it was declared."""
    by_person: bool


def split_half_attack(rows: ComponentRows, mechanism: Mechanism, k: int) -> SplitHalf:
    """Release the components of one half, and attack them before and after the noise, with k components."""
    stage("attacking halves of the table")
    rng, first = attack_generator(), rows.first_rows
    numbers = np.arange(len(rows.X)) if rows.numbers is None else rows.numbers
    every = np.unique(first)
    rule = HalfRule.of(len(every) if len(every) > MANY else every, len(rows.X), rng)
    setting = AttackSetting(rows.bounds, rows.declared.public, rows.declared.n, rows.ids is not None)
    box = rows.bounds.over(rows.X.shape[1])
    Z = box.clip(rows.X).rows
    terms = half_terms(Z, first, numbers.astype(np.int64), setting.by_person, rule)
    return attack_halves(terms, rule, setting, box, mechanism, k, rng)


def attack_generator() -> np.random.Generator:
    """The simulation's randomness: the same at every call."""
    return np.random.Generator(np.random.PCG64(SEED))


def attack_halves(
    terms: tuple[Any, ...],
    rule: HalfRule,
    setting: AttackSetting,
    box: Box,
    mechanism: Mechanism,
    k: int,
    rng: np.random.Generator,
) -> SplitHalf:
    """The attack from the sums of `half_terms`. rng: after the halves were chosen."""
    products, sums, weighted, plain, ends, counts, joined = terms
    Z, first, numbers = joined.arrays
    order = np.argsort(numbers, kind="stable")
    X, first = Z[order] + box.centre, first[order]
    noisy = _noised_half(products.total, sums.total, weighted, ends.value, int(counts[2]), setting, box, mechanism, rng)
    about = box.centre + plain.mean if noisy.mean_scale > 0 else noisy.components.mean
    exact = components(plain.about(about - box.centre), about)
    member = rule.is_member(first)
    groups = np.concatenate([first[member], first[~member]]).tolist() if setting.by_person else None
    before, after = (
        attack(known, X[member], X[~member], rng, k=min(k, known.rank), groups=groups)
        for known in (exact, noisy.components)
    )
    return SplitHalf(int(counts[0]), int(counts[1]), setting.by_person, before, after, len(X))


def _noised_half(
    products: FloatArray,
    sums: FloatArray,
    weighted: MergedMoments,
    ends: FloatArray,
    units: int,
    setting: AttackSetting,
    box: Box,
    mechanism: Mechanism,
    rng: np.random.Generator,
) -> PrivateComponents:
    """Components of the members with the noise of the release of a half. A simulation."""
    d = box.d
    bounds = setting.bounds
    if not setting.public:  # read off the members, as a release of theirs would
        bounds = Bounds(box.centre - ends[:d], box.centre + ends[d:])
    n = None if mechanism.relation == "replace-one" or setting.n_public is None else max(1, setting.n_public // 2)
    unit = PERSON if setting.by_person else ROW
    plan = plan_moments(
        d, units, unit, mechanism, bounds, n_samples=n, private=setting.public, bounds_read=not setting.public
    )
    if not setting.public:
        centre = plan.box.centre - box.centre
        products, sums = weighted.weight * weighted.about(centre), weighted.weight * (weighted.mean - centre)
    noised = add_noise_to(plan, exact_moments(plan, units, products, sums), rng)
    return private_components(plan, noised, 0.0, simulation=True)
