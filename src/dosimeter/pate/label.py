"""Labels by noisy vote, argmaxⱼ vⱼ + Nⱼ [Saeidian21, IV-A], and refusals that are paid for.

A refusal follows from a noisy comparison alone and is an output like any other. A refusal by a fixed rule is not
offered: at its boundary one vote decides and the leakage is log 2 (docs/sharp-edges.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import Mask
from dosimeter.core.density import Density
from dosimeter.core.errors import Refusal
from dosimeter.core.release import Recipe, Release
from dosimeter.noise_addition.argmax import noisy_argmax, noisy_at_least
from dosimeter.noise_addition.bits import fresh
from dosimeter.noise_addition.simulation import seeded
from dosimeter.pate.histograms import as_law
from dosimeter.pate.threshold import Threshold
from dosimeter.pate.votes import Votes

REFUSED = -1
"""The label of a query that was not answered; in a channel's alphabet it is class m."""


@dataclass(frozen=True, eq=False)
class Labels:
    """What the student gets: a class for each query, or -1 where the noisy threshold refused."""

    release: Release

    @property
    def values(self) -> NDArray[np.int64]:
        """(queries,) in 0..m-1, or -1."""
        return self.release.values["labels"].astype(np.int64)

    @property
    def refused(self) -> Mask:
        """(queries,) where no label was given."""
        return np.asarray(self.values == REFUSED)

    @property
    def n_classes(self) -> int:
        """m."""
        return int(str(self.release.recipe.settings["classes"]))

    def __repr__(self) -> str:
        stamp = ", simulation, not for release" if self.release.recipe.simulation else ""
        return (
            f"<Labels of {len(self.values)} queries, {int(self.refused.sum())} refused, "
            f"{self.n_classes} classes, {self.release.recipe.noise}{stamp}>"
        )


def label(
    votes: Votes, noise: Density, *, threshold: Threshold | None = None, rng: np.random.Generator | None = None
) -> Labels:
    """The noisy argmax of every query, each with noise of its own; with a threshold, only where maxⱼ vⱼ + N₀ >= T.

    The law is that of the ideal mechanism: nothing is rounded and nothing ties (`noise_addition.argmax`). Without an
    rng the bits come from the operating system; with one it is a simulation and the recipe says so.

    >>> from dosimeter.core.noise import Laplace
    >>> unanimous = Votes(np.zeros((1000, 3), int), n_classes=10)
    >>> label(unanimous, Laplace(1.0)).values
    array([0, 0, 0])
    >>> label(unanimous, Laplace(1.0), threshold=Threshold(2000.0, Laplace(1.0)), rng=np.random.default_rng(1))
    <Labels of 3 queries, 3 refused, 10 classes, Laplace(b=1.0), simulation, not for release>
    """
    if not isinstance(votes, Votes):
        raise Refusal(
            f"label takes Votes(array, n_classes): the number of classes is public, got {type(votes).__name__}"
        )
    law = as_law(noise)
    bits = fresh() if rng is None else seeded(rng)
    counts = votes.counts.astype(np.float64)
    values = noisy_argmax(counts, law, bits)
    if threshold is not None:
        # The argmax is drawn first and for every query: neither the time nor the bits tell which were refused.
        margin = counts.max(axis=1) - threshold.T
        values = np.where(noisy_at_least(margin, threshold.noise, bits), values, REFUSED)
    settings = {
        "teachers": votes.n_teachers,
        "queries": votes.n_queries,
        "classes": votes.n_classes,
        "threshold": None if threshold is None else threshold.T,
        "threshold noise": None if threshold is None else repr(threshold.noise),
    }
    recipe = Recipe("labels", repr(noise), settings, simulation=rng is not None)
    return Labels(Release({"labels": values.astype(np.float64)}, recipe))
