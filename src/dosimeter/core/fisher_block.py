"""Fisher blocks: a person's information matrix, stored so that releases about the same unknowns add exactly.

The norm of a sum of matrices is at most the sum of their norms. A ledger that stores the matrices can use the smaller
of the two.
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
"""Limit on the total size of the blocks of one release."""
_TOLERANCE = 1e-6
"""Largest relative difference between a block's norm and its dose: the same number, computed in two ways."""


@dataclass(frozen=True, eq=False)
class FisherBlock:
    """The information of a release about one person's unknowns. Internal: it reveals more than the person's dose.

    >>> FisherBlock(("0/age", "0/label"), np.diag([0.04, 0.01])).norm
    0.04
    """

    unknowns: tuple[str, ...]
    """(m,) "row within the person/column", in the order of the matrix; "*/column" if all rows share one value."""
    matrix: FloatArray = field(repr=False)
    """(m, m), symmetric, no negative eigenvalue."""
    position_digest: bytes = field(default=b"", repr=False)
    """A digest of the unknowns' positions and units: a cell of the same name elsewhere is another unknown."""

    def __post_init__(self) -> None:
        m = len(self.unknowns)
        if not 0 < m <= MOST_UNKNOWNS:
            raise Refusal(f"a Fisher block has 1 to {MOST_UNKNOWNS} unknowns, not {m}")
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.shape != (m, m) or not np.isfinite(matrix).all() or not np.array_equal(matrix, matrix.T):
            raise Refusal(f"the block of {m} unknowns must be a finite symmetric matrix ({m}, {m}), not {matrix.shape}")
        matrix.setflags(write=False)
        object.__setattr__(self, "matrix", matrix)

    @cached_property
    def spectrum(self) -> FloatArray:
        """(m,) eigenvalues in increasing order."""
        return np.asarray(np.linalg.eigvalsh(self.matrix))

    @property
    def norm(self) -> float:
        """η² of all the unknowns together."""
        return max(0.0, float(self.spectrum[-1]))

    @property
    def data(self) -> bytes:
        """The matrix row by row, float64, little-endian."""
        return self.matrix.astype("<f8").tobytes()

    @cached_property
    def identity(self) -> bytes:
        """SHA-256 of the unknowns: only blocks with the same identity are added entry by entry."""
        digest = hashlib.sha256(len(self.unknowns).to_bytes(4, "big"))
        for part in (*(name.encode() for name in self.unknowns), self.position_digest):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()


def check_blocks(blocks: Sequence[FisherBlock], values: FloatArray) -> None:
    """Refuse blocks that do not match the doses `values` (k,), η², or are too large."""
    if len(blocks) != len(values):
        raise Refusal(f"a dose has one block per id or none: {len(values)} ids, {len(blocks)} blocks")
    check_size([len(block.unknowns) for block in blocks])
    for block, value in zip(blocks, values.tolist(), strict=True):
        if not abs(block.norm - value) <= _TOLERANCE * value or block.spectrum[0] < -_TOLERANCE * value:
            raise Refusal(f"a block with η² = {block.norm:.6g} does not match a dose with η² = {value:.6g}")


def check_size(unknowns: Sequence[int]) -> None:
    """Refuse blocks with these numbers of unknowns if they are too large to be stored."""
    if max(unknowns, default=0) > MOST_UNKNOWNS:
        raise Refusal(
            f"a person has {max(unknowns)} unknowns (rows times columns) and a block has at most {MOST_UNKNOWNS}: "
            "book without blocks"
        )
    size = sum(8 * m * m for m in unknowns)
    if size > MOST_BLOCK_BYTES:
        raise Refusal(
            f"the blocks take {size / 2**20:.0f} MB and at most {MOST_BLOCK_BYTES >> 20} MB are stored: "
            "book without blocks"
        )


@dataclass(frozen=True, eq=False)
class SummedFisherBlocks:
    """Blocks of one person about the same unknowns, added entry by entry.

    >>> first = SummedFisherBlocks(np.diag([0.04, 0.0]), 40_000_000)
    >>> both = first + SummedFisherBlocks(np.diag([0.0, 0.09]), 90_000_000)
    >>> both.quadrature, both.amount                # the larger of the two directions, rounded up
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
        """The largest eigenvalue of the sum, rounded up, but at most the sum of the amounts."""
        if self.releases == 1 or not self.matrix.any():
            return self.quadrature
        m = len(self.matrix)
        # Rounding in the sum and in the eigenvalues changes the largest by less than this factor.
        slack = 1 + 4 * (m + self.releases) * float(np.finfo(np.float64).eps)
        top = float(np.linalg.eigvalsh(self.matrix)[-1]) * slack
        return min(self.quadrature, amount_of(max(top, 1e-9)))

    @property
    def saving(self) -> int:
        """By how much it is below the sum of the amounts."""
        return self.quadrature - self.amount
