"""Unique numbers in every numeric cell and unique ids: what is released has none of them, in no rounding.

Names of columns and levels of categories are no canaries: they stand in released models by design. The encoders of a
linear model and of components list their levels, a network's metadata lists levels and classes, a labelling classes.
Internal files (doses, dose files, checkpoints, the internal page with --show-ids) have ids by design too.
"""

from __future__ import annotations

import io
import json
import re
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from dosimeter.cli.main import run
from tests.reports.verbs import COLUMNS, WRITES, commands, facts_of, people, prepare

SEED = 7
VERBS = [verb for verb in commands(Path()) if verb not in ("demo", "federate plan", "pca open")]
NUMBERS = ("age", "bmi", "score")
INPUTS = {"table.csv", "classes.csv", "public.csv", "bounds.toml"}
ID = re.compile(rb"(?:canary|site)-[0-9a-f]{15}")
WRITTEN = re.compile(rb"(?<![\d.])\d{4}\.\d{2,}")
"""A number from 1000 to 9999 with six digits or more: all planted ones are."""
CELLS = np.sort([row[COLUMNS.index(name)] for row in people(SEED) for name in NUMBERS])
NAMES = {row[COLUMNS.index(name)].encode() for row in people(SEED) for name in ("who", "site")}


def hits(data: bytes) -> list[str]:
    """Planted values in some bytes: ids, numbers to six digits or more, float64; archives are opened, however deep."""
    found = [name.decode() for name in ID.findall(data) if name in NAMES]
    found += [text.decode() for text in WRITTEN.findall(data) if _near(float(text))]
    found += [f"float64 {value!r}" for value in _floats(data)]
    for part in _parts(data):
        found += hits(part)
    return found


def _near(value: float) -> bool:
    """Whether a planted number rounds to it, or it to one, at six digits."""
    k = int(np.searchsorted(CELLS, value))
    return any(abs(value - cell) <= 0.005000001 for cell in CELLS[max(k - 1, 0) : k + 1])


def _floats(data: bytes) -> list[float]:
    """Planted numbers among the float64 at any place, in either byte order; text holds none."""
    with suppress(UnicodeDecodeError):
        data.decode()
        return []
    found: list[float] = []
    for start in range(min(8, len(data))):
        whole = data[start : start + (len(data) - start) // 8 * 8]
        for order in ("<f8", ">f8"):
            values = np.frombuffer(whole, order)
            found += values[np.isin(values, CELLS)].tolist()
    return found


def _parts(data: bytes) -> Iterator[bytes]:
    if zipfile.is_zipfile(io.BytesIO(data)) and data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from (archive.read(name) for name in archive.namelist())


def files(folder: Path) -> dict[str, bytes]:
    """Everything under a folder but the tables that were put there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in INPUTS
    }


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A folder with the planted table, and a folder for temporary files that is looked at too."""
    aside = tmp_path / "temporary"
    aside.mkdir()
    monkeypatch.setenv("TMPDIR", str(aside))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return prepare(tmp_path / "house", SEED)


def clean(capfd, *folders: Path) -> None:
    """No planted value on the terminal or in any file."""
    shown = capfd.readouterr()
    assert hits(shown.out.encode()) == []
    assert hits(shown.err.encode()) == []
    for folder in folders:
        for name, data in files(folder).items():
            assert hits(data) == [], name
            assert hits(name.encode()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_no_planted_value_leaves_the_house(house, tmp_path, capfd, verb):
    facts_of(house, verb)
    place = house / verb.replace(" ", "-")
    result = str(place / "facts.json")
    for name, more in (("external", []), ("statistics", ["--statistics"]), ("inside", ["--edition", "internal"])):
        arguments = ["report", result, "--out", str(place / f"{name}.html"), "--json", str(place / f"{name}.json")]
        assert run([*arguments, *more]) == 0
    assert run(["report", result, "--card", str(place / "card.md")]) == 0
    made = files(house)
    assert {Path(name).suffix for name in made} >= {
        ".html",
        ".json",
        ".md",
        *([Path(WRITES[verb]).suffix] if verb in WRITES else []),
    }
    clean(capfd, house, tmp_path / "temporary")


def test_ids_are_shown_where_somebody_asks_for_them_and_in_the_internal_edition_alone(house, capfd):
    facts_of(house, "measure", ["--show-ids"])
    place = house / "measure"
    result = str(place / "facts.json")
    assert any("canary" in hit for hit in hits(capfd.readouterr().out.encode()))
    assert run(["report", result, "--out", str(place / "inside.html"), "--edition", "internal"]) == 0
    assert run(["report", result, "--out", str(place / "external.html"), "--statistics"]) == 0
    assert run(["report", result, "--card", str(place / "card.md")]) == 0
    assert any("canary" in hit for hit in hits((place / "inside.html").read_bytes()))
    assert hits((place / "external.html").read_bytes()) == []
    assert hits((place / "card.md").read_bytes()) == []


def test_bounds_read_off_the_table_are_the_only_cells_that_a_model_said_to_be_not_private_shows(house, capfd):
    """pca --not-private: the scaler holds lowest and highest values, which are cells; every figure is unaccounted."""
    facts = facts_of(house, "pca open")
    assert facts["guarantee"]["standing"] == "unaccounted"
    model = (house / "pca-open" / "model.skops").read_bytes()
    columns = np.array([[row[COLUMNS.index(name)] for name in NUMBERS] for row in people(SEED)])
    ends = {f"float64 {value!r}" for value in [*columns.min(axis=0).tolist(), *columns.max(axis=0).tolist()]}
    assert hits(model)
    assert set(hits(model)) <= ends
    (house / "pca-open" / "model.skops").unlink()
    result = str(house / "pca-open" / "facts.json")
    assert run(["report", result, "--out", str(house / "external.html"), "--statistics"]) == 0
    clean(capfd, house)


@pytest.mark.parametrize(
    "words",
    [
        "fix table.csv --target score --person who --exclude ill --exclude site --scale 1e-3 --max-dose 1e-3 "
        "--out m.skops",
        "measure table.csv --target nobody",
        "measure table.csv --target score --exclude site --exclude ill --scale 1",
        "measure table.csv --target who --scale 1",
        "measure table.csv --target score --person who --tied age --exclude site --exclude ill --scale 1",
        "pca table.csv --epsilon 1 --bounds bounds.toml --out m.skops",
        "pate table.csv --target score --public public.csv --scale 1 --out labels.csv",
        "pate table.csv --target ill --public public.csv --scale 1 --classes no,maybe --exclude site --out labels.csv",
        "federate --table table.csv --target score --client who --epsilon 1 --out m.safetensors",
    ],
)
def test_a_refusal_quotes_no_planted_value(house, tmp_path, capfd, monkeypatch, words):
    monkeypatch.chdir(house)
    assert run(words.split()) != 0
    clean(capfd, house, tmp_path / "temporary")


@pytest.mark.parametrize("verb", ["fix", "pca", "pate", "federate"])
def test_the_ledger_and_its_exports_know_nobody_by_name(house, tmp_path, capfd, verb):
    """The dose file and the table are internal; what is booked from them is not known by name."""
    ledger = str(house / "book.sqlite")
    assert run(["ledger", "init", "--ledger", ledger, "--budget", "fil=1000"]) == 0
    facts_of(house, verb, ["--ledger", ledger, "--name", "first", "--to", "partners"])
    for words in ("list", "budget", "verify", "export", "export --format csv"):
        assert run(["ledger", *words.split(), "--ledger", ledger]) == 0
    with closing(sqlite3.connect(ledger)) as book:
        booked = "\n".join(book.iterdump())
    assert "first" in booked
    assert hits(booked.encode()) == []
    clean(capfd, house, tmp_path / "temporary")


def test_a_release_that_is_booked_later_tells_no_name_either(house, tmp_path, capfd):
    ledger, place = str(house / "book.sqlite"), house / "fix"
    assert run(["ledger", "init", "--ledger", ledger]) == 0
    facts_of(house, "fix", ["--no-ledger", "--dose-file", str(house / "dose.json")])
    arguments = ["release", str(place / "model.skops"), "--dose-file", str(house / "dose.json"), "--ledger", ledger]
    assert run([*arguments, "--name", "first", "--out", str(place / "sent.skops")]) == 0
    dose = house / "dose.json"
    assert any("canary" in hit for hit in hits(dose.read_bytes()))
    dose.unlink()
    clean(capfd, house, tmp_path / "temporary")


# --- the search itself ---


def _zipped(name: str, data: bytes) -> bytes:
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return box.getvalue()


def _array(values: np.ndarray) -> bytes:
    box = io.BytesIO()
    np.save(box, values)
    return box.getvalue()


ROW = people(SEED)[3]
PLANTED = {
    "an id": f"the person {ROW[0]} was seen".encode(),
    "a client": json.dumps({"clients": [ROW[6]]}).encode(),
    "a number": f"age: {ROW[1]}".encode(),
    "six digits of it": f"<td>{ROW[2]:.6g}</td>".encode(),
    "eight digits of it": f"{ROW[4]:.8g}".encode(),
    "an array": _array(np.array([0.5, ROW[1]])),
    "an array of the other byte order": _array(np.array([ROW[1]], dtype=">f8")),
    "an array in an archive": _zipped("array.npy", _array(np.array([[ROW[1], 2.0]]))),
    "an archive in an archive": _zipped("inner.skops", _zipped("schema.json", ROW[0].encode())),
}


@pytest.mark.parametrize("where", list(PLANTED))
def test_a_planted_value_is_found_wherever_it_lies(where):
    assert hits(PLANTED[where]) != []


def test_a_model_that_keeps_its_rows_is_found(house):
    import skops.io as sio
    from sklearn.neighbors import KNeighborsRegressor

    rows = people(SEED)
    X = np.array([[row[COLUMNS.index(name)] for name in ("age", "bmi")] for row in rows])
    model = KNeighborsRegressor().fit(X, np.arange(len(X)))
    assert len(hits(sio.dumps(model))) >= len(X)


def test_what_is_no_canary_is_not_found():
    assert hits(b"north south yes no 1234.5 17 0.25 Gaussian(sigma=1.0)") == []
