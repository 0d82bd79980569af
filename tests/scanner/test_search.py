"""The search for many byte strings against `bytes.find`, at every offset and both ends of the data."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dosimeter.scanner import scan
from dosimeter.scanner.search.cells import Cells
from dosimeter.scanner.search.locate import Needles, locate
from dosimeter.scanner.search.needles import runs, words
from tests.scanner import people


def found_by_hand(data: bytes, needles: Needles) -> set[tuple[int, int]]:
    """(offset, needle) of every occurrence."""
    pairs = set()
    for k in range(needles.size):
        needle = needles.blob[needles.start[k] : needles.start[k] + needles.length[k]].tobytes()
        at = data.find(needle)
        while at >= 0:
            pairs.add((at, k))
            at = data.find(needle, at + 1)
    return pairs


def places(data: bytes, needles: Needles) -> set[tuple[int, int]]:
    result = locate(np.frombuffer(data, np.uint8), needles)
    assert result.too_common == 0
    return set(zip(result.offset.tolist(), result.needle.tolist(), strict=True))


def table(seed: int) -> Cells:
    """Many digits, one decimal and whole numbers."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=90), rng.normal(50, 9, 90).round(1), rng.integers(18, 90, 90).astype(float)]
    return Cells(("a", "b", "c"), np.column_stack(columns))


@pytest.mark.parametrize("before", [0, 1, 2, 3, 8, 131_071, 131_070])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_every_word_is_found_where_find_finds_it(before: int, after: int) -> None:
    """The first and the last bytes of a file, and the edges of the pieces in which it is read."""
    cells, rng = table(before), np.random.default_rng(after)
    for entry in words(cells):
        stored = cells.values[:40].ravel().astype(entry.encoding).tobytes()
        data = rng.bytes(before) + stored + rng.bytes(after)
        wanted = found_by_hand(data, entry.needles)
        assert len(wanted) >= 40
        assert places(data, entry.needles) == wanted


def test_every_run_is_found_where_find_finds_it() -> None:
    cells, rng = table(3), np.random.default_rng(1)
    kinds = 0
    for entry in runs(cells):
        needles = entry.needles
        chosen = range(0, needles.size, 3)
        body = b"".join(
            needles.blob[needles.start[k] : needles.start[k] + needles.length[k]].tobytes() + rng.bytes(k % 5)
            for k in chosen
        )
        wanted = found_by_hand(body, needles)
        assert len(wanted) >= len(chosen)
        assert places(body, needles) == wanted
        assert np.all(needles.key_at + 4 <= needles.length)
        kinds += 1
    assert kinds >= 5


def test_the_key_of_a_run_is_at_its_rarest_cell() -> None:
    cells = table(4)
    information = -np.log2(cells.shares[:, 2])
    (entry,) = [entry for entry in runs(cells) if entry.encoding == "<i4"]
    for k in range(entry.needles.size):
        cell = entry.cell[entry.first[k] : entry.first[k + 1]]
        if np.all(cell % cells.d == 2):
            rarest = int(information[cell // cells.d].argmax())
            assert entry.needles.key_at[k] == 4 * rarest


def test_bytes_without_the_needles_give_nothing() -> None:
    cells = table(5)
    for entry in [*words(cells, ("<f8", ">f8")), *runs(cells)]:
        assert places(np.random.default_rng(9).bytes(200_000), entry.needles) == set()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_table_of_fewer_rows_than_a_run_needs_is_searched(rows: int) -> None:
    """Rows of few bits are searched several together, and there may be no more rows; it had ended in a traceback."""
    cells = Cells(("a", "b", "c"), np.tile([[1.0, 2.0, 3.0]], (rows, 1)))
    assert [entry.needles.size for entry in runs(cells)] == [0 for _ in runs(cells)]


def test_a_table_is_prepared_once_for_all_files_of_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        for k in range(50):
            archive.writestr(f"{k}.pkl", pickle.dumps({"note": "nobody", "w": np.arange(5.0) + k}))
        archive.writestr("rows.pkl", pickle.dumps(people.X[30:60]))
    made = []

    def of(table):
        made.append(table)
        return cells_of(table)

    cells_of = Cells.of
    monkeypatch.setattr(Cells, "of", of)
    held = people.table()
    assert scan(tmp_path / "m.zip", held).matched_rows == tuple(range(31, 61))
    assert len(made) <= 2  # with ids and without
    assert scan(tmp_path / "m.zip", people.table()).matched_rows == tuple(range(31, 61))


@pytest.mark.parametrize("size", [40, 8000, 9000, 60_000])
def test_few_bytes_and_many_are_looked_up_alike(size: int) -> None:
    rng = np.random.default_rng(size)
    strings = [rng.bytes(8) for _ in range(200)]
    data = bytearray(rng.bytes(size))
    for at in range(0, size - 8, 97):
        data[at : at + 8] = strings[at % 200]
    needles = Needles.of_strings(strings, [2] * 200)
    assert places(bytes(data), needles) == found_by_hand(bytes(data), needles)
