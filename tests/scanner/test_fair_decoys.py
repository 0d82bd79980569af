"""Strangers measured with the same instruments share rounded values with a table, and none of its people."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.scanner.search import ByteSearch, Cells
from dosimeter.scanner.search.decoys import decoys

KINDS = ("<f8", "<f4", "written")


def cohort(rng: np.random.Generator, n: int) -> np.ndarray:
    """Rounded measurements as hospitals store them: normal, skewed, heaped at halves, and of one decimal."""
    heaped = np.where(rng.random(n) < 0.6, rng.normal(70, 12, n).round(0) + 0.5, rng.normal(70, 12, n).round(2))
    return np.column_stack(
        [rng.normal(26, 4, n).round(2), rng.lognormal(3, 1, n).round(2), heaped, rng.normal(13, 2, n).round(1),
         rng.normal(140, 3, n).round(3)]
    )  # fmt: skip


def stored(values: np.ndarray, kind: str, by_column: bool) -> bytes:
    values = np.ascontiguousarray(values.T) if by_column else values
    if kind == "written":
        return "\n".join(",".join(map(repr, line)) for line in values.tolist()).encode()
    return values.astype(kind).tobytes()


def cells_of(values: np.ndarray) -> Cells:
    return Cells(tuple("abcde"), values)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [100, 400, 3000])
def test_a_table_of_strangers_is_not_accused(n: int, kind: str, by_column: bool) -> None:
    rng = np.random.default_rng(n)
    search = ByteSearch(cells_of(cohort(rng, n)))
    for size in (60, 600):
        assert search.search(stored(cohort(rng, size), kind, by_column))[0] == []


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sixty_people_of_the_table_are_found(kind: str, by_column: bool) -> None:
    rng = np.random.default_rng(3)
    table = cohort(rng, 400)
    (match, *_), _ = ByteSearch(cells_of(table)).search(stored(table[90:150], kind, by_column))
    assert match.is_rows
    assert len(set(match.rows) & set(range(90, 150))) >= 50


def test_values_and_their_decoys_are_equally_likely_for_strangers() -> None:
    """The two counts of the test against each other over sixty tables of strangers: means that agree."""
    rng = np.random.default_rng(8)
    cells = cells_of(cohort(rng, 800))
    drawn = decoys(cells, 1)
    assert len(drawn.paired) == drawn.cells.n
    difference = []
    for _ in range(60):
        others = np.unique(cohort(rng, 800))
        difference.append(np.isin(drawn.paired, others).sum() - np.isin(drawn.cells.values, others).sum())
    spread = np.std(difference, ddof=1) / np.sqrt(60)
    assert abs(np.mean(difference)) < 5 * spread + 0.01 * len(drawn.paired)
