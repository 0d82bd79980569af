"""A scaler that was fitted on the table: whether figures go through it, what it leaves at any noise, and words for it.

total: figures are those of weights folded into the columns' own units, through mean and deviation (docs/scaler.md).
held: mean and deviation count as public, as in the frozen figure; what they leave is then told beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dosimeter import glm
from dosimeter.adapters.features import Design
from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_list, safe_text
from dosimeter.glm.fitted_scaler import floor_of

SCALERS = ("total", "held")
STATISTIC = "mean and scale"
INSIDE = (
    "a file that still holds the fitted scaler (mean_ and scale_ of a Pipeline) gives cells away whatever the noise: "
    "the figure is of weights that leave without it, folded into the columns' own units"
)


def check_scaler(scaler: str) -> str:
    """One of SCALERS."""
    if scaler not in SCALERS:
        raise Refusal(f"scaler {safe_text(scaler)!r} is not 'total' or 'held'")
    return scaler


@dataclass(frozen=True, eq=False)
class ScalerReading:
    """The leakage that is told, and what a fitted scaler leaves of it at any noise."""

    leak: glm.Leakage
    floor: glm.Leakage | None = None
    """None where no scaler was fitted."""
    uncovered: tuple[str, ...] = ()
    """Of the design, with or without the scaler."""


def read_through(fit: glm.Fit, design: Design, y: FloatArray, how: dict[str, Any], scaler: str) -> ScalerReading:
    """The figure in the chosen way; `how` as `glm.measure` takes it. Cells that were filled in are no unknowns."""
    frozen = design.read(glm.measure(fit, design.X, y, **how))
    if not np.any(design.fitted):
        return ScalerReading(frozen, None, design.uncovered)
    total = design.read(glm.measure(fit, design.X, y, **how, scaled=design.fitted))
    held = scaler == "held"
    return ScalerReading(frozen if held else total, floor_of(total), design.uncovered if held else covered(design))


def covered(design: Design) -> tuple[str, ...]:
    """What is not covered although figures go through mean and deviation."""
    return tuple(note for note in design.uncovered if not note.startswith(f"{STATISTIC} of "))


def floor_under(leak: glm.Leakage, design: Design, fit: glm.Fit, how: dict[str, Any], law: Any) -> glm.Leakage | None:
    """The floor under another law of noise."""
    total = glm.measure(fit, design.X, fit.y, **{**how, "noise": law(1.0)}, scaled=design.fitted)
    found = floor_of(design.read(total))
    return None if found is None else replace(found, label=leak.label)


def floor_remark(design: Design, highest: float, scaler: str, unit: str) -> str:
    """What the scaler leaves at any noise, in words. Internal: it holds a figure."""
    names = fitted_sources(design)
    left = (
        f"mean and deviation of {safe_list(names, 6)} are statistics of the table: they leave up to η = {highest:.3g}"
    )
    if scaler == "total":
        return f"{left} of a {unit} at any noise, which is in the figures; declared bounds (--bounds) remove it"
    return f"{left} of a {unit} at any noise, which is NOT in the figures; use --scaler total or --bounds"


def fitted_sources(design: Design) -> list[str]:
    """Source columns that are standardised by the table."""
    touched = np.any(design.through[np.asarray(design.fitted)] != 0.0, axis=0)
    return [name for name, block in design.blocks.items() if any(touched[j] for j in block)]
