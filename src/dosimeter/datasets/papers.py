"""The papers' data, read from a folder that is never part of the package."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of one task."""

    X: FloatArray
    """(n, d)."""
    y: FloatArray
    """(n,)."""
    X_test: FloatArray
    y_test: FloatArray


def data_file(data: Path, *parts: str) -> Path:
    """The path of a file in the papers' data; refused if it does not exist."""
    path = data.joinpath(*parts)
    if not path.is_file():
        raise Refusal(f"{path} not found: set {option('data')} or DOSIMETER_DATA to the folder with the papers' data")
    return path


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file, the format of MNIST."""
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)


def mnist_zeros_and_ones(data: Path) -> Split:
    """MNIST digits 0 and 1, pixels in [0, 1], rows flattened: 12,665 to train, 2,115 to test."""
    parts: list[FloatArray] = []
    for part in ("train", "t10k"):
        images = read_idx(data_file(data, "mnist", f"{part}-images-idx3-ubyte.gz"))
        labels = read_idx(data_file(data, "mnist", f"{part}-labels-idx1-ubyte.gz"))
        keep = labels <= 1
        parts += [images[keep].reshape(int(keep.sum()), -1) / 255.0, labels[keep].astype(np.float64)]
    return Split(*parts)


def cifar_planes_and_cars(data: Path) -> Split:
    """CIFAR-10 planes (0) and cars (1), pixels in [0, 1], rows flattened: 10,000 to train, 2,000 to test."""
    with np.load(data_file(data, "cifar10_planes_cars", "cifar10_planes_cars.npz"), allow_pickle=False) as z:
        X, X_test = (z[k].reshape(len(z[k]), -1) / 255.0 for k in ("x_train", "x_test"))
        return Split(X, z["y_train"].astype(np.float64), X_test, z["y_test"].astype(np.float64))


IWPC_NUMBERS = ("age", "height", "weight", "amiodarone", "decr")


def iwpc(data: Path) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
    """Warfarin patients: column names, X (4819, 14), dose (4819,).

    Columns are in alphabetical order; the first level of each categorical column is dropped, as in the authors' program
    (the paper says the last).
    """
    with data_file(data, "iwpc", "iwpc-scaled.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    columns: dict[str, FloatArray] = {}
    for name in sorted(set(rows[0]) - {"dose"}):
        values = [row[name] for row in rows]
        if name in IWPC_NUMBERS:
            columns[name] = np.array(values, dtype=np.float64)
            continue
        for level in sorted(set(values))[1:]:
            columns[f"{name}={level}"] = np.array([v == level for v in values], dtype=np.float64)
    dose = np.array([row["dose"] for row in rows], dtype=np.float64)
    return tuple(columns), np.column_stack(list(columns.values())), dose


_ADULT_NUMBERS = (0, 2, 4, 10, 11, 12)
_MARRIED = ("Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent")


def adult(data: Path) -> tuple[tuple[str, ...], Split]:
    """Census incomes, 86 columns: complete rows, no relationship, marital status as one column (unmarried = 1)."""
    train, test = (_adult_rows(data_file(data, "adult", f"adult.{part}")) for part in ("data", "test"))
    names: list[str] = []
    blocks: list[tuple[FloatArray, FloatArray]] = []
    for k in range(14):
        if k == 7:
            continue
        a, b = ([row[k] for row in rows] for rows in (train, test))
        if k in _ADULT_NUMBERS:
            x, z = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
            centre, scale = x.mean(), x.std(ddof=1)
            names.append(f"column {k}")
            blocks.append(((x - centre) / scale, (z - centre) / scale))
        elif k == 5:
            names.append("unmarried")
            blocks.append((_indicator(a, _MARRIED, False), _indicator(b, _MARRIED, False)))
        else:
            for level in sorted(set(a))[:-1]:
                names.append(f"column {k}={level}")
                blocks.append((_indicator(a, (level,), True), _indicator(b, (level,), True)))
    y, y_test = (_indicator([row[14] for row in rows], (">50K",), True) for rows in (train, test))
    X, X_test = (np.column_stack([block[side] for block in blocks]) for side in (0, 1))
    return tuple(names), Split(X, y, X_test, y_test)


def _adult_rows(path: Path) -> list[list[str]]:
    lines = path.read_text().splitlines()
    return [
        [field.strip() for field in line.rstrip(".").split(",")]
        for line in lines
        if line.count(",") == 14 and "?" not in line
    ]


def _indicator(values: list[str], levels: tuple[str, ...], inside: bool) -> FloatArray:
    return np.array([(v in levels) == inside for v in values], dtype=np.float64)


def mnist(data: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """All 70,000 digits: grey levels (70000, 784) and labels (70000,), the 60,000 training images first."""
    parts = [
        [read_idx(data_file(data, "mnist", f"{part}-{content}-ubyte.gz")) for part in ("train", "t10k")]
        for content in ("images-idx3", "labels-idx1")
    ]
    images, labels = (np.concatenate(both) for both in parts)
    return images.reshape(len(images), -1), labels


def lfw(data: Path) -> NDArray[np.uint8]:
    """One face of each of 5,749 people, 25 x 18 grey levels per row, (5749, 450); no names."""
    with np.load(data_file(data, "lfw_25x18", "lfw_25x18.npz"), allow_pickle=False) as z:
        faces: NDArray[np.uint8] = z["images"]
    return faces.reshape(len(faces), -1)


def census(data: Path) -> tuple[tuple[str, ...], FloatArray]:
    """Incomes and taxes of 1,080 people: column names, (1080, 13). One column is the sum of two others: rank 12."""
    with data_file(data, "casc_census", "casc_census.csv").open(newline="") as handle:
        names, *rows = csv.reader(handle)
    return tuple(names), np.array(rows, dtype=np.float64)


ADULT_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
)  # fmt: skip


def adult_codes(data: Path) -> tuple[tuple[str, ...], FloatArray]:
    """All 48,842 census incomes with 14 columns: names, (48842, 14), training rows first.

    A category is coded by the rank of its name in alphabetical order, from 0; an unknown value (?) is a category like
    the others. [Zari22] keeps 14 columns and does not say how it codes categories.
    """
    rows = [
        [field.strip() for field in line.split(",")]
        for part in ("data", "test")
        for line in data_file(data, "adult", f"adult.{part}").read_text().splitlines()
        if line.count(",") == 14
    ]
    columns = list(zip(*rows, strict=True))[:14]
    numbers = [
        np.array(values, dtype=np.float64) if k in _ADULT_NUMBERS else _codes(values)
        for k, values in enumerate(columns)
    ]
    return ADULT_COLUMNS, np.column_stack(numbers)


def _codes(values: tuple[str, ...]) -> FloatArray:
    code = {level: k for k, level in enumerate(sorted(set(values)))}
    return np.array([code[v] for v in values], dtype=np.float64)
