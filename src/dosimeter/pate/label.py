"""Labels by noisy vote, argmaxⱼ vⱼ + Nⱼ [Saeidian21, IV-A], and refusals, which count as outputs.

A refusal depends only on a noisy comparison and is an output like any other. A refusal by a fixed rule is not offered:
at its boundary one vote decides and the leakage is log 2 (docs/explanation/sharp-edges.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Mask
from dosimeter.core.density import Density
from dosimeter.core.engine import LocalEngine, RowBlock
from dosimeter.core.errors import Refusal
from dosimeter.core.release import Recipe, Release
from dosimeter.noise_addition.argmax import noisy_argmax, noisy_at_least
from dosimeter.noise_addition.bits import Bits, fresh_bits
from dosimeter.noise_addition.simulation import seeded_bits
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.vote_blocks import VoteBlocks, count_votes, read_block, vote_type
from dosimeter.pate.vote_noise import as_law
from dosimeter.pate.votes import Votes

REFUSED = -1
"""The label of a query that was not answered; in a channel's alphabet it is class m."""


@dataclass(frozen=True, eq=False)
class Labels:
    """The released labels: a class for each query, or -1 if the noisy threshold refused.

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> label(Votes([[0, 1]] * 100, n_classes=2), Laplace(1.0)).n_classes
    2
    """

    release: Release
    """Public: the values and their recipe."""

    @property
    def values(self) -> NDArray[np.int64]:
        """(queries,) in 0..m-1, or -1."""
        return self.stored.astype(np.int64)

    @property
    def stored(self) -> NDArray[Any]:
        """(queries,) the same numbers in a small integer type, read-only."""
        return self.release.values["labels"]

    @property
    def refused(self) -> Mask:
        """(queries,) True if no label was given."""
        return np.asarray(self.stored == REFUSED)

    @property
    def n_classes(self) -> int:
        """m."""
        return int(str(self.release.recipe.settings["classes"]))

    def __repr__(self) -> str:
        stamp = ", simulation, not for release" if self.release.recipe.simulation else ""
        return (
            f"<Labels of {len(self.stored)} queries, {int(self.refused.sum())} refused, "
            f"{self.n_classes} classes, {self.release.recipe.noise}{stamp}>"
        )


def label(
    votes: Votes,
    noise: Density,
    *,
    threshold: Threshold | None = None,
    rng: np.random.Generator | None = None,
    block_size: int | None = None,
) -> Labels:
    """Release the noisy argmax of every query; with a threshold, only if maxⱼ vⱼ + N₀ >= T.

    Parameters
    ----------
    votes : Votes
        Private votes.
    noise : Density
        Noise on each count, drawn anew for each query.
    threshold : Threshold, optional
        Refuse queries without a clear winner, by a noisy comparison.
    rng : numpy.random.Generator, optional
        A simulation, not for release; the recipe says so. Default: random bits from the operating system.

    block_size : int, optional
        Queries of a block; default by the numbers of teachers and classes. The labels have the same distribution.

    Returns
    -------
    Labels
        Public.

    Raises
    ------
    Refusal
        If `votes` is not a `Votes`.
    CannotMeasure
        If the noise cannot be accounted for.

    Notes
    -----
    Section IV-A of [Saeidian21]. The distribution is that of the ideal mechanism: nothing is rounded and nothing ties
    (`noise_addition.argmax`).

    Examples
    --------
    >>> from dosimeter.core.noise import Laplace
    >>> unanimous = Votes(np.zeros((1000, 3), int), n_classes=10)
    >>> label(unanimous, Laplace(1.0)).values
    array([0, 0, 0])
    >>> label(unanimous, Laplace(1.0), threshold=Threshold(2000.0, Laplace(1.0)), rng=np.random.default_rng(1))
    <Labels of 3 queries, 3 refused, 10 classes, Laplace(b=1.0), simulation, not for release>
    """
    if not isinstance(votes, Votes):
        raise Refusal(
            f"label takes Votes(array, n_classes) with the public number of classes, not {type(votes).__name__}"
        )
    law = as_law(noise)
    bits = fresh_bits() if rng is None else seeded_bits(rng)
    blocks = VoteBlocks(votes.values, votes.n_classes, block_size=block_size)
    blocks.announce("labelling")
    drawn = partial(block_labels, n_classes=votes.n_classes, noise=law, threshold=threshold, bits=bits)
    values = np.concatenate(LocalEngine().map_over(blocks, drawn))
    settings = {
        "teachers": votes.n_teachers,
        "queries": votes.n_queries,
        "classes": votes.n_classes,
        "threshold": None if threshold is None else threshold.T,
        "threshold noise": None if threshold is None else repr(threshold.noise),
    }
    recipe = Recipe("labels", repr(noise), settings, simulation=rng is not None)
    return Labels(Release({"labels": values}, recipe))


def block_labels(
    block: RowBlock, *, n_classes: int, noise: Density, threshold: Threshold | None, bits: Bits
) -> NDArray[Any]:
    """(queries,) labels of one block of (queries, teachers) votes, in a small integer type."""
    counts = count_votes(read_block(block[0], n_classes), n_classes).astype(np.float64)
    values = noisy_argmax(counts, noise, bits)
    if threshold is not None:
        # Draw the argmax for every query first: neither time nor bits then reveal which were refused.
        margin = counts.max(axis=1) - threshold.T
        values = np.where(noisy_at_least(margin, threshold.noise, bits), values, REFUSED)
    return values.astype(vote_type(n_classes))
