"""The readings of each block in a folder: one file a block, named by its first row, written whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.engines.checkpoint import read_sealed, write_sealed

_NAME = "readings-{first:015d}.npz"


def write_readings(folder: Path, first: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Keep the arrays of the block whose first row is `first`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    stream = io.BytesIO()
    np.savez(stream, **dict(arrays))  # type: ignore[arg-type]
    write_sealed(folder / _NAME.format(first=first), stream.getvalue(), lasting=False)


def read_readings(folder: Path, first: int) -> dict[str, NDArray[Any]]:
    """The arrays of a block."""
    return _load(folder / _NAME.format(first=first))


def every_reading(folder: Path) -> Iterator[dict[str, NDArray[Any]]]:
    """The arrays of all blocks, in the order of their first rows."""
    for path in sorted(folder.glob("readings-*.npz")):
        yield _load(path)


def _load(path: Path) -> dict[str, NDArray[Any]]:
    content = read_sealed(path, Location(str(path)).refusal("is damaged", "delete its folder and start again"))
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
