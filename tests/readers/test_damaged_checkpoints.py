"""The folder of a checkpoint of blocks: damaged in any file it is one line and exit 2; only its owner can read it."""

from __future__ import annotations

import os
import random
import shutil
import stat
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from dosimeter.cli.main import run
from dosimeter.engines.checkpoint import create_private
from tests.readers.mutations import any_bytes
from tests.readers.samples import BOUNDS, people, table

MEASURE = "measure {} --target bmi --person id --exclude ill --scale 1 --json - --engine blocks --checkpoint kept"
FIX = (
    "fix {} --target bmi --person id --exclude ill --scale 20 --max-dose 1e6 --json - --even-if-useless "
    "--out model.skops --engine blocks --checkpoint kept"
)
PCA = (
    "pca {} --person id --exclude site --epsilon 2 --bounds bounds.toml --json - --out model.skops --engine blocks "
    "--checkpoint kept"
)
COMMANDS = {
    "a text file": MEASURE.format("people.csv"),
    "people in several places": MEASURE.format("scattered.parquet"),
    "a release": FIX.format("people.parquet"),
    "components": PCA.format("people.csv"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    rows = people()
    order = np.r_[0:24:2, 1:24:2]
    Path("people.csv").write_text(table(rows))
    Path("bounds.toml").write_text(BOUNDS)
    pq.write_table(pa.table(rows), "people.parquet", row_group_size=12)
    scattered = {name: [cells[i] for i in order] for name, cells in rows.items()}
    pq.write_table(pa.table(scattered), "scattered.parquet", row_group_size=12)
    return tmp_path


def answer(command: str) -> tuple[int, list[str], str]:
    """The exit code, the lines of stderr, and the result."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(command.split())
    return code, err.getvalue().splitlines(), out.getvalue()


def kept_files() -> list[Path]:
    return sorted(path for path in Path("kept").rglob("*") if path.is_file())


def damage(name: str, count: int, most: int = 1000) -> None:
    """Files of the folder in turn, in several ways."""
    command, rng = COMMANDS[name], random.Random(name)
    assert answer(command)[0] == 0
    _, _, result = answer(command)
    shutil.copytree("kept", "good")
    faults = []
    files = kept_files()
    for path in rng.sample(files, min(most, len(files))):
        good = path.read_bytes()
        for _ in range(count):
            bad = any_bytes(good, rng)
            shutil.rmtree("kept")
            shutil.copytree("good", "kept")
            Path("model.skops").unlink(missing_ok=True)
            path.write_bytes(bad)
            code, lines, printed = answer(command)
            if code == 0 and printed != result:
                faults.append(f"{path}: another result")
            elif code not in (0, 2) or (code == 2 and (len(lines) != 1 or Path("model.skops").exists())):
                faults.append(f"{path}: exit {code}, {lines[:2]}")
    assert faults == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_damaged_checkpoint_of_blocks_is_one_line(name, folder):
    damage(name, 1, 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_checkpoint_of_blocks_damaged_in_many_ways_is_one_line(name, folder):
    damage(name, 60)


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
@pytest.mark.parametrize("name", COMMANDS)
def test_only_the_owner_reads_a_checkpoint_of_blocks(name, folder):
    """It holds rows, exact sums and doses; also in a folder that was there before and that others can look into."""
    for before in (False, True):
        shutil.rmtree("kept", ignore_errors=True)
        if before:
            Path("kept").mkdir(mode=0o755)
        assert answer(COMMANDS[name])[0] == 0
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in kept_files()}
        assert {path: oct(mode) for path, mode in modes.items() if mode != 0o600} == {}
        if not before:
            assert stat.S_IMODE(Path("kept").stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
@pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o755, 0o600), (0o770, 0o660), (0o777, 0o666)])
def test_users_who_may_write_to_the_folder_may_read_its_files(tmp_path, folder_mode, file_mode):
    """Workers of a cluster that run as other users share a folder in this way."""
    tmp_path.chmod(folder_mode)
    os.close(create_private(tmp_path / "file"))
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == file_mode
