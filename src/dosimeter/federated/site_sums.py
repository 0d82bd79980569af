"""What a site sends in a round that protects patients: one sum of clipped updates, in whole steps, and one of bits.

The site draws its patients by the public rate, from its own bits, and tells nobody who was drawn or how many. Sums are
whole numbers, so the coordinator's total is the same as if one party had added all patients: a patient more or fewer
at any site moves it by at most C. The coordinator sees each site's sum without noise; all others see noised models.
A site that lies about its sum is not detected: it can send any sum up to its bound (docs/explanation/federated.md).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.checks import number
from dosimeter.core.errors import Refusal
from dosimeter.federated.clip import as_bound, clip_rows
from dosimeter.federated.exact_sum import grid_step, truncate
from dosimeter.federated.networks import Network
from dosimeter.federated.patient_updates import PatientRows, patient_updates
from dosimeter.noise_addition.bits import Bits


class RoundRequest(NamedTuple):
    """What the coordinator tells every site in a round: public numbers only.

    Parameters
    ----------
    round : int
        Its number, from 0.
    model : (d,) array
        The model, as released so far.
    clip : float
        C of this round.
    rate : float
        q, the probability with which each patient is drawn.
    patients : int
        K, the declared patients of all sites together; with C it fixes the step of the sums.
    learning_rate : float
        Of a patient's gradient step.

    Examples
    --------
    >>> RoundRequest(0, np.zeros(2), 1.0, 0.5, 100, 0.1).step == 2.0**-44
    True
    """

    round: int
    model: Any
    clip: float
    rate: float
    patients: int
    learning_rate: float

    @property
    def step(self) -> float:
        """The step of the sums, a power of two."""
        return grid_step(self.clip, self.patients)


class SiteSum(NamedTuple):
    """A site's answer. Not noised: for the coordinator alone.

    Parameters
    ----------
    steps : (d,) array of int64
        Sum of the clipped updates of the drawn patients, in steps.
    halves : int
        Sum over the drawn patients of +1 if the update was within C, -1 if it was clipped: twice the centred bits.

    Examples
    --------
    >>> SiteSum(np.array([3, -1]), 1).halves
    1
    """

    steps: Any
    halves: int


def draw_patients(patients: int, rate: float, bits: Bits) -> Index:
    """Numbers of the drawn patients, ascending: each with probability q, independently of all others.

    Parameters
    ----------
    patients : int
        Patients of the site.
    rate : float
        q, public.
    bits : callable
        Source of the site's own random words.

    Returns
    -------
    (c,) array of int
        May be empty. A patient is drawn with probability at most q, and at least q - 2^-64.

    Examples
    --------
    >>> from dosimeter.noise_addition.bits import fresh_bits
    >>> draw_patients(4, 1.0, fresh_bits()).tolist()
    [0, 1, 2, 3]
    """
    threshold = int(number("rate", rate, 0, 1) * 2.0**64)
    if threshold >= 1 << 64:
        return np.arange(patients)
    return np.flatnonzero(bits(patients) < np.uint64(threshold))


def site_sum(network: Network, rows: PatientRows, request: RoundRequest, drawn: Any) -> SiteSum:
    """The sum of the drawn patients' clipped updates, exact. Not noised: internal.

    Parameters
    ----------
    network : Network
        What is trained.
    rows : PatientRows
        The patients of the site.
    request : RoundRequest
        The public numbers of the round.
    drawn : (c,) array of int
        The patients of the round, from `draw_patients`.

    Returns
    -------
    SiteSum
        One patient more or fewer moves `steps` by at most C in the 2-norm, and `halves` by 1.

    Raises
    ------
    Refusal
        If the site has more patients than were declared for all sites, or the model has another size.

    Examples
    --------
    >>> rows = PatientRows.of(np.eye(2), [0, 1], [np.array([0]), np.array([1])])
    >>> request = RoundRequest(0, np.zeros(4), 1.0, 1.0, 2, 1.0)
    >>> answer = site_sum(Network((2, 2), bias=False), rows, request, [0, 1])
    >>> (answer.steps * request.step).tolist(), answer.halves
    ([0.5, -0.5, -0.5, 0.5], 2)
    """
    bound, chosen = as_bound(request.clip), np.asarray(drawn, dtype=np.intp)
    if rows.patients > request.patients:
        raise Refusal(f"the site has {rows.patients} patients, more than the {request.patients} declared for all sites")
    if np.shape(request.model) != (network.size,):
        raise Refusal(f"the model has shape {np.shape(request.model)}, but the network has {network.size} parameters")
    total, halves = np.zeros(network.size), 0
    for _, updates in patient_updates(network, request.model, rows, chosen, request.learning_rate):
        clipped = clip_rows(updates, bound)
        total += truncate(clipped.rows, request.step).sum(axis=0)
        within = clipped.norms[clipped.accepted] <= bound
        halves += 2 * int(within.sum()) - len(within)
    return SiteSum(total.astype(np.int64), halves)


def most_steps(request: RoundRequest, patients: int) -> int:
    """The largest entry, in steps, that the sum of this many patients can have."""
    return min(math.ceil(patients * request.clip / request.step), 1 << 53)


def encode_sum(answer: SiteSum) -> bytes:
    """The answer as 8(d + 1) bytes: little-endian int64, the steps and then the halves.

    Examples
    --------
    >>> encode_sum(SiteSum(np.array([1]), -1)).hex()
    '0100000000000000ffffffffffffffff'
    """
    return np.append(np.asarray(answer.steps, dtype="<i8"), np.int64(answer.halves)).astype("<i8").tobytes()


def decode_sum(data: bytes, request: RoundRequest, patients: int) -> SiteSum | None:
    """The answer of a site with this many declared patients, from untrusted bytes; None if it cannot be one.

    Parameters
    ----------
    data : bytes
        What the site sent. Its length is checked before numpy sees it.
    request : RoundRequest
        The round.
    patients : int
        Declared patients of the site: no entry can exceed their number times C.

    Returns
    -------
    SiteSum or None

    Examples
    --------
    >>> request = RoundRequest(0, np.zeros(1), 1.0, 1.0, 2, 1.0)
    >>> decode_sum(encode_sum(SiteSum(np.array([5]), 1)), request, 2)
    SiteSum(steps=array([5]), halves=1)
    >>> decode_sum(b"...", request, 2) is None, decode_sum(encode_sum(SiteSum(np.array([1 << 60]), 1)), request, 2)
    (True, None)
    """
    size = int(np.size(request.model))
    if type(data) is not bytes or len(data) != 8 * (size + 1):
        return None
    values = np.frombuffer(data, dtype="<i8").astype(np.int64)
    steps, halves = values[:-1], int(values[-1])
    most = most_steps(request, patients)
    # Compared without abs, which overflows at -2^63.
    if steps.max(initial=0) > most or steps.min(initial=0) < -most or abs(halves) > patients:
        return None
    return SiteSum(steps, halves)


def add_sums(answers: Any, size: int) -> tuple[FloatArray, int]:
    """The total of some sites in steps, (d,), and its halves; sums of whole numbers below 2^53, so without rounding."""
    total, halves = np.zeros(size, dtype=np.int64), 0
    for answer in answers:
        total += answer.steps
        halves += answer.halves
    return total.astype(np.float64), halves
