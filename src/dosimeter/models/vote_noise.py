"""The noise on the counts of votes, from public constants alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dosimeter.core.errors import LimitExceeded, Refusal
from dosimeter.core.face import option

if TYPE_CHECKING:
    from dosimeter.core.density import Density
    from dosimeter.pate.threshold import Threshold


@dataclass(frozen=True)
class VoteNoise:
    """The noise on each count of votes, and the noisy threshold if there is one."""

    noise: Density
    threshold: Threshold | None = None


def vote_noise(
    law: type[Density], limit: float | None, scale: float | None, T: float | None, sizes: tuple[int, int, int]
) -> VoteNoise:
    """The least noise of this law within the limit (nats), or the public scale, checked against the limit.

    T: votes that the first class needs for an answer. sizes: queries, classes, teachers.

    >>> from dosimeter.core.noise import Laplace
    >>> round(vote_noise(Laplace, 1.0, None, None, (10, 2, 50)).noise.scale, 2)
    4.72
    """
    from dosimeter.pate.budget import plan
    from dosimeter.pate.doses import public_bound
    from dosimeter.pate.threshold import free_threshold

    k, m, teachers = sizes
    if T is not None and not 0 < T <= teachers:
        shown = option("threshold", float(T))
        raise Refusal(f"{shown}: with {teachers} teachers give a number of votes from 1 to {teachers}")
    if scale is None and limit is not None:
        noise = plan(limit, k, m, law=law).noise
    else:
        of_scale: Any = law
        noise = of_scale(scale)
    threshold = None if T is None else free_threshold(T, noise, m)
    spent = public_bound(k, m, noise, threshold=threshold).nats
    if limit is not None and spent > limit:
        raise LimitExceeded(
            f"{k} queries with {noise!r} may leak {spent:.4g} nats, above the budget of {limit:g}; nothing was written"
        )
    return VoteNoise(noise, threshold)
