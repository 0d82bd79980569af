"""People ranked by suspicion of membership: the smaller the reconstruction error, the likelier a member [Zari22]."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.pca.components import Components
from dosimeter.pca.membership import reconstruction_error


@dataclass(frozen=True, eq=False)
class MembershipRanking:
    """People ordered by suspicion of membership, the likeliest member first.

    Examples
    --------
    >>> rank_suspects([[3.0, 4.0], [3.0, 0.5]], ["ann", "bob"], [[1.0], [0.0]]).order.tolist()
    [1, 0]
    """

    ids: tuple[Hashable, ...]
    errors: FloatArray
    """(n,) reconstruction errors, rising."""
    order: Index
    """(n,) the row of each id."""


def rank_suspects(
    rows: ArrayLike, ids: Sequence[Hashable], components: Components | ArrayLike, k: int | None = None
) -> MembershipRanking:
    """Rank people by their reconstruction error; equals stay in the caller's order.

    Parameters
    ----------
    rows : array_like of shape (n, d)
        One row per person.
    ids : sequence of hashable of length n
        Their ids.
    components : Components or array_like of shape (d, k)
        Components, or intercepted vectors as columns.
    k : int, optional
        Number of components used; default: all.

    Returns
    -------
    MembershipRanking

    Raises
    ------
    Refusal
        If there is not one id per row.

    Examples
    --------
    >>> rank_suspects([[3.0, 4.0], [3.0, 0.5]], ["ann", "bob"], [[1.0], [0.0]]).ids
    ('bob', 'ann')
    """
    errors = reconstruction_error(rows, components, k)
    if len(ids) != len(errors):
        raise Refusal(f"{len(errors)} rows need one id each, not {len(ids)} ids")
    order = np.argsort(errors, kind="stable")
    return MembershipRanking(tuple(ids[i] for i in order), errors[order], order)
