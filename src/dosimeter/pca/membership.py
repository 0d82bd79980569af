"""Membership inference, Algorithm 1 of [Zari22]: a member's reconstruction error is small (docs/explanation/pca.md)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.attacks.result import Scores
from dosimeter.core.arrays import FloatArray, Mask
from dosimeter.core.errors import Refusal
from dosimeter.core.notion import Standing
from dosimeter.pca.components import Components
from dosimeter.pca.null_distribution import (
    Generator,
    NullBand,
    People,
    auc_of_small_residuals,
    midranks,
    permutation_auc,
    permute_membership,
)
from dosimeter.pca.reconstruction import Residuals, as_components


@dataclass(frozen=True, eq=False)
class MembershipByComponents:
    """How well the reconstruction error separates members from strangers, for each number of components known.

    An AUC is a lower bound on the leakage and is evidence: it is never added. Internal until it is published.

    Examples
    --------
    >>> from dosimeter.pca.components import components_of
    >>> rng = np.random.default_rng(0)
    >>> members, strangers = rng.normal(size=(30, 20)), rng.normal(size=(30, 20))
    >>> result = attack(components_of(members), members, strangers, rng, trials=19)
    >>> result.auc.shape, bool(result.maximum > 0.7), result.beats_chance
    ((21,), True, True)
    """

    auc: FloatArray
    """(r + 1,) for k = 0, 1, ..., r; k = 0 uses only the row's length, no component."""
    scores: Scores
    """The attack at one k, with its confidence interval and true positive rates at low false positive rates."""
    k: int
    """That k."""
    null: NullBand
    """The same figures when the labels member and stranger are permuted at random."""

    standing = Standing.LOWER_BOUND

    @property
    def running(self) -> FloatArray:
        """(r,) max over k' = 1, ..., k of the AUC, as in figure 1 of [Zari22]: it only rises, also by chance."""
        return np.asarray(np.maximum.accumulate(self.auc[1:]))

    @property
    def best_k(self) -> int:
        """The k >= 1 of the largest AUC, the first of equals; known only after the attack."""
        return int(self.auc[1:].argmax()) + 1

    @property
    def maximum(self) -> float:
        """Largest AUC over k >= 1: compare it with `null.high()`, never with ½."""
        return float(self.auc[1:].max())

    @property
    def p_value(self) -> float:
        """Probability of such a maximum if members and strangers are exchangeable."""
        return self.null.p_value(self.maximum)

    @property
    def beats_chance(self) -> bool:
        """Whether the maximum is above all but 5 % of the null distribution."""
        return self.p_value <= 0.05

    def facts(self) -> dict[str, Any]:
        """Plain values for a report."""
        return {
            **self.scores.to_dict(),
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
    """AUC of the reconstruction error when the top k = 1, ..., r components are known, r the numerical rank.

    Parameters
    ----------
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    members, strangers : array_like of shape (m, d) and (s, d)
        Rows before the components' mean is subtracted.
    whiten : bool, default False
        Divide each squared projection by its eigenvalue. It needs the eigenvalues, and a row outside the span of the
        data is then recognised at once.
    workers : int, default 1
        Threads that share the sorting of columns; the result does not depend on it.

    Returns
    -------
    ndarray of shape (r,)
        AUC for each k; ties count ½.

    Raises
    ------
    Refusal
        If the columns do not match, or a number is not finite.
    CannotMeasure
        If the components have rank 0, or whitening lacks eigenvalues.

    Notes
    -----
    Algorithm 1 of [Zari22] for every threshold at once.

    Examples
    --------
    >>> auc_by_components(np.eye(2), [[3.0, 0.1], [2.0, 0.2]], [[1.0, 1.0], [5.0, 0.15]]).tolist()
    [0.75, 0.5]
    """
    residuals = _residuals(components, members, strangers, whiten)
    if workers < 1:
        raise Refusal(f"at least one worker is needed, not {workers}")
    auc = np.empty(residuals.rank + 1)
    auc_at_k = partial(auc_of_small_residuals, members=len(residuals.groups[0]))
    with ThreadPoolExecutor(workers) as pool:
        for k, S in residuals.by_block():
            auc[k : k + len(S)] = list(pool.map(auc_at_k, S))
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
    """The membership attack for every k, its null distribution, and one k in detail.

    Parameters
    ----------
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    members, strangers : array_like of shape (m, d) and (s, d)
        Rows before the components' mean is subtracted.
    rng : numpy.random.Generator
        Permutes membership for the null distribution. A simulation; nothing is released.
    k : int, optional
        The k in detail. Default: the best k on every other row, evaluated on the rows between, so that the choice does
        not bias the interval.
    trials : int, default 199
        Permutations.
    level : float, default 0.95
        Confidence level of the interval.
    groups : sequence of hashable of length m + s, optional
        Whose each row is, members before strangers, if a person has several rows. The permutations and the choice of k
        then go by person. The interval at one k still treats rows as independent and is too narrow.

    Returns
    -------
    MembershipByComponents

    Raises
    ------
    Refusal
        If there are too few rows for an interval, or a person is on both sides.

    Examples
    --------
    >>> from dosimeter.pca.components import components_of
    >>> rng = np.random.default_rng(0)
    >>> members, strangers = rng.normal(size=(30, 20)), rng.normal(size=(30, 20))
    >>> attack(components_of(members), members, strangers, rng, k=10, trials=19).k
    10
    """
    residuals = _residuals(components, members, strangers, False)
    m, s = (len(g) for g in residuals.groups)
    people = People.of(groups, m, s)
    permuted, even = permute_membership(people, rng, trials), people.choosing_half
    choosing_members = int(even[:m].sum())
    _refuse_few(m, s, None if k is not None else (m - choosing_members, int((~even[m:]).sum())))
    auc, halves, null = (
        np.empty(residuals.rank + 1),
        np.empty(residuals.rank + 1),
        np.empty((trials, residuals.rank + 1)),
    )
    for first, S in residuals.by_block():
        ranks, columns = np.array([midranks(row) for row in S]), slice(first, first + len(S))
        null[:, columns] = permutation_auc(ranks, permuted)
        auc[columns] = 1 - (ranks[:, :m].sum(axis=1) - m * (m + 1) / 2) / (m * s)
        if k is None:
            halves[columns] = [auc_of_small_residuals(row, choosing_members) for row in S[:, even]]
    detail_k, k_choice = (k, _FIXED) if k is not None else (int(halves[1:].argmax()) + 1, _CHOSEN)
    sides = zip(residuals.groups, (even[:m], even[m:]), strict=True)
    members_left, strangers_left = (g if k is not None else g[~used] for g, used in sides)
    detail = scores(components, members_left, strangers_left, detail_k, level=level, k_choice=k_choice)
    return MembershipByComponents(auc, detail, detail_k, NullBand(null))


def scores(
    components: Components | ArrayLike,
    members: ArrayLike,
    strangers: ArrayLike,
    k: int,
    *,
    level: float = 0.95,
    k_choice: str = "k fixed in advance",
) -> Scores:
    """Membership scores at one k: minus the reconstruction error of each row.

    Parameters
    ----------
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    members, strangers : array_like of shape (m, d) and (s, d)
        Rows before the components' mean is subtracted.
    k : int
        Number of components known.
    level : float, default 0.95
        Confidence level of the interval.
    k_choice : str
        How k was chosen; shown with the result.

    Returns
    -------
    Scores
        With AUC, its interval, and true positive rates at low false positive rates.

    Raises
    ------
    Refusal
        If k is out of range, or there are fewer than two rows on a side.

    Examples
    --------
    >>> scores(np.eye(2), [[3.0, 0.1], [2.0, 0.2]], [[1.0, 1.0], [5.0, 0.15]], 1).figure
    0.75
    """
    residuals = _residuals(components, members, strangers, False)
    error, m = residuals.at(k), len(residuals.groups[0])
    return Scores(f"reconstruction error, k = {k}", -error[:m], -error[m:], level, k_choice)


def reconstruction_error(rows: ArrayLike, components: Components | ArrayLike, k: int | None = None) -> FloatArray:
    """Squared reconstruction error of each row, ‖z - V_k V_kᵀ z‖², mean subtracted.

    Parameters
    ----------
    rows : array_like of shape (n, d)
        Rows before the components' mean is subtracted.
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    k : int, optional
        Number of components used; default: all.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    Refusal
        If k is out of range, or the columns do not match.

    Examples
    --------
    >>> reconstruction_error([[3.0, 4.0]], [[1.0], [0.0]]).tolist()
    [16.0]
    """
    residuals = Residuals.of(components, (rows,))
    return residuals.at(residuals.rank if k is None else k)


def decide(rows: ArrayLike, components: Components | ArrayLike, R: float) -> Mask:
    """Algorithm 1 of [Zari22]: classify a row as a member if its reconstruction error is at most R.

    Parameters
    ----------
    rows : array_like of shape (n, d)
        Rows before the components' mean is subtracted.
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    R : float
        Threshold on the squared error, >= 0.

    Returns
    -------
    ndarray of bool, shape (n,)

    Raises
    ------
    Refusal
        If R is negative.

    Examples
    --------
    >>> decide([[3.0, 4.0], [3.0, 0.5]], [[1.0], [0.0]], R=1.0).tolist()
    [False, True]
    """
    if not R >= 0:
        raise Refusal(f"R is a threshold on a squared length and must be >= 0, not {R}")
    return np.asarray(reconstruction_error(rows, components) <= R)


def _refuse_few(m: int, s: int, between: tuple[int, int] | None) -> None:
    """Two rows per side make an interval; `between`: the rows left after k is chosen on the others."""
    if min(m, s) < 2:
        advice = "give at least two of each; auc_by_components takes one"
        raise Refusal(f"{m} members and {s} strangers are too few for an interval: {advice}")
    if between is not None and min(between) < 2:
        left = f"{between[0]} members and {between[1]} strangers are left to evaluate it on"
        raise Refusal(f"too few people to choose k on every other one ({left}): pass k")


_FIXED = "k fixed in advance"
_CHOSEN = "k chosen on every other row, evaluated on the rows between"


def _residuals(components: Components | ArrayLike, members: ArrayLike, strangers: ArrayLike, whiten: bool) -> Residuals:
    known = components if isinstance(components, Components) else as_components(components)
    return Residuals.of(known, (members, strangers), whiten=whiten)
