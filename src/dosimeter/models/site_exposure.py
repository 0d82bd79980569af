"""Whether exact sums would be nearly one patient's rows: what a site checks before a sum leaves it.

A sum over many rows still shows one of them if the others cancel in it. Two rules stop what a single answer could show:

- *The table.* A coordinator with XᵀX can form Σ (xᵀc) x for any c. Patient i's part of Σ (xᵀc)² is largest for one c,
  and there it is λ = the largest eigenvalue of Xᵢ (XᵀX)⁺ Xᵢᵀ. λ = 1 for a level that one patient has, for a column of
  row numbers with a level for each, and with more columns than rows. k patients who share a level have about 1/k.
- *The weights.* At weights of the coordinator's choice the loss may weigh all rows but a few with nearly nothing. With
  patients' weights s the sum rests on (Σs)²/Σs² of them.

Many exact sums together can still be solved for rows: neither rule is a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.glm.losses.scalar_loss import ScalarLoss

FEWEST_CARRIERS = 3.0
"""Patients on which a sum at given weights rests at least."""
REACH = 1e70
"""Of numbers in a question: products of four of them and the sums over rows stay in the range of float64."""
_RANK = 1e-10
"""Directions of XᵀX below this part of the largest are rounding."""


def person_numbers(ids: Sequence[Any]) -> Index:
    """(n,) each row's person, numbered from 0.

    >>> person_numbers(["a", "b", "a"]).tolist()
    [0, 1, 0]
    """
    known: dict[Any, int] = {}
    return np.array([known.setdefault(each, len(known)) for each in ids], dtype=np.intp)


def people_digests(X: FloatArray, ids: Sequence[Any]) -> list[str]:
    """A digest of each person's id and rows, hex, in no order of the people. As private as the rows.

    >>> before, after = people_digests(np.eye(2), ["a", "b"]), people_digests(np.eye(2)[:1], ["a"])
    >>> len(set(before) - set(after)), len(set(after) - set(before))
    (1, 0)
    """
    rows = np.ascontiguousarray(X, dtype=np.float64)
    digests: dict[Any, Any] = {}
    for person, row in zip(ids, rows, strict=True):
        if person not in digests:
            digests[person] = sha256(repr(person).encode())
        digests[person].update(row)
    return sorted(digest.hexdigest()[:24] for digest in digests.values())


def people_beyond(X: FloatArray, people: Index, share: float) -> int:
    """How many people have a larger part than `share` in some sum of squares over the rows; X with all its columns.

    >>> people_beyond(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), np.arange(4), 0.5)
    1
    """
    if share >= 1:
        return 0
    size = np.sqrt(np.einsum("np,np->p", X, X))
    used = X[:, size > 0] / size[size > 0]
    values, vectors = np.linalg.eigh(used.T @ used)
    keep = values > _RANK * values[-1]
    Z = used @ (vectors[:, keep] / np.sqrt(values[keep]))
    parts = np.bincount(people, weights=np.einsum("np,np->n", Z, Z))
    # The sum of a person's eigenvalues is an upper bound of the largest: only those beyond it need the eigenvalue.
    order = np.argsort(people, kind="stable")
    ends = np.cumsum(np.bincount(people))
    suspects = np.flatnonzero(parts > share)
    return sum(_largest(Z[order[ends[i - 1] if i else 0 : ends[i]]]) > share for i in suspects.tolist())


def _largest(Z: FloatArray) -> float:
    return float(np.linalg.norm(Z, 2)) ** 2 * (1 - 1e-9)


def carriers(weights: FloatArray, people: Index) -> float:
    """(Σs)²/Σs²: on how many people a sum with these weights of rows rests; s is a person's part of the weight.

    >>> carriers(np.array([1.0, 1.0, 1.0, 1e-9]), np.arange(4)) > 2.9, carriers(np.zeros(2), np.arange(2))
    (True, inf)
    """
    parts = np.bincount(people, weights=np.abs(weights))
    most = float(parts.max())
    if most == 0:
        return np.inf  # the sum is zero and shows nobody
    s: FloatArray = parts / most
    return float(s.sum() ** 2 / (s @ s))


def sums_rest_on_few(loss: ScalarLoss, margins: FloatArray, y: FloatArray, people: Index) -> bool:
    """Whether value, gradient or Hessian at these margins rests on fewer than three people.

    Sums of the squared loss are linear in the weights, so they say no more than XᵀX and Xᵀy. A Hessian of zeros is one
    of a step between two patients: the gradients before and after one of them differ by that patient's row.
    """
    if loss.name == "squared":
        return False
    with np.errstate(all="ignore"):
        curvature = loss.curvature(margins, y)
        parts: Iterable[FloatArray] = (loss.value(margins, y), loss.residual(margins, y), curvature)
        few = any(not np.isfinite(each).all() or carriers(each, people) < FEWEST_CARRIERS for each in parts)
        return few or not curvature.any()


def beyond_rounding(columns: FloatArray) -> bool:
    """Whether coordinates of the coordinator's choice run over or under: then a sum shows who is beyond a threshold.

    >>> beyond_rounding(np.eye(2)), beyond_rounding(np.diag([1.0, 1e200])), beyond_rounding(np.diag([1.0, 1e-200]))
    (False, True, True)
    """
    largest = np.abs(columns).max(axis=0)
    used = largest[largest > 0]
    return bool((largest > REACH).any() or (used < 1 / REACH).any() or not np.isfinite(largest).all())


def refuse_exposed(X: FloatArray, people: Index, share: float) -> None:
    """Refuse a table in which exact sums would be nearly a patient's rows."""
    count = people_beyond(X, people, share)
    if count:
        who = "a patient makes" if count == 1 else f"{count} patients make"
        raise Refusal(
            f"{who} up more than {share:g} of an exact sum, by a rare level or by too many columns: agree on fewer "
            "levels or columns, or on noise at the sites; largest-share in site.toml sets the limit"
        )
