"""Tables of a few thousand rows, and comparison of two results figure by figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CHANGES = ("gradient_norm", "frontier", "reproduce")
"""Fields that another order of sums may change, or that only tables in memory have."""


def people(n: int = 3000, seed: int = 0) -> dict[str, Any]:
    """Columns of every kind, a target for every loss, persons whose rows are adjacent and persons whose are not."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, size=n)
    adjacent = np.repeat(np.arange(n), sizes)[:n]
    scattered = rng.permutation(adjacent)
    X = rng.normal(size=(n, 3)) * [1.0, 12.0, 0.01] + [0.0, 50.0, 3.0]
    X[:5] += [4.0, 60.0, 0.05]
    city = np.array(["Ulm", "Graz", "Bonn", "Wien"])[rng.integers(0, 4, size=n)]
    sex = np.array(["f", "m"])[adjacent % 2]
    m = 0.5 * X[:, 0] + 0.03 * (X[:, 1] - 50) + 0.4 * (city == "Ulm") - 0.2
    return {
        "score": X[:, 0],
        "age": X[:, 1],
        "dose": X[:, 2],
        "visits": rng.integers(0, 5, size=n).astype(np.int64),
        "smokes": rng.random(n) < 0.3,
        "city": city,
        "sex": sex,
        "born": (1950 + adjacent % 37).astype(np.float64),
        "ill": np.where(rng.random(n) < 1 / (1 + np.exp(-m)), "yes", "no"),
        "cost": m + rng.normal(size=n),
        "stays": rng.poisson(np.exp(np.minimum(m, 2.0))).astype(np.int64),
        "adjacent": adjacent,
        "scattered": scattered,
    }


def written(path: Path, columns: dict[str, Any], rows: int = 320) -> Path:
    """The table as a Parquet file in row groups of that many rows."""
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def without_component_draw(result: Any) -> Any:
    """The result of `pca` without what depends on the draw."""
    variance = result.internal.variance.model_copy(update={"released": []})
    captured = result.internal.captured.model_copy(update={"q": 0.0})
    return result.with_fields(internal=result.internal.model_copy(update={"variance": variance, "captured": captured}))


def assert_same_figures(first: Any, second: Any, tolerance: float = 1e-9) -> None:
    """Every field of two results agrees, numbers to `tolerance` of their size."""
    differences: list[str] = []
    _compare(json.loads(first.to_json()), json.loads(second.to_json()), "", differences, tolerance)
    assert not differences, differences


def _compare(a: Any, b: Any, where: str, out: list[str], tolerance: float) -> None:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted({*a, *b} - set(CHANGES)):
            if key in a and key in b:
                _compare(a[key], b[key], f"{where}/{key}", out, tolerance)
            else:
                out.append(f"{where}/{key} is in one only")
    elif isinstance(a, list) and isinstance(b, list):
        if where == "/remarks":
            b = [remark for remark in b if "in memory only" not in remark]
        if len(a) != len(b):
            out.append(f"{where}: {a} and {b}")
        for k, (x, y) in enumerate(zip(a, b, strict=False)):
            _compare(x, y, f"{where}[{k}]", out, tolerance)
    elif isinstance(a, float) or isinstance(b, float):
        if not abs(a - b) <= tolerance * max(abs(a), abs(b)):
            out.append(f"{where}: {a} and {b}")
    elif a != b:
        out.append(f"{where}: {a!r} and {b!r}")
