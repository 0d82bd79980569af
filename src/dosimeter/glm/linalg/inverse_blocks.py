"""The inverse of a block-diagonal derivative dG/dθ, block by block, with its condition number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal

LIMIT = 1e10
"""Condition numbers above this are refused: the relative error of an inverse, about ε times it, would pass 1e-5."""


@dataclass(frozen=True, eq=False)
class InverseBlocks:
    """(dG/dθ)⁻¹ as its diagonal blocks; without blocks it is the identity."""

    blocks: tuple[FloatArray, ...]
    """(p, p) each, in the order of the parameters."""
    condition: float
    """The largest condition number of a block, its rows and columns scaled to a diagonal of one."""
    scale: FloatArray
    """(q,) √|diagonal| of dG/dθ: the unit of each parameter in which the diagonal is one."""

    def times(self, B: FloatArray) -> FloatArray:
        """(..., q, u) the inverse times B (..., q, u)."""
        if not self.blocks:
            return B
        if len(self.blocks) == 1:
            return self.blocks[0] @ B
        out, first = np.empty(B.shape), 0
        for block in self.blocks:
            part = (..., slice(first, first + len(block)), slice(None))
            out[part] = block @ B[part]
            first += len(block)
        return out


def invert(blocks: Sequence[FloatArray], q: int) -> InverseBlocks:
    """The inverse of q parameters' derivative from its diagonal blocks; singular ones are refused."""
    if not blocks:
        return InverseBlocks((), 1.0, np.ones(q))
    inverses, scales, condition = [], [], 1.0
    for number, block in enumerate(blocks):
        scale = np.sqrt(np.abs(np.diag(block)))
        if not np.isfinite(block).all() or not (scale > 0).all():
            raise Refusal(_undetermined(number, np.inf))
        scaled = block / np.outer(scale, scale)
        condition = max(condition, float(np.linalg.cond(scaled)))
        if not condition <= LIMIT:
            raise Refusal(_undetermined(number, condition))
        inverses.append(np.linalg.inv(scaled) / np.outer(scale, scale))
        scales.append(scale)
    return InverseBlocks(tuple(inverses), condition, np.concatenate(scales))


def _undetermined(number: int, condition: float) -> str:
    return (
        f"the estimating equations do not determine the parameters of block {number} (condition number "
        f"{condition:.1e}, {LIMIT:.0e} is accepted): drop dependent columns, centre columns far from zero, or use a "
        "larger penalty"
    )
