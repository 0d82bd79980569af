"""Reweighting to equal figures, and its total derivative, against plain fits with their figures."""

from __future__ import annotations

from collections.abc import Iterator

from dosimeter import glm
from dosimeter.datasets.papers import iwpc
from dosimeter.glm.reweighting.irfil import irfil
from dosimeter.glm.reweighting.reweighted_leakage import total_leakage
from harness.registry import Ratio, Settings, row
from harness.timing import least
from irfil import L2, ONE, VKORC1

ROUNDS = 10


@row("irfil", "Reweighting to equal figures (IRFIL) on warfarin patients", needs=("iwpc",))
def against_fits(settings: Settings) -> Iterator[Ratio]:
    """T reweightings against T + 1 fits with the figures of every row; the total derivative against one reweighting."""
    _, X, y = iwpc(settings.data)
    X, y = (X[:1000], y[:1000]) if settings.quick else (X, y)
    for name, columns in (("vkorc1", VKORC1), ("whole row", None)):

        def reweighting(columns: list[int] | None = columns) -> object:
            return irfil(X, y, glm.Squared(), L2, rounds=ROUNDS, columns=columns, tolerance=0.0)

        reweighted = reweighting()
        once, plain, back = least(
            settings.runs,
            reweighting,
            lambda: glm.measure(glm.fit(X, y, glm.Squared(), L2), X, y, ONE).examples,
            lambda reweighted=reweighted: total_leakage(reweighted, X, y, ONE),
        )
        size = f"{name}, {len(X):,} x {X.shape[1]}, {ROUNDS} rounds"
        yield Ratio(f"irfil, {size}", once, plain * (ROUNDS + 1), f"{ROUNDS + 1} fits with every η")
        yield Ratio(f"total derivative, {size}", back, once, "one reweighting")
