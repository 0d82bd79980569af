"""Components of a table in blocks have the figures of the table in memory, and their noise is drawn once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io as sio

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.accounts import SharedEventDose
from dosimeter.core.errors import Refusal
from dosimeter.engines import memory
from dosimeter.models import component_attack
from dosimeter.workflows import components_blocks, drawn_components
from tests.engines.tables import assert_same_figures, people, without_component_draw, written

BOUNDS = {
    "score": {"lower": -2.0, "upper": 2.0},
    "age": {"lower": 20, "upper": 90, "centre": 55},
    "dose": {"lower": 2.9, "upper": 3.1},
    "visits": {"lower": 0, "upper": 4},
    "city": {"levels": ["Ulm", "Graz", "Bonn"]},
}
UNNAMED = ("smokes", "sex", "born", "ill", "cost", "stays")
OPTIONS: dict[str, Any] = {"epsilon": 1.0, "bounds": BOUNDS, "components": 3}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 128 rows, so that a row group has several and people cross their ends."""
    monkeypatch.setattr(memory, "MOST_ROWS", 128)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("blocks") / "people.parquet", people(1200))


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A row of a person with others, all rows of a person, and a whole block have gaps."""
    columns = people(1200)
    age = columns["age"].copy()
    age[[3, 700, 701]] = np.nan
    age[640:768] = np.nan
    age[columns["scattered"] == columns["scattered"][11]] = np.nan
    return written(tmp_path_factory.mktemp("gaps") / "gaps.parquet", {**columns, "age": age})


def others(person: str | None) -> tuple[str, ...]:
    return (*UNNAMED, *(name for name in ("adjacent", "scattered") if name != person))


def both(table: Any, person: str | None = None, **options: Any) -> tuple[Any, Any]:
    """The release in memory and over blocks, compared figure by figure."""
    options = {**OPTIONS, "person": person, "exclude": others(person), **options}
    whole = dm.components(table, engine="memory", **options)
    blocks = dm.components(table, engine="blocks", **options)
    assert_same_figures(without_component_draw(whole.result), without_component_draw(blocks.result))
    assert blocks.recipe == whole.recipe
    return whole, blocks


@pytest.mark.parametrize("person", [None, "adjacent", "scattered"])
@pytest.mark.parametrize("mechanism", ["analyze-gauss", "laplace", "published-analyze-gauss"])
def test_every_figure_is_that_of_the_table_in_memory(table: Path, person: str | None, mechanism: str) -> None:
    both(table, person, mechanism=mechanism)


@pytest.mark.parametrize("person", [None, "adjacent", "scattered"])
@pytest.mark.parametrize("some", [False, True])
def test_the_attack_is_that_on_the_table_in_memory(
    table: Path, person: str | None, some: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if some:
        monkeypatch.setattr(component_attack, "MANY", 400)
        monkeypatch.setattr(component_attack, "LEAST_ATTACKED", 100)
        monkeypatch.setattr(components_blocks, "MANY", 400)
    whole, _ = both(table, person, attack=True)
    attacked = whole.result.attack.attacked
    assert (attacked is not None and 250 < attacked < 550) if some else attacked is None


@pytest.mark.parametrize("person", [None, "adjacent", "scattered"])
@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove"])
def test_rows_with_gaps_count_as_in_memory(gaps: Path, person: str | None, neighbours: str) -> None:
    bounds = {**BOUNDS, **({} if neighbours == "replace-one" else {"n": 1000})}
    whole, blocks = both(gaps, person, bounds=bounds, neighbours=neighbours, attack=True)
    assert whole.result.internal.rows_left_out > 128
    if person is not None:
        names = [next(set(d.ids) for d in r.doses if isinstance(d, SharedEventDose)) for r in (whole, blocks)]
        assert names[0] == names[1]


@pytest.mark.parametrize("person", [None, "scattered"])
def test_bounds_that_are_read_off_the_table_are_those_of_the_table_in_memory(table: Path, person: str | None) -> None:
    _, blocks = both(table, person, bounds=None, not_private=True, attack=True)
    assert blocks.doses == ()
    assert not blocks.result.private


def test_doses_of_people_are_those_of_the_table_in_memory(table: Path) -> None:
    whole, blocks = both(table, "scattered")
    assert len(whole.doses) == len(blocks.doses) == 3
    assert set(whole.doses[0].ids) == set(blocks.doses[0].ids)
    for mine, theirs in zip(whole.doses[1:], blocks.doses[1:], strict=True):
        assert (mine.notion, mine.unit, mine.measured_in, mine.standing) == (
            theirs.notion,
            theirs.unit,
            theirs.measured_in,
            theirs.standing,
        )
        figures = dict(zip(theirs.ids, theirs.figures, strict=True))
        np.testing.assert_allclose([figures[name] for name in mine.ids], mine.figures, rtol=1e-9)


def test_the_released_file_holds_the_components_of_the_noised_moment(table: Path) -> None:
    """With hardly any noise they are the components that a singular value decomposition of the clipped rows has."""
    import pandas as pd

    bounds = {name: BOUNDS[name] for name in ("score", "age", "dose", "visits")}
    options = {"exclude": (*others(None), "city"), "bounds": bounds, "components": 2}
    released = dm.components(table, epsilon=100.0, delta=1e-3, engine="blocks", **options)
    model = sio.loads(released.artefact, trusted=sio.get_untrusted_types(data=released.artefact))
    frame = pd.read_parquet(table)
    lower, upper = (np.array([spec[end] for spec in bounds.values()], dtype=float) for end in ("lower", "upper"))
    X = 2 * (np.clip(frame[list(bounds)].to_numpy(dtype=float), lower, upper) - lower) / (upper - lower) - 1
    first = np.linalg.svd(X - X.mean(axis=0))[2][0]
    assert abs(float(model["components"].components_[0] @ first)) > 0.99
    assert model.transform(frame).shape == (len(frame), 2)


@pytest.mark.parametrize("kind", ["csv", "folder", "lazy", "dataset", "mapped"])
def test_every_kind_of_table_has_the_same_figures(table: Path, tmp_path: Path, kind: str) -> None:
    import polars as pl
    import pyarrow.dataset as ds

    names = ["score", "age", "dose", "visits"]
    frame = pl.read_parquet(table).select(names)
    options = {**OPTIONS, "bounds": {name: BOUNDS[name] for name in names}, "attack": True}
    data: Any
    if kind == "csv":
        data = tmp_path / "t.csv"
        frame.write_csv(data)
    elif kind == "folder":
        data = tmp_path / "folder"
        data.mkdir()
        frame[:500].write_parquet(data / "a.parquet")
        frame[500:].write_parquet(data / "b.parquet")
    elif kind == "lazy":
        data = frame.lazy()
    elif kind == "dataset":
        frame.write_parquet(tmp_path / "t.parquet")
        data = ds.dataset(tmp_path / "t.parquet")
    else:
        np.save(tmp_path / "t.npy", frame.to_numpy())
        data = np.load(tmp_path / "t.npy", mmap_mode="r")
        options["bounds"] = {f"x{k}": BOUNDS[name] for k, name in enumerate(names)}
        frame = frame.rename({name: f"x{k}" for k, name in enumerate(names)})
    engine = {"engine": "blocks"} if kind == "csv" else {}
    whole = dm.components(frame, **options)
    assert_same_figures(
        without_component_draw(whole.result), without_component_draw(dm.components(data, **options, **engine).result)
    )


def test_a_csv_whose_rows_have_gaps_counts_all_its_people(gaps: Path, tmp_path: Path) -> None:
    import polars as pl

    columns = [*BOUNDS, "scattered"]
    path = tmp_path / "t.csv"
    pl.read_parquet(gaps).select(columns).fill_nan(None).write_csv(path)
    options = {**OPTIONS, "person": "scattered"}
    whole = dm.components(path, engine="memory", **options)
    blocks = dm.components(path, engine="blocks", checkpoint=tmp_path / "work", **options)
    assert_same_figures(without_component_draw(whole.result), without_component_draw(blocks.result))
    assert set(whole.doses[0].ids) == set(blocks.doses[0].ids)


def test_with_a_checkpoint_the_same_release_is_written_again(table: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    command = ["pca", str(table), "--epsilon", "1", "--bounds", str(_bounds_file(tmp_path)), "--engine", "blocks"]
    command += [word for name in others(None) for word in ("--exclude", name)]
    command += ["--checkpoint", str(work), "--quiet"]
    assert run([*command, "--out", str(tmp_path / "first.skops"), "--json", str(tmp_path / "first.json")]) == 0
    assert run([*command, "--out", str(tmp_path / "second.skops")]) == 0
    assert (tmp_path / "first.skops").read_bytes() == (tmp_path / "second.skops").read_bytes()
    assert (work / "release.npz").stat().st_mode & 0o077 == 0
    assert run([*command[:-3], "--checkpoint", str(tmp_path / "other"), "--out", str(tmp_path / "third.skops")]) == 0
    assert (tmp_path / "first.skops").read_bytes() != (tmp_path / "third.skops").read_bytes()


def test_of_two_runs_that_draw_at_once_in_one_checkpoint_both_release_the_first_draw(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**OPTIONS, "exclude": others(None), "engine": "blocks", "checkpoint": tmp_path / "work"}
    build, meanwhile = drawn_components._pipeline, []

    def draw_meanwhile(*arguments: Any) -> Any:  # after this run drew, and before it kept the draw
        monkeypatch.setattr(drawn_components, "_pipeline", build)
        meanwhile.append(dm.components(table, **options))
        return build(*arguments)

    monkeypatch.setattr(drawn_components, "_pipeline", draw_meanwhile)
    mine = dm.components(table, **options)
    assert mine.artefact
    assert mine.artefact == meanwhile[0].artefact


def test_a_job_that_stops_in_any_pass_goes_on_to_the_same_figures(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dosimeter.engines import local_blocks

    options = {**OPTIONS, "person": "adjacent", "exclude": others("adjacent"), "attack": True, "engine": "blocks"}
    expected = dm.components(table, **options)
    monkeypatch.setattr(local_blocks, "EVERY", 0.0)
    whole_run, stops = local_blocks.BlocksEngine._run, 0

    def run_one_pass(self: Any, items: Any, key: str, step: Any) -> Any:
        """Stop in the middle of every second pass that does work."""
        nonlocal stops
        parts, seen = list(items), 0

        def counted(value: Any, block: Any) -> Any:
            nonlocal seen, stops
            seen += 1
            if seen > 4 and stops % 2 == 0:
                stops += 1
                raise KeyboardInterrupt
            return step(value, block)

        value = whole_run(self, parts, key, counted)
        if seen:
            stops += stops % 2
        return value

    monkeypatch.setattr(local_blocks.BlocksEngine, "_run", run_one_pass)
    for _ in range(20):
        try:
            result = dm.components(table, checkpoint=tmp_path / "work", **options).result
            break
        except KeyboardInterrupt:
            continue
    assert stops >= 6
    assert_same_figures(without_component_draw(expected.result), without_component_draw(result))


def test_what_cannot_be_attacked_or_booked_is_refused(table: Path, tmp_path: Path) -> None:
    options = {**OPTIONS, "exclude": others(None), "engine": "blocks"}
    with pytest.raises(Refusal, match="nothing is declared about"):
        dm.components(table, **{**options, "exclude": others(None)[1:]})
    few = written(tmp_path / "few.parquet", {name: column[:5] for name, column in people(20).items()})
    with pytest.raises(Refusal, match="too few to split"):
        dm.components(few, attack=True, **options)
    with pytest.raises(Refusal, match="name the table first"):
        dm.components(engine="blocks")


def _bounds_file(folder: Path) -> Path:
    path = folder / "bounds.toml"
    lines = []
    for name, spec in BOUNDS.items():
        values = [f"{key} = {value}" for key, value in spec.items()]
        lines += [f"[{name}]", *(line.replace("'", '"') for line in values), ""]
    path.write_text("\n".join(lines))
    return path
