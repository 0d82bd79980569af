"""A table of people with two kinds of columns, and what every test does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from dosimeter.scan import Scan, scan
from dosimeter.tables.table import Table

X, Y = load_breast_cancer(return_X_y=True)
NAMES = tuple(f"x{j}" for j in range(X.shape[1]))
CITY = np.array(["Ulm", "Graz", "Bern"], dtype=object)[np.arange(len(X)) % 3]
CITY[7] = "Vaduz"  # one person's alone


def table(**more: Any) -> Table:
    """The thirty columns, the target, and what else is given."""
    return Table.of({**{name: X[:, j] for j, name in enumerate(NAMES)}, "ill": Y == 1, **more})


def dumped(model: Any, folder: Path) -> Path:
    """The model as a .skops file."""
    import skops.io

    path = folder / "model.skops"
    skops.io.dump(model, path)
    return path


def scanned(model: Any, folder: Path, people: Table | None = None) -> Scan:
    """What is found in a dumped model."""
    return scan(dumped(model, folder), people)


def at(found: Scan, place: str, what: str = "") -> Any:
    """The finding at a place."""
    (one,) = [one for one in found.findings if one.place == place and what in one.what]
    return one
