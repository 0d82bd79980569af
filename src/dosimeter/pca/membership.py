"""Was this person among the rows? Algorithm 1 of [Zari22]: a member's reconstruction error is small (docs/pca.md)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.attacks.result import Scores
from dosimeter.core.arrays import FloatArray, Index, Mask
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.pca.components import Components
from dosimeter.pca.null_distribution import Generator, NullBand, People, deal, dealt_auc, midranks, small_beats
from dosimeter.pca.reconstruction import Tails, intercepted


@dataclass(frozen=True, eq=False)
class MembershipByComponents:
    """How well the reconstruction error told members from strangers, for each number of components seen.

    An AUC is a lower bound on what can be told, and evidence: it is never added. Internal until it is published.
    """

    auc: FloatArray
    """(r + 1,) for k = 0, 1, ..., r; k = 0 is the row's length alone, no component."""
    scores: Scores
    """At one k, with its interval and the rate of hits at few false alarms."""
    k: int
    """That k."""
    null: NullBand
    """The same figures when the names member and stranger are dealt at random."""

    standing = Standing.LOWER_BOUND

    @property
    def running(self) -> FloatArray:
        """(r,) max over k' = 1, ..., k of the AUC, as figure 1 of [Zari22]: it only rises, and by luck alone too."""
        return np.asarray(np.maximum.accumulate(self.auc[1:]))

    @property
    def best_k(self) -> int:
        """The k >= 1 of the largest AUC, the first of equals, known only after the fact."""
        return int(self.auc[1:].argmax()) + 1

    @property
    def maximum(self) -> float:
        """Largest AUC over k >= 1: compare it with `null.high()`, never with ½."""
        return float(self.auc[1:].max())

    @property
    def p_value(self) -> float:
        """Chance of such a maximum among groups that nothing tells apart."""
        return self.null.p_value(self.maximum)

    @property
    def beats_chance(self) -> bool:
        """Whether the maximum lies above all but 5 % of the null band."""
        return self.p_value <= 0.05

    def facts(self) -> dict[str, Any]:
        """Plain values for a report."""
        return {
            **self.scores.facts(),
            "k": self.k,
            "rank": len(self.auc) - 1,
            "maximum": self.maximum,
            "best_k": self.best_k,
            "null_mean": self.null.bias,
            "null_95": self.null.high(),
            "p_value": self.p_value,
            "beats_chance": self.beats_chance,
        }

    def __repr__(self) -> str:
        return (
            f"<membership by components: largest AUC {self.maximum:.4g} at k = {self.best_k} of {len(self.auc) - 1}, "
            f"by chance {self.null.bias:.4g} (95% below {self.null.high():.4g}); {self.scores!r} at k = {self.k}>"
        )


def auc_by_components(
    components: Components | ArrayLike,
    members: ArrayLike,
    strangers: ArrayLike,
    *,
    whiten: bool = False,
    workers: int = 1,
) -> FloatArray:
    """(r,) AUC of the reconstruction error when the top k = 1, ..., r components are seen, r the numerical rank.

    members (m, d) and strangers (s, d) are rows before the components' mean is subtracted. Ties give ½. `whiten` counts
    each squared projection in units of its eigenvalue: it needs the eigenvalues, and tells a row at once that leaves
    the span of the data. `workers` threads share the sorting of columns; the answer is the same.

    >>> auc_by_components(np.eye(2), [[3.0, 0.1], [2.0, 0.2]], [[1.0, 1.0], [5.0, 0.15]]).tolist()
    [0.75, 0.5]
    """
    tails = _tails(components, members, strangers, whiten)
    if workers < 1:
        raise Refusal(f"at least one worker is needed, not {workers}")
    auc = np.empty(tails.rank + 1)
    beats = partial(small_beats, members=len(tails.groups[0]))
    with ThreadPoolExecutor(workers) as pool:
        for k, S in tails.by_block():
            auc[k : k + len(S)] = list(pool.map(beats, S))
    return auc[1:]


def attack(
    components: Components | ArrayLike,
    members: ArrayLike,
    strangers: ArrayLike,
    rng: Generator,
    *,
    k: int | None = None,
    trials: int = 199,
    level: float = 0.95,
    groups: Sequence[Hashable] | None = None,
) -> MembershipByComponents:
    """The attack for every k at once, what chance gives, and one k in detail.

    Give the k in detail beforehand; without one it is the best k of every other row, read on the rows between them, so
    that its interval is not spoiled by the choice. The generator deals the null band's groups (simulation).

    groups: (m + s) whose each row is, members before strangers, where somebody has several. Chance, and the choice of
    k, then go by person; the interval at one k still takes rows for independent, and is too narrow.
    """
    tails = _tails(components, members, strangers, False)
    m, s = (len(g) for g in tails.groups)
    people = People.of(groups, m, s)
    deals, even = deal(people, rng, trials), people.every_other
    chosen_on = int(even[:m].sum())
    _refuse_few(m, s, None if k is not None else (m - chosen_on, int((~even[m:]).sum())))
    auc, halves, null = np.empty(tails.rank + 1), np.empty(tails.rank + 1), np.empty((trials, tails.rank + 1))
    for first, S in tails.by_block():
        ranks, part = np.array([midranks(row) for row in S]), slice(first, first + len(S))
        null[:, part] = dealt_auc(ranks, deals)
        auc[part] = 1 - (ranks[:, :m].sum(axis=1) - m * (m + 1) / 2) / (m * s)
        if k is None:
            halves[part] = [small_beats(row, chosen_on) for row in S[:, even]]
    where, how = (k, "k fixed beforehand") if k is not None else (int(halves[1:].argmax()) + 1, _CHOSEN)
    sides = zip(tails.groups, (even[:m], even[m:]), strict=True)
    members_left, strangers_left = (g if k is not None else g[~used] for g, used in sides)
    detail = scores(components, members_left, strangers_left, where, level=level, how=how)
    return MembershipByComponents(auc, detail, where, NullBand(null))


def scores(
    components: Components | ArrayLike,
    members: ArrayLike,
    strangers: ArrayLike,
    k: int,
    *,
    level: float = 0.95,
    how: str = "k fixed beforehand",
) -> Scores:
    """Minus the reconstruction error of each row at one k: AUC, its interval, hits at few false alarms.

    >>> scores(np.eye(2), [[3.0, 0.1], [2.0, 0.2]], [[1.0, 1.0], [5.0, 0.15]], 1).figure
    0.75
    """
    tails = _tails(components, members, strangers, False)
    error, m = tails.at(k), len(tails.groups[0])
    return Scores(f"reconstruction error, k = {k}", -error[:m], -error[m:], level, how)


def reconstruction_error(rows: ArrayLike, components: Components | ArrayLike, k: int | None = None) -> FloatArray:
    """‖z - V_k V_kᵀ z‖² of each row (n, d), mean subtracted; without k of all that were seen.

    >>> reconstruction_error([[3.0, 4.0]], [[1.0], [0.0]]).tolist()
    [16.0]
    """
    tails = Tails.of(components, (rows,))
    return tails.at(tails.rank if k is None else k)


def decide(rows: ArrayLike, components: Components | ArrayLike, R: float) -> Mask:
    """Algorithm 1: a row (n, d) is called a member where its reconstruction error is at most R.

    >>> decide([[3.0, 4.0], [3.0, 0.5]], [[1.0], [0.0]], R=1.0).tolist()
    [False, True]
    """
    if not R >= 0:
        raise Refusal(f"the threshold on a squared length must be >= 0, not {R}")
    return np.asarray(reconstruction_error(rows, components) <= R)


@dataclass(frozen=True, eq=False)
class MembershipRanking:
    """Persons in the order of suspicion, the likeliest member first."""

    ids: tuple[Hashable, ...]
    errors: FloatArray
    """(n,) rising."""
    order: Index
    """(n,) the row of each."""


def suspects(
    rows: ArrayLike, ids: Sequence[Hashable], components: Components | ArrayLike, k: int | None = None
) -> MembershipRanking:
    """Rank persons (n, d) by their reconstruction error; equals stay in the caller's order.

    >>> suspects([[3.0, 4.0], [3.0, 0.5]], ["ann", "bob"], [[1.0], [0.0]]).ids
    ('bob', 'ann')
    """
    errors = reconstruction_error(rows, components, k)
    if len(ids) != len(errors):
        raise Refusal(f"one id for each of {len(errors)} rows is needed, not {len(ids)}")
    order = np.argsort(errors, kind="stable")
    return MembershipRanking(tuple(ids[i] for i in order), errors[order], order)


def _refuse_few(m: int, s: int, between: tuple[int, int] | None) -> None:
    """Two on either side make an interval; `between`: rows that are left when k is chosen on the others."""
    if min(m, s) < 2:
        todo = "give two of each at least; auc_by_components takes one"
        raise Refusal(f"{m} members and {s} strangers are too few for an interval: {todo}")
    if between is not None and min(between) < 2:
        read = f"{between[0]} members and {between[1]} strangers are left to read it on"
        raise Refusal(f"too few to choose k on every other person ({read}): give k beforehand")


_CHOSEN = "k chosen on every other row, read on the rows between"


def _tails(components: Components | ArrayLike, members: ArrayLike, strangers: ArrayLike, whiten: bool) -> Tails:
    seen = components if isinstance(components, Components) else intercepted(components)
    return Tails.of(seen, (members, strangers), whiten=whiten)
