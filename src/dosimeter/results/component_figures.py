"""What a page draws of noised components: variance by k, the spread of doses, the attack by k. All of it internal."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.dose import Dose
from dosimeter.pca.membership import MembershipByComponents
from dosimeter.results.distribution import distribution
from dosimeter.results.people import PersonFigures, ranked

MOST = 64
"""Components shown one by one; more are thinned out to so many."""


def variance(A: FloatArray, vectors: FloatArray) -> dict[str, Any]:
    """Share of tr A, (d, d) about the mean, that the first k directions hold: the best, those released (d, r), random.

    >>> variance(np.diag([3.0, 1.0]), np.eye(2)[:, ::-1])
    {'k': [1, 2], 'exact': [0.75, 1.0], 'released': [0.25, 1.0], 'at_random': [0.5, 1.0]}
    """
    d, total = len(A), float(np.trace(A))
    best = np.cumsum(np.linalg.eigvalsh(A)[::-1]) / total
    held = np.cumsum(np.einsum("dk,dk->k", vectors, A @ vectors)) / total
    k = _thinned(vectors.shape[1])
    return {
        "k": k.tolist(),
        "exact": best[k - 1].tolist(),
        "released": held[k - 1].tolist(),
        "at_random": (k / d).tolist(),
    }


def by_components(found: MembershipByComponents) -> dict[str, Any]:
    """AUC when the first k components are seen, beside the middle 95 % of what chance gives."""
    k = _thinned(len(found.auc) - 1)
    low, high = np.quantile(found.null.auc[:, k], [0.025, 0.975], axis=0)
    return {"k": k.tolist(), "auc": found.auc[k].tolist(), "null_low": low.tolist(), "null_high": high.tolist()}


def doses(dose: Dose, ids: tuple[Any, ...] | None, positions: Any) -> dict[str, Any]:
    """The spread of a dose, and who carries most where positions (n,) of the rows in their source are known."""
    eta = dose.reading
    if not np.isfinite(eta).all():
        return {}
    told: dict[str, Any] = {
        "distribution": distribution(eta, of=dose.notion.symbol, unit="row" if ids is None else "person")
    }
    if positions is not None:
        if ids is not None:
            by_id = dict(zip(dose.ids, eta.tolist(), strict=True))
            eta = np.array([by_id[who] for who in dict.fromkeys(ids)])
        told["ranked"] = ranked(PersonFigures.named(eta, ids), positions)
    return told


def _thinned(r: int) -> Any:
    """(at most MOST,) from 1 to r, the first and the last among them."""
    return np.unique(np.linspace(1, r, min(r, MOST)).round().astype(int)) if r else np.array([], dtype=int)
