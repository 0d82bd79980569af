"""The figures of `pca` on a table that was read in blocks: the same fields, from sums and selections over blocks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dosimeter.core.notion import FISHER, MEMBERSHIP, Standing
from dosimeter.engines.reading_store import every_reading
from dosimeter.models.block_components import COLUMNS, BlockComponents, BlockDoses
from dosimeter.models.component_release import PRESENCE
from dosimeter.results.component_parts import (
    NEAR,
    CapturedVariance,
    ComponentDoses,
    InternalComponentFigures,
    VarianceByComponents,
)
from dosimeter.results.distribution import bin_edges, distribution_of_counts
from dosimeter.results.parts import Distribution, Ranked
from dosimeter.results.visibility import present

COMPARES = {FISHER.key: NEAR, MEMBERSHIP.key: PRESENCE}


def block_component_figures(release: BlockComponents) -> InternalComponentFigures:
    """Everything that was computed from the table without protection, as `InternalComponentFigures.of`."""
    A, vectors = release.covariance, release.private.components.vectors
    eta, membership = (_doses(release, key) for key in (FISHER.key, MEMBERSHIP.key))
    by_person = release.model.person is not None
    return InternalComponentFigures(
        clipped_share=release.private.clipped_share,
        labels_outside_the_list=release.sums.unlisted,
        rows_left_out=release.incomplete,
        captured=CapturedVariance.of(A, vectors, release.k),
        **present(
            variance=VarianceByComponents.of(A, vectors) if np.any(A) else None,
            dose=eta,
            membership=membership if release.doses is not None else None,
            people=release.people if by_person else None,
            most_rows_of_a_person=release.most_rows if by_person else None,
        ),
        **_exposure(release),
    )


def _doses(release: BlockComponents, key: str) -> ComponentDoses:
    """Highest and median, or why there is none."""
    doses = release.doses
    if doses is None or key not in doses.highest:
        return ComponentDoses(not_measured=release.reason)
    notion = FISHER if key == FISHER.key else MEMBERSHIP
    standing = Standing.UNACCOUNTED if release.private.not_covered else Standing.UPPER_BOUND
    return ComponentDoses(
        symbol=notion.symbol,
        compares=COMPARES[key],
        unit="row" if release.model.person is None else "person",
        highest=doses.highest[key],
        typical=doses.typical[key],
        standing=standing.value,
    )


def _exposure(release: BlockComponents) -> dict[str, Any]:
    """The distribution of η and the most exposed, if η was measured and is bounded."""
    doses = release.doses
    if doses is None or not math.isfinite(doses.highest[FISHER.key]):
        return {}
    spread = _distribution(doses, "row" if release.model.person is None else "person")
    if release.incomplete:
        return {"distribution": spread}
    return {"distribution": spread, "ranked": _ranked(doses)}


def _distribution(doses: BlockDoses, unit: str) -> Distribution:
    highest = doses.highest[FISHER.key]
    edges = bin_edges(doses.lowest, highest) if highest > 0 else np.array([])
    counts: Any = np.zeros(max(0, len(edges) - 1), dtype=np.int64)
    if len(edges):
        for readings in every_reading(doses.reader.folder):
            eta = readings[COLUMNS[FISHER.key]]
            counts = counts + np.histogram(eta[eta > 0], edges)[0]
    return distribution_of_counts(edges, counts, doses.zero, of=FISHER.symbol, unit=unit, limit=None)


def _ranked(doses: BlockDoses) -> list[Ranked]:
    typical, ranked = doses.typical[FISHER.key], []
    for k, (eta, row) in enumerate(zip(doses.top.values.tolist(), doses.top.rows.tolist(), strict=True)):
        over = eta / typical if typical > 0 else 1.0 if eta == 0 else math.inf
        ranked.append(Ranked(rank=k + 1, row=int(row) + 1, dose=eta, over_typical=over))
    return ranked
