"""The exported pipeline of components on frames, whose codes are numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dosimeter.models.component_rows import component_rows, fitted_pipeline
from dosimeter.tables.bounds_file import TableBounds
from dosimeter.tables.declared_bounds import Range
from dosimeter.tables.table import Table

pd = pytest.importorskip("pandas")

FRAME = pd.DataFrame({"ward": [10, 2, 2, 10, 3], "age": [20.0, 30.0, 44.0, 50.0, 61.0], "code": [1, 0, 1, 1, 0]})


def release(d, k):
    """What a private release holds, with made-up components."""
    rng = np.random.default_rng(3)
    vectors = np.linalg.qr(rng.normal(size=(d, d)))[0]
    components = SimpleNamespace(vectors=vectors, mean=rng.normal(size=d), values=np.arange(d, 0.0, -1.0))
    recipe = SimpleNamespace(kind="pca", noise="none", settings={}, not_covered=())
    return SimpleNamespace(
        components=components, box=SimpleNamespace(d=d), n_samples=5, release=SimpleNamespace(recipe=recipe)
    )


@pytest.mark.parametrize("levels", [("10", "2", "3"), ("2", "3", "10"), ("3", "10", "2")])
def test_declared_levels_that_are_whole_numbers_are_read_from_a_frame_of_numbers(levels):
    table = Table.of(FRAME, text=["ward", "code"])
    declared = TableBounds({"age": Range(0.0, 100.0, 50.0), "ward": levels, "code": ("1", "0")}, public=True)
    rows = component_rows(table, declared, None)
    private = release(rows.X.shape[1], 2)
    model = fitted_pipeline(rows, private, 2)
    expected = (rows.X - private.components.mean) @ private.components.vectors[:, :2]
    np.testing.assert_allclose(model.transform(FRAME), expected, atol=1e-12)
    np.testing.assert_allclose(model.transform(FRAME[FRAME.columns[::-1]]), expected, atol=1e-12)
