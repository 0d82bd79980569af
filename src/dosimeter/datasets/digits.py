"""Handwritten digits: 1,797 small ones that come with scikit-learn, and MNIST from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.datasets.papers import data_file, read_idx
from dosimeter.tables.table import Table

TARGET = "digit"
CLASSES = tuple("0123456789")
"""Known in advance, not read off the table."""
PRIVATE = 1300
"""The first this many rows are the private table, the rest the public one."""


def digits() -> tuple[Table, Table]:
    """A private and a public table: 64 pixels from 0 to 16, and the digit. The writers are not recorded.

    >>> [table.n for table in digits()]
    [1300, 497]
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    columns = {name: data.data[:, j] for j, name in enumerate(data.feature_names)}
    columns[TARGET] = np.array([str(k) for k in data.target.tolist()], dtype=object)
    parts = slice(PRIVATE), slice(PRIVATE, None)
    first, rest = (Table.of({name: column[part] for name, column in columns.items()}) for part in parts)
    return first, rest


def mnist(data: Path) -> tuple[FloatArray, Index, FloatArray, Index]:
    """Images (60000, 28, 28) in [0, 1] and labels (60000,), test images (10000, 28, 28) and labels (10000,)."""
    images_and_labels = {}
    for part in ("train", "t10k"):
        images_and_labels[part] = (
            read_idx(data_file(data, "mnist", f"{part}-images-idx3-ubyte.gz")) / 255.0,
            read_idx(data_file(data, "mnist", f"{part}-labels-idx1-ubyte.gz")).astype(np.intp),
        )
    return (*images_and_labels["train"], *images_and_labels["t10k"])


def pool_pixels(images: Any, side: int) -> FloatArray:
    """(n, (28/side)²) means over side x side blocks of pixels, one row per image: a public map, equal for all images.

    >>> pool_pixels(np.arange(16.0).reshape(1, 4, 4), 2).tolist()
    [[2.5, 4.5, 10.5, 12.5]]
    """
    n, h, w = images.shape
    if h % side or w % side:
        raise Refusal(f"images of {h} x {w} pixels cannot be divided into squares of {side}: use a divisor of both")
    return np.asarray(images.reshape(n, h // side, side, w // side, side).mean(axis=(2, 4)).reshape(n, -1))
