"""A table of people with two kinds of columns, and helpers for the tests of scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from dosimeter.scanner import Scan, scan
from dosimeter.tables.table import Table

X, Y = load_breast_cancer(return_X_y=True)
NAMES = tuple(f"x{j}" for j in range(X.shape[1]))
CITY = np.array(["Ulm", "Graz", "Bern"], dtype=object)[np.arange(len(X)) % 3]
CITY[7] = "Vaduz"  # held by one person only


def table(**more: Any) -> Table:
    """The thirty columns, the target, and further columns."""
    return Table.of({**{name: X[:, j] for j, name in enumerate(NAMES)}, "ill": Y == 1, **more})


def dump_model(model: Any, folder: Path) -> Path:
    """Write the model as a .skops file."""
    import skops.io

    path = folder / "model.skops"
    skops.io.dump(model, path)
    return path


def scan_model(model: Any, folder: Path, people: Table | None = None) -> Scan:
    """Scan a dumped model."""
    return scan(dump_model(model, folder), people)


def finding_at(result: Scan, place: str, content: str = "") -> Any:
    """The finding at a place."""
    (finding,) = [finding for finding in result.findings if finding.place == place and content in finding.content]
    return finding
