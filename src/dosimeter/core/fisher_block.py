"""Fisher blocks: a person's information matrix, kept so that releases about the same unknowns add exactly.

The norm of a sum of matrices is at most the sum of their norms; what lies between the two is what a ledger saves that
keeps the matrices.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.nano_units import amount_of

MOST_UNKNOWNS = 200
MOST_BLOCK_BYTES = 64 * 2**20
"""Of all blocks of one release together."""
_ALIKE = 1e-6
"""How far a block's norm may lie from the dose it belongs to, relatively: two routes to one number, and no more."""


@dataclass(frozen=True, eq=False)
class FisherBlock:
    """The information of a release about one person's unknowns. Internal: it tells more of them than their dose.

    >>> FisherBlock(("0/age", "0/label"), np.diag([0.04, 0.01])).norm
    0.04
    """

    unknowns: tuple[str, ...]
    """(m,) "row within the person/column", in the matrix's order; "*/column" for one value on all of their rows."""
    matrix: FloatArray = field(repr=False)
    """(m, m), symmetric, no negative eigenvalue."""
    at: bytes = field(default=b"", repr=False)
    """A digest of where the unknowns stood and of their units: another cell of the same name is another unknown."""

    def __post_init__(self) -> None:
        m = len(self.unknowns)
        if not 0 < m <= MOST_UNKNOWNS:
            raise Refusal(f"a block is kept for 1 to {MOST_UNKNOWNS} unknowns of a person, not for {m}")
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.shape != (m, m) or not np.isfinite(matrix).all() or not np.array_equal(matrix, matrix.T):
            raise Refusal(f"the block of {m} unknowns is a finite symmetric matrix of ({m}, {m}), not {matrix.shape}")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @cached_property
    def spectrum(self) -> FloatArray:
        """(m,) eigenvalues, the smallest first."""
        return np.asarray(np.linalg.eigvalsh(self.matrix))

    @property
    def norm(self) -> float:
        """η² of the unknowns together."""
        return max(0.0, float(self.spectrum[-1]))

    @property
    def data(self) -> bytes:
        """The matrix row by row, float64, little-endian."""
        return self.matrix.astype("<f8").tobytes()

    @cached_property
    def identity(self) -> bytes:
        """SHA-256 of what the block is about: blocks of one identity add entry by entry, others never do."""
        made = hashlib.sha256(len(self.unknowns).to_bytes(4, "big"))
        for part in (*(name.encode() for name in self.unknowns), self.at):
            made.update(len(part).to_bytes(8, "big") + part)
        return made.digest()


def check_blocks(blocks: Sequence[FisherBlock], values: FloatArray) -> None:
    """Refused where the blocks are not those of the doses `values` (k,), η², or are too large."""
    if len(blocks) != len(values):
        raise Refusal(f"a dose has a block for everybody or for nobody: {len(values)} ids, {len(blocks)} blocks")
    check_size([len(block.unknowns) for block in blocks])
    for block, value in zip(blocks, values.tolist(), strict=True):
        if not abs(block.norm - value) <= _ALIKE * value or block.spectrum[0] < -_ALIKE * value:
            raise Refusal(f"a block with η² = {block.norm:.6g} is not the matrix of a dose with η² = {value:.6g}")


def check_size(unknowns: Sequence[int]) -> None:
    """Refused where blocks of so many unknowns are too large to be kept."""
    if max(unknowns, default=0) > MOST_UNKNOWNS:
        raise Refusal(
            f"somebody has {max(unknowns)} unknowns (rows times columns) and blocks are kept up to {MOST_UNKNOWNS}: "
            "book without them"
        )
    size = sum(8 * m * m for m in unknowns)
    if size > MOST_BLOCK_BYTES:
        raise Refusal(
            f"the blocks have {size / 2**20:.0f} MB together and {MOST_BLOCK_BYTES >> 20} MB are kept: "
            "book without them"
        )


@dataclass(frozen=True, eq=False)
class SummedFisherBlocks:
    """Blocks of one person about the same unknowns, added entry by entry.

    >>> first = SummedFisherBlocks(np.diag([0.04, 0.0]), 40_000_000)
    >>> both = first + SummedFisherBlocks(np.diag([0.0, 0.09]), 90_000_000)
    >>> both.quadrature, both.amount                # the largest of the two directions, and never less than it
    (130000000, 90000001)
    """

    matrix: FloatArray
    quadrature: int
    """The sum of the amounts, nano-units of η²."""
    releases: int = 1

    def __add__(self, other: SummedFisherBlocks) -> SummedFisherBlocks:
        if not isinstance(other, SummedFisherBlocks):
            return NotImplemented
        return SummedFisherBlocks(
            self.matrix + other.matrix, self.quadrature + other.quadrature, self.releases + other.releases
        )

    @cached_property
    def amount(self) -> int:
        """The largest eigenvalue of the sum, rounded up; the amounts' own sum where that is not more."""
        if self.releases == 1 or not self.matrix.any():
            return self.quadrature
        m = len(self.matrix)
        # Rounding of the sum and of the eigenvalues moves the largest by less than this.
        slack = 1 + 4 * (m + self.releases) * float(np.finfo(np.float64).eps)
        top = float(np.linalg.eigvalsh(self.matrix)[-1]) * slack
        return min(self.quadrature, amount_of(max(top, 1e-9)))

    @property
    def saving(self) -> int:
        """How much less than in quadrature."""
        return self.quadrature - self.amount
