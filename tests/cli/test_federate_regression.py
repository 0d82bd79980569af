"""`federate` with a numeric target: a regression in the unit of the target, as a pipeline and as tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from safetensors.numpy import load_file

from dosimeter.cli.main import run
from dosimeter.files.safetensors import read_network

rng = np.random.default_rng(3)
AGE = rng.uniform(20, 90, 600)
WARD = np.where(rng.random(600) < 0.5, "east", "west")
DAYS = 2 + 0.2 * AGE + 4 * (WARD == "west") + rng.normal(0, 0.5, 600)
BOUNDS = '[age]\nlower = 0\nupper = 100\n[ward]\nlevels = ["east", "west"]\n[days]\nlower = 0\nupper = 40\n'
PATIENTS = "--unit patient --person who --site site --clients 300"
CLIENTS = "--client site --exclude who --clients 100"
TERMS = "--target days --epsilon 8 --delta 1e-3 --learning-rate 0.5 --rounds 30 --momentum 0.9"


def write(folder: Path, days: Any = DAYS, sites: int = 3) -> Path:
    lines = ["who,site,age,ward,days"]
    rows = zip(range(600), AGE, WARD, days, strict=True)
    lines += [f"p{k // 2},h{(k // 2) % sites},{age:.3f},{ward},{day}" for k, age, ward, day in rows]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "bounds.toml").write_text(BOUNDS)
    return folder / "t.csv"


def train(folder: Path, extra: str, code: int = 0, **options: Any) -> dict[str, Any]:
    table = write(folder, **options)
    arguments = f"--table {table} --test {table} {TERMS} --bounds {folder}/bounds.toml {extra}"
    out = f"--out {folder}/m.skops" if "--out" not in extra else ""
    assert run(["federate", *arguments.split(), *out.split(), "--json", str(folder / "facts.json"), "-q"]) == code
    return json.loads((folder / "facts.json").read_text()) if code == 0 else {}


def frame() -> Any:
    import pandas

    return pandas.DataFrame({"age": AGE, "ward": WARD})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("regression")
    return folder, train(folder, f"{PATIENTS} --simulation-seed 1")


def test_a_number_is_learnt_as_a_number_in_its_own_unit(trained: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = trained
    predicted = skops.io.load(folder / "m.skops").predict(frame())
    error = np.sqrt(np.mean((predicted - DAYS) ** 2))
    assert error < 0.6 * DAYS.std()
    assert facts["accuracy"]["measure"] == "R²"
    assert facts["accuracy"]["share"] == pytest.approx(1 - error**2 / DAYS.var(), abs=1e-3)
    assert facts["model"]["classes"] == []
    assert facts["rows_become"]["target_bounds"] == [0, 40]


def test_the_tensors_say_that_they_end_in_a_number_and_predict_as_the_pipeline(
    trained: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = trained
    network, flat, story = read_network(folder / "m.safetensors")
    assert network.end == story["architecture"]["end"] == "identity"
    tensors = load_file(folder / "m.safetensors")
    inputs = np.column_stack([AGE / 50 - 1, WARD == "east", WARD == "west"])  # as the metadata describes rows
    own = inputs @ tensors["0.weight"].T.astype(float) + tensors["0.bias"]
    np.testing.assert_allclose(own[:, 0], network.outputs(flat, inputs)[:, 0], rtol=1e-6)
    np.testing.assert_allclose(own[:, 0], skops.io.load(folder / "m.skops").predict(frame()), rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_hidden_layers_and_whole_clients_do_the_same(tmp_path: Path) -> None:
    for extra in (f"{PATIENTS} --hidden 3", f"{CLIENTS} --hidden 3"):
        facts = train(tmp_path, f"{extra} --simulation-seed 1", sites=100)
        network, flat, _ = read_network(tmp_path / "m.safetensors")
        inputs = np.column_stack([AGE / 50 - 1, WARD == "east", WARD == "west"])
        predicted = skops.io.load(tmp_path / "m.skops").predict(frame())
        np.testing.assert_allclose(network.outputs(flat, inputs)[:, 0], predicted, rtol=1e-4)
        assert facts["model"]["widths"] == [3, 3, 1]


def test_a_target_beyond_its_bounds_moves_the_model_no_more_than_one_at_them(tmp_path: Path) -> None:
    """Two tables that differ in one patient's target, at the bound and far beyond it: the same bits."""
    models = []
    for value in (40.0, 1e9):
        days = DAYS.copy()
        days[7] = value
        train(tmp_path, f"{PATIENTS} --simulation-seed 1 --out {tmp_path}/m.safetensors", days=days)
        models.append(read_network(tmp_path / "m.safetensors")[1].tobytes())
    assert models[0] == models[1]


@pytest.mark.parametrize(
    ("extra", "line"),
    [(f"{PATIENTS} --classes 1,2", "a number, or a class"), ("--unit patient --person who --target ward", "[ward]")],
)
def test_a_slip_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: str, line: str) -> None:
    train(tmp_path, extra, code=2)
    assert line in capsys.readouterr().err


def test_a_number_without_declared_bounds_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path)
    (tmp_path / "bounds.toml").write_text(BOUNDS.split("[days]")[0])
    arguments = f"--table {table} {TERMS} {PATIENTS} --bounds {tmp_path}/bounds.toml --out {tmp_path}/m.skops"
    assert run(["federate", *arguments.split()]) == 2
    assert "declare its lower and upper in --bounds" in capsys.readouterr().err
