"""What `pate` and `federate` write for tables that differ in one person or one client: the same but for what is noised.

The labels and the weights are noise and what follows from it; everything else in the files is compared value by value.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io as sio

from dosimeter.cli.main import run

rng = np.random.default_rng(12)
COLUMNS = ("site", "who", "age", "ward", "ill")
BASE = [
    (
        f"s{k % 14}",
        f"p{k // 2}",
        round(float(rng.uniform(20, 90)), 3),
        ("north", "south")[k % 3 == 0],
        ("no", "yes")[k % 2],
    )
    for k in range(168)
]
BOUNDS = '[age]\nlower = 0\nupper = 120\n[ward]\nlevels = ["north", "south"]\n'


def changed(rows: list[Any], where: Any, **cells: Any) -> list[Any]:
    return [
        tuple(cells.get(name, value) for name, value in zip(COLUMNS, row, strict=True)) if where(row) else row
        for row in rows
    ]


def of_person(row: Any) -> bool:
    return bool(row[1] == "p3")


def of_client(row: Any) -> bool:
    return bool(row[0] == "s3")


PERSONS = {
    "other values": changed(BASE, of_person, age=119.0, ill="yes"),
    "a ward of their own": changed(BASE, of_person, ward="attic"),
    "another person": changed(BASE, of_person, who="somebody-else", age=21.0),
    "a person less": [row for row in BASE if not of_person(row)],
    "a person more": [*BASE, ("s1", "newcomer", 50.0, "north", "no")],
    "one class only": changed(BASE, lambda row: True, ill="yes"),
}
CLIENTS = {
    "other values": changed(BASE, of_client, age=119.0, ill="yes"),
    "a ward of its own": changed(BASE, of_client, ward="attic"),
    "another client": changed(BASE, of_client, site="elsewhere"),
    "a client less": [row for row in BASE if not of_client(row)],
    "a client more": [*BASE, *(("s99", f"q{k}", 40.0 + k, "south", "no") for k in range(5))],
}


def write(path: Path, names: tuple[str, ...], rows: list[Any]) -> None:
    with path.open("w", newline="") as file:
        sheet = csv.writer(file)
        sheet.writerow(names)
        sheet.writerows([[row[COLUMNS.index(name)] for name in names] for row in rows])


def plain(value: Any) -> Any:
    """A fitted estimator by all that it holds."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {type(value).__name__: plain(vars(value))}
    return repr(value)


NOISED = ("coef_", "intercept_", "coefs_", "intercepts_")


def without_weights(model: Any) -> Any:
    last = model.named_steps["model"]
    for name in NOISED:
        if hasattr(last, name):
            held = getattr(last, name)
            setattr(last, name, [np.shape(one) for one in held] if isinstance(held, list) else np.shape(held))
    return plain(model)


def federated(folder: Path, rows: list[Any], model: str) -> dict[str, Any]:
    write(folder / "table.csv", COLUMNS, rows)
    (folder / "bounds.toml").write_text(BOUNDS)
    given = f"--target ill --client site --exclude who --clients 20 --classes no,yes --bounds {folder}/bounds.toml"
    terms = f"--epsilon 8 --delta 1e-3 --rounds 2 --epochs 1 --clients-per-round 5 --architecture {model}"
    terms += f" --out {folder}/m.skops"
    assert run(["federate", "--table", str(folder / "table.csv"), *given.split(), *terms.split(), "-q"]) == 0
    data = (folder / "m.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    story = {name: json.loads(value) for name, value in header.pop("__metadata__").items()}
    story.pop("pipeline_sha256")
    return {"tensors": header, "story": story, "pipeline": without_weights(sio.load(folder / "m.skops"))}


@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_clients_leave_nothing_but_noise_in_the_files_of_a_federation(tmp_path: Path, model: str) -> None:
    base = federated(tmp_path, BASE, model)
    assert base["story"]["guarantee"]["standing"] == "upper bound"
    for name, rows in CLIENTS.items():
        assert federated(tmp_path, rows, model) == base, name


def voted(folder: Path, rows: list[Any]) -> dict[str, Any]:
    write(folder / "table.csv", COLUMNS, rows)
    write(folder / "public.csv", ("age", "ward"), BASE[:30])
    given = f"--target ill --classes no,yes --person who --exclude site --public {folder}/public.csv --teachers 8"
    files = f"--scale 3 --out {folder}/l.csv --student {folder}/s.skops --json {folder}/facts.json"
    assert run(["pate", str(folder / "table.csv"), *given.split(), *files.split(), "-q"]) in (0, 3)
    facts = json.loads((folder / "facts.json").read_text())
    facts["publishable"].pop("refused")
    with (folder / "l.csv").open(newline="") as file:
        sheet = list(csv.DictReader(file))
    assert {row["label"] for row in sheet} <= {"no", "yes"}
    student = folder / "s.skops"
    columns = plain(sio.load(student).named_steps["columns"]) if student.exists() else None
    return {"to publish": facts["publishable"], "rows": [row["row"] for row in sheet], "columns": columns}


def test_persons_leave_nothing_but_noise_in_the_files_of_a_vote(tmp_path: Path) -> None:
    base = voted(tmp_path, BASE)
    for name, rows in PERSONS.items():
        (tmp_path / "s.skops").unlink(missing_ok=True)
        found = voted(tmp_path, rows)
        if found["columns"] is None or base["columns"] is None:  # labels of one class teach nobody
            found["columns"] = base["columns"]
        assert found == base, name
