"""The membership attack of [Zari22] on one half of a table, before and after the noise. A simulation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import Mask
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.progress import stage
from dosimeter.models.component_rows import ComponentRows
from dosimeter.pca.mechanism import Mechanism
from dosimeter.pca.membership import MembershipByComponents

LEAST_PEOPLE = 8
"""Fewer cannot be split into members and strangers."""


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


def split_half_attack(rows: ComponentRows, mechanism: Mechanism, k: int) -> SplitHalf:
    """Release the components of one half, and attack them before and after the noise, with k components."""
    from dosimeter import pca
    from dosimeter.pca.release import release

    stage("attacking halves of the table")
    rng = np.random.Generator(np.random.PCG64(0))
    is_member = _half(rows, rng)
    public = rows.declared.public
    box = rows.bounds.over(rows.X.shape[1])
    members, strangers = (box.clip(rows.X[chosen]).rows + box.centre for chosen in (is_member, ~is_member))
    inside, outside = np.flatnonzero(is_member), np.flatnonzero(~is_member)
    n = None if mechanism.relation == "replace-one" or rows.declared.n is None else max(1, rows.declared.n // 2)
    noisy = release(
        members,
        mechanism,
        person=None if rows.ids is None else [rows.ids[i] for i in inside],
        rng=rng,
        bounds=rows.bounds if public else None,
        n_samples=n,
        private=public,
    )
    about = pca.mean(members) if noisy.mean_scale > 0 else noisy.components.mean
    exact = pca.components(pca.second_moment(members, about), about)
    groups = None if rows.ids is None else [rows.ids[i] for i in (*inside, *outside)]
    before, after = (
        pca.attack(components, members, strangers, rng, k=min(k, components.rank), groups=groups)
        for components in (exact, noisy.components)
    )
    return SplitHalf(len(inside), len(outside), rows.ids is not None, before, after)


def _half(rows: ComponentRows, rng: np.random.Generator) -> Mask:
    """(n,) whether a row is a member's: half of the people, with all their rows."""
    ids: tuple[Hashable, ...] = rows.ids if rows.ids is not None else tuple(range(len(rows.X)))
    people = list(dict.fromkeys(ids))
    if len(people) < LEAST_PEOPLE:
        raise Refusal(
            f"{option('attack')}: {len(people)} people are too few to split into members and strangers; "
            f"{LEAST_PEOPLE} are needed"
        )
    chosen = {people[i] for i in rng.permutation(len(people))[: len(people) // 2]}
    return np.array([i in chosen for i in ids])
