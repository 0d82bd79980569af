"""`federate --unit patient`: the guarantee is about a patient, and files show no patient but by noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dosimeter.cli.main import run
from dosimeter.files.safetensors import read_network

rng = np.random.default_rng(3)
N = 400
ROWS = [
    (f"p{k // 2}", f"h{(k // 2) % 3}", round(float(rng.uniform(20, 90)), 2), ("east", "west")[k % 2]) for k in range(N)
]
BOUNDS = '[age]\nlower = 0\nupper = 100\n[ward]\nlevels = ["east", "west"]\n'
TERMS = "--target ill --unit patient --person who --classes no,yes --epsilon 4 --delta 1e-4 --rounds 6 --clients 300"


def write(folder: Path, rows: list[tuple[Any, ...]]) -> Path:
    lines = ["who,site,age,ward,ill"]
    lines += [",".join(map(str, (*row, "yes" if row[2] > 55 else "no"))) for row in rows]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "bounds.toml").write_text(BOUNDS)
    return folder / "t.csv"


def train(folder: Path, rows: list[tuple[Any, ...]], extra: str = "--site site", code: int = 0) -> dict[str, Any]:
    table = write(folder, rows)
    options = f"--table {table} {TERMS} --bounds {folder}/bounds.toml --out {folder}/m.safetensors {extra}"
    assert run(["federate", *options.split(), "--json", str(folder / "facts.json"), "-q"]) == code
    return json.loads((folder / "facts.json").read_text()) if code == 0 else {}


def test_the_guarantee_says_who_is_protected_who_draws_and_who_sees(tmp_path: Path) -> None:
    facts = train(tmp_path, ROWS)
    guarantee = facts["guarantee"]
    assert (guarantee["unit"], guarantee["standing"]) == ("person", "upper bound")
    assert guarantee["neighbours"].startswith("add or remove one patient")
    assert "each site draws its own patients" in guarantee["trusted"]
    assert "exact sum" in guarantee["trusted"]
    assert any(line.startswith("integrity") for line in facts["not_covered"])
    assert facts["per_round"] == facts["clients"] == 300
    assert facts["recipe"]["unit"] == "patient"
    network, _, story = read_network(tmp_path / "m.safetensors")
    assert network.widths == (3, 2)
    assert story["guarantee"] == guarantee


NEIGHBOURS = {
    "one more": [*ROWS, ("zz", "h0", 99.0, "east")],
    "alone at a site": [*ROWS, ("aa", "h9", 5.0, "west")],
    "one fewer": ROWS[2:],
    "rows at two sites": [*ROWS, ("p3", "h9", 12.0, "east")],
}


def test_a_patient_leaves_nothing_but_noise_in_the_file(tmp_path: Path) -> None:
    def story(rows: list[tuple[Any, ...]]) -> Any:
        train(tmp_path, rows)
        network, _, description = read_network(tmp_path / "m.safetensors")
        return network, description

    base = story(ROWS)
    for name, rows in NEIGHBOURS.items():
        assert story(rows) == base, name


def test_rows_of_a_patient_at_a_second_site_are_left_out_and_counted_inside(tmp_path: Path) -> None:
    facts = train(tmp_path, NEIGHBOURS["rows at two sites"])
    assert any("at another site" in remark and ": 1 of the rows" in remark for remark in facts["remarks"])


def test_the_site_column_is_not_needed_and_a_simulation_says_so(tmp_path: Path) -> None:
    facts = train(tmp_path, ROWS, "--exclude site --simulation-seed 4")
    assert facts["simulation"] is True


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("--unit patient --epsilon 1 --clients 300", "--bounds"),
        ("--unit patient --person who --bounds B --epsilon 1 --client site", "--client"),
        ("--unit client --client site --person who --epsilon 1", "--person"),
        ("--unit person --person who --bounds B --epsilon 1", "use client or patient"),
        ("--unit patient --person who --bounds B --epsilon 1 --sampling fixed", "poisson"),
        ("--unit patient --person who --bounds B --epsilon 1 --epochs 2", "one gradient step"),
        ("--unit patient --bounds B --epsilon 1 --exclude site", "--person"),
        ("--unit patient --person who --site nobody --bounds B --epsilon 1", "nobody"),
    ],
)
def test_a_slip_is_one_line_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str, line: str
) -> None:
    table = write(tmp_path, ROWS)
    options = options.replace(" B", f" {tmp_path}/bounds.toml")
    arguments = f"--table {table} --target ill --classes no,yes {options} --out {tmp_path}/m.safetensors"
    assert run(["federate", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert not (tmp_path / "m.safetensors").exists()
