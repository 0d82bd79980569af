"""The corpus of bad files: each one gives one clear line, quickly, and writes nothing."""

import os
import pickle
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dosimeter.adapters.read_model import read_model
from dosimeter.core.errors import Refusal
from dosimeter.tables.read import read_table

from .corpus import DANGEROUS, GOOD, JSON, TABLES, Canary, npy_of_objects

PATIENCE = 20.0
"""Seconds of the processor for a file of some kilobytes; a hundredth is usual."""


@pytest.fixture
def refused() -> Callable[..., str]:
    """Reads a file that must be refused: one printable line, soon, and nothing written."""

    def check(read: Callable[..., Any], path: Path, **options: Any) -> str:
        before = sorted(path.parent.rglob("*"))
        begin = time.process_time()
        with pytest.raises(Refusal) as caught:
            read(path, **options)
        assert time.process_time() - begin < PATIENCE
        assert sorted(path.parent.rglob("*")) == before
        line = str(caught.value)
        assert line.isprintable()
        assert line.count(": ") >= 2
        return line

    return check


@pytest.mark.parametrize("case", TABLES)
def test_a_bad_table_is_one_clear_line(case: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    name, data, message = TABLES[case]
    path = tmp_path / name
    path.write_bytes(data)
    assert re.search(message, refused(read_table, path))


@pytest.mark.parametrize("name", DANGEROUS)
@pytest.mark.parametrize("read", [read_table, read_model])
@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5, "npy"])
def test_a_pickle_is_refused_before_it_is_parsed_whatever_its_name(
    read: Callable[..., Any], name: str, protocol: int | str, tmp_path: Path, refused: Callable[..., str]
) -> None:
    canary = tmp_path / "canary"
    path = tmp_path / name
    path.write_bytes(npy_of_objects(canary) if isinstance(protocol, str) else pickle.dumps(Canary(canary), protocol))
    assert "not opened" in refused(read, path)
    assert not canary.exists()


@pytest.mark.parametrize("case", JSON)
def test_bad_coefficients_are_one_clear_line(case: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    data, message = JSON[case]
    path = tmp_path / "model.json"
    path.write_bytes(data)
    assert re.search(message, refused(read_model, path))


@pytest.mark.parametrize("read", [read_table, read_model])
def test_a_missing_file_is_one_clear_line(read: Any, tmp_path: Path, refused: Callable[..., str]) -> None:
    assert "no such file" in refused(read, tmp_path / "t.csv")
    assert "is a file, not a directory" in refused(read, Path(__file__) / "t.csv")


@pytest.mark.parametrize("read", [read_table, read_model])
def test_a_directory_is_one_clear_line(read: Any, tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "t.csv").mkdir()
    assert "is a directory" in refused(read, tmp_path / "t.csv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("read", [read_table, read_model])
def test_a_named_pipe_does_not_hang(read: Any, tmp_path: Path, refused: Callable[..., str]) -> None:
    os.mkfifo(tmp_path / "t.csv")
    assert "a pipe" in refused(read, tmp_path / "t.csv")


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_links_in_a_circle_are_one_clear_line(tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "t.csv").symlink_to(tmp_path / "t.csv")
    assert "circle" in refused(read_table, tmp_path / "t.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX modes")
def test_an_unreadable_file_is_one_clear_line(users_folder: Path, refused: Callable[..., str]) -> None:
    path = users_folder / "t.csv"
    path.write_bytes(GOOD)
    path.chmod(0)
    assert "permission" in refused(read_table, path)


def test_permission_denied_is_one_clear_line_for_root_too(
    tmp_path: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "t.csv"
    path.write_bytes(GOOD)
    monkeypatch.setattr(Path, "open", denied)
    assert "permission to read it is denied" in refused(read_table, path)


def test_a_file_above_the_limit_is_refused_unread(tmp_path: Path, refused: Callable[..., str]) -> None:
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.truncate(5 * 2**30)  # a hole: it takes no space
    assert "above the limit" in refused(read_table, path)
    path.write_bytes(GOOD)
    assert "above the limit of 10" in refused(read_table, path, limit=10)


@pytest.mark.parametrize("option", [{"delimiter": ""}, {"delimiter": "ab"}, {"delimiter": "1"}, {"delimiter": "\n"}])
def test_a_delimiter_that_cannot_be_one_is_refused(option: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(GOOD)
    with pytest.raises(Refusal, match="use one character"):
        read_table(tmp_path / "t.csv", **option)  # type: ignore[arg-type]


def test_a_column_that_is_named_must_exist(tmp_path: Path, refused: Callable[..., str]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(GOOD)
    assert "did you mean city?" in refused(read_table, path, drop=["citty"])
    assert "the columns are age, city" in refused(read_table, path, text=["zzz"])
    assert "every column is dropped" in refused(read_table, path, drop=["age", "city"])


def test_nothing_left_after_dropping_is_refused(tmp_path: Path, refused: Callable[..., str]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,\n2,\n")
    assert "every row has a missing value (column b)" in refused(read_table, path, missing="drop")
    path.write_bytes(b"a,b\n1,2\n2,\n")
    assert "only one row is left" in refused(read_table, path, missing="drop")


def test_a_hostile_file_name_is_shown_harmless(tmp_path: Path, refused: Callable[..., str]) -> None:
    path = tmp_path / "a\x1b[2J\nb.csv"
    path.write_bytes(b"")
    assert "\\x1b[2J\\x0ab.csv" in refused(read_table, path)


def test_a_name_that_holds_nul_is_refused() -> None:
    with pytest.raises(Refusal, match="remove the NUL character"):
        read_table("a\0b.csv")


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(TABLES) + len(JSON) >= 60
