"""How many threads a command's linear algebra gets."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dosimeter.cli import blas_threads, main
from dosimeter.cli.blas_threads import ONE_THREAD, SMALL, STATED, blas_variables

SHOW = """
import sys
from dosimeter.cli import main
def run(arguments):
    import numpy, scipy.linalg
    from threadpoolctl import threadpool_info
    print({pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
    return 0
main.run = run
main.main(sys.argv[1:])
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("a,b\n1,2\n")
    return str(path)


def test_a_small_table_has_one_thread_in_every_library(table) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in STATED}
    options = {"env": environment, "capture_output": True, "text": True, "check": True, "timeout": 300}
    assert subprocess.run([sys.executable, "-c", SHOW, "measure", table], **options).stdout.strip() == "{1}"


def test_large_files_folders_and_commands_without_a_file_keep_their_threads(table, tmp_path) -> None:
    large = tmp_path / "large.parquet"
    with large.open("wb") as handle:
        handle.truncate(SMALL + 1)  # a hole: takes no room on the disk
    assert blas_variables(["measure", table, "--target", "y"], {}) == ONE_THREAD
    for arguments in (["measure", str(large)], ["measure", table, str(large)], ["measure", str(tmp_path)], ["demo"]):
        assert blas_variables(arguments, {}) == {}


@pytest.mark.parametrize("name", STATED)
def test_a_number_of_threads_that_is_set_stays(name, table) -> None:
    assert blas_variables(["measure", table], {name: "4"}) == {}


def test_a_file_that_goes_away_meanwhile_is_left_to_the_command(tmp_path, monkeypatch) -> None:
    (tmp_path / "model.json").touch()

    def gone(name: str) -> int:
        raise FileNotFoundError(name)

    monkeypatch.setattr(blas_threads.os.path, "getsize", gone)
    assert blas_variables(["measure", str(tmp_path / "model.json")], {}) == {}


def test_strange_arguments_are_no_files(monkeypatch) -> None:
    assert blas_variables(["measure", "a\0b", "", "x" * 5000], {}) == {}


def test_a_command_run_from_python_leaves_the_environment_alone(table) -> None:
    before = dict(os.environ)
    main.run(["--version"])
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("row", "short"),
    [
        (",".join(["-1.5e-3"] * 64), True),
        (",".join(["-1.5e-3"] * 65), False),
        ('"7";2,5;Ulm', True),
        ("7,Ulm,f", False),
        ("1" * (1 << 17), False),
    ],
)
def test_large_tables_of_short_rows_have_one_thread(row, short, tmp_path) -> None:
    large = tmp_path / "large.csv"
    with large.open("wb") as handle:
        handle.write(f"names\n{row}\n".encode())
        handle.truncate(SMALL + 1)
    assert blas_variables(["measure", str(large)], {}) == (ONE_THREAD if short else {})
