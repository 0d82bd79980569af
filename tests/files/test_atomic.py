"""Files are written atomically, and never over an input."""

import os
import stat
import sys
from pathlib import Path

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.files.atomic import atomic_file, check_output, write_bytes, write_text

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX only")


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_text(tmp_path / "a.json", "größe\r\n")
    write_bytes(tmp_path / "b.bin", b"\x00\xff")
    assert (tmp_path / "a.json").read_bytes() == "größe\r\n".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"


@posix
def test_only_the_owner_can_read_it_even_if_all_could_before(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o666)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "new"


@pytest.mark.parametrize("failure", [KeyboardInterrupt, SystemExit, ValueError, MemoryError, GeneratorExit])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, failure: type[BaseException]) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def write() -> None:
        with atomic_file(path) as file:
            file.write(b"half")
            raise failure

    with pytest.raises(failure):
        write()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_is_one_clear_line_and_leaves_nothing(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(Refusal, match="the disk is full"):
        write_text(tmp_path / "a.json", "new")
    assert os.listdir(tmp_path) == []


def test_the_output_is_never_the_input_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("old")
    os.link(path, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(path)
    (tmp_path / "folder").mkdir()
    for name in ("people.csv", "hard.csv", "soft.csv", "folder/../people.csv"):
        with pytest.raises(Refusal, match="the output is the input"):
            write_text(tmp_path / name, "new", inputs=[tmp_path / "gone.csv", path])
    assert path.read_text() == "old"


def test_the_output_does_not_lie_inside_the_input(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("old")
    with pytest.raises(Refusal, match="lies inside the input"):
        check_output(path / "report.json", inputs=[path])
    with pytest.raises(Refusal, match="a file, not a directory"):
        check_output(path / "report.json")


def test_a_folder_a_missing_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(Refusal, match="is a directory"):
        write_text(tmp_path / "folder", "x")
    with pytest.raises(Refusal, match=r"there is no folder .*gone: create it first"):
        write_text(tmp_path / "gone" / "a.json", "x")
    with pytest.raises(Refusal, match="remove the NUL character"):
        write_text(tmp_path / "a\0" / "b", "x")
    if Path("/dev/null").exists():
        with pytest.raises(Refusal, match="pipe, socket or device"):
            write_text("/dev/null", "x")


@posix
def test_a_folder_without_permission_is_one_clear_line(users_folder: Path) -> None:
    users_folder.chmod(0o500)
    with pytest.raises(Refusal, match="permission to write it is denied"):
        write_text(users_folder / "a.json", "x")
    users_folder.chmod(0o700)
