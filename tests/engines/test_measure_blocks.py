"""A table that is read in blocks has the figures of the table in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dosimeter as dm
from dosimeter.core.errors import CannotMeasure, Refusal
from dosimeter.engines import memory
from tests.engines.tables import assert_same_figures, people, written

TARGETS = {"squared": "cost", "logistic": "ill", "poisson": "stays"}
ALL = ("ill", "cost", "stays", "adjacent", "scattered")
BOUNDS = {
    "score": (-3.0, 3.0),
    "age": (0.0, 90.0),
    "dose": (2.9, 3.1),
    "visits": (0.0, 6.0),
    "smokes": (0.0, 1.0),
    "city": ["Graz", "Ulm", "Wien"],
    "sex": ["f", "m"],
    "born": (1900.0, 2000.0),
    "cost": (-3.0, 3.0),
    "ill": ["no", "yes"],
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 128 rows, so that a row group has several and people cross their ends."""
    monkeypatch.setattr(memory, "MOST_ROWS", 128)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("blocks") / "people.parquet", people(1200))


def both(table: Any, groups: Any = (), limit: float = 0.5, **options: Any) -> None:
    """The result in memory and over blocks, compared."""
    options = {"noise": dm.Gaussian(0.05), **options}
    whole = dm.measure(table, engine="memory", **options).result(limit=limit, groups=groups)
    blocks = dm.measure(table, engine="blocks", **options).result(limit=limit, groups=groups)
    assert_same_figures(whole, blocks)


def but(target: str, person: str | None = None) -> tuple[str, ...]:
    return tuple(name for name in ALL if name not in (target, person))


@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("scaler", ["total", "held"])
def test_every_figure_is_that_of_the_table_in_memory(table: Path, loss: str, scaler: str) -> None:
    target = TARGETS[loss]
    both(table, target=target, loss=loss, exclude=but(target), scaler=scaler, groups=("city", target))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_every_figure_with_declared_bounds_is_that_of_the_table_in_memory(table: Path, loss: str) -> None:
    target = TARGETS[loss]
    bounds = {name: spec for name, spec in BOUNDS.items() if name not in but(target)}
    both(table, target=target, loss=loss, exclude=but(target), bounds=bounds)


@pytest.mark.parametrize("person", ["adjacent", "scattered"])
@pytest.mark.parametrize("loss", TARGETS)
def test_every_figure_of_a_person_is_that_of_the_table_in_memory(table: Path, loss: str, person: str) -> None:
    target = TARGETS[loss]
    both(table, target=target, loss=loss, exclude=but(target, person), person=person, groups="city")


@pytest.mark.parametrize("value", [30.0, 0.1, 45.0])
def test_a_declared_column_that_does_not_vary_has_the_unit_of_memory(value: float, tmp_path: Path) -> None:
    """Half the width of its bounds; 45 is their middle."""
    rows = {**people(400), "age": np.full(400, value)}
    bounds = {name: spec for name, spec in BOUNDS.items() if name not in but("ill")}
    both(written(tmp_path / "same.parquet", rows), target="ill", exclude=but("ill"), bounds=bounds)


def test_a_person_with_declared_bounds(table: Path) -> None:
    bounds = {name: spec for name, spec in BOUNDS.items() if name not in but("ill")}
    both(table, target="ill", exclude=but("ill", "adjacent"), person="adjacent", bounds=bounds)


@pytest.mark.parametrize("noise", [dm.Laplace(0.1), dm.Gumbel(0.2)], ids=str)
def test_other_noises(table: Path, noise: Any) -> None:
    both(table, target="cost", exclude=but("cost"), noise=noise)


def test_a_loss_of_positive_numbers(tmp_path: Path) -> None:
    columns = people(600)
    columns["cost"] = np.exp(columns["cost"])
    both(written(tmp_path / "t.parquet", columns), target="cost", loss="gamma", exclude=but("cost"))


def test_options_of_reading_and_units(table: Path) -> None:
    both(table, target="ill", exclude=but("ill"), unit="raw", known_target=True, categorical="visits", l2=0.01)


def test_an_exact_release_ranks_the_same_people(table: Path) -> None:
    options: dict[str, Any] = {"target": "cost", "exclude": but("cost"), "scaler": "held"}
    whole = dm.measure(table, engine="memory", **options).result(limit=0.5)
    blocks = dm.measure(table, engine="blocks", **options).result(limit=0.5)
    assert_same_figures(whole, blocks)


def test_an_exact_release_behind_a_fitted_scaler_needs_a_scale_that_keeps_the_limit(table: Path) -> None:
    options: dict[str, Any] = {"target": "cost", "exclude": but("cost")}
    needed = dm.measure(table, engine="blocks", **options).result(limit=0.5).noise_needed
    for entry in needed:
        leak = dm.measure(table, engine="memory", noise=dm.Gaussian(entry.scale), **options)
        assert 0.9 * entry.highest < leak.leak.highest <= entry.highest * (1 + 1e-9)


def test_rows_with_gaps_are_left_out_as_in_memory(tmp_path: Path) -> None:
    columns = people(1200)
    age = columns["age"].copy()
    age[[3, 700, 701, 1199]] = np.nan
    age[640:768] = np.nan  # a whole block
    table = written(tmp_path / "gaps.parquet", {**columns, "age": age})
    both(table, target="ill", exclude=but("ill"), missing="drop")
    both(table, target="ill", exclude=but("ill", "adjacent"), person="adjacent", missing="drop")


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    columns = people(1200)
    folder = tmp_path / "folder"
    folder.mkdir()
    for k, rows in enumerate((slice(0, 500), slice(500, 501), slice(501, 1200))):
        written(folder / f"part-{k}.parquet", {name: column[rows] for name, column in columns.items()})
    whole = written(tmp_path / "whole.parquet", columns)
    options: dict[str, Any] = {"target": "ill", "exclude": but("ill"), "noise": dm.Gaussian(0.05)}
    assert_same_figures(dm.measure(whole, engine="memory", **options).result(), dm.measure(folder, **options).result())


def test_doses_are_written_as_they_come(table: Path, tmp_path: Path) -> None:
    import polars as pl

    options: dict[str, Any] = {"target": "ill", "person": "scattered", "exclude": but("ill", "scattered")}
    whole = dm.measure(table, engine="memory", noise=dm.Gaussian(0.05), **options)
    blocks = dm.measure(table, engine="blocks", noise=dm.Gaussian(0.05), **options)
    for name in ("doses.parquet", "doses.csv"):
        blocks.write_doses(tmp_path / name)
        frame = (pl.read_parquet if name.endswith("parquet") else pl.read_csv)(tmp_path / name)
        by_person = dict(zip(map(str, frame["person"].to_list()), frame["eta_in_standard_deviations"], strict=True))
        expected = whole.persons
        assert by_person.keys() == expected.keys()
        np.testing.assert_allclose([by_person[k] for k in expected], list(expected.values()), rtol=1e-9)


def test_a_given_model_and_missing_values_that_are_filled_are_refused_in_blocks(table: Path) -> None:
    with pytest.raises(CannotMeasure, match="missing"):
        dm.measure(table, target="ill", engine="blocks", missing="impute", exclude=but("ill"))
    with pytest.raises(Refusal, match=r"spark.*use memory or .*blocks"):
        dm.measure(table, target="ill", engine="spark")


def test_classes_beyond_two_are_refused_in_blocks(table: Path) -> None:
    with pytest.raises(CannotMeasure, match="in memory only"):
        dm.measure(table, target="city", engine="blocks", exclude=but("city"))


def test_an_unknown_group_is_refused(table: Path) -> None:
    leak = dm.measure(table, target="ill", engine="blocks", exclude=but("ill"), noise=dm.Gaussian(0.1))
    with pytest.raises(Refusal, match="did you mean city"):
        leak.result(groups="citty")


def test_a_column_that_does_not_vary_may_be_named_as_tied(tmp_path: Path) -> None:
    rows = {**people(300), "unit": np.full(300, 7.0)}
    table = written(tmp_path / "t.parquet", rows, rows=50)
    for role in ("tied", "not_tied"):
        both(table, target="cost", exclude=but("cost", "adjacent"), person="adjacent", **{role: ("unit",)})


def test_a_group_of_zeros_has_one_name_whatever_their_sign(tmp_path: Path) -> None:
    rows = people(300)
    rows["visits"] = np.where(np.arange(300) % 3 == 0, -0.0, (np.arange(300) % 3 - 1.0))
    table = written(tmp_path / "t.parquet", rows, rows=50)
    both(table, target="cost", exclude=but("cost"), groups=("visits",))
    for engine in ("memory", "blocks"):
        leak = dm.measure(table, target="cost", exclude=but("cost"), noise=dm.Gaussian(0.05), engine=engine)
        names = {group.group for group in leak.result(groups=("visits",)).groups if group.column == "visits"}
        assert names == {"= 0", "= 1"}


def test_noise_with_a_covariance(tmp_path: Path) -> None:
    rows = {name: column for name, column in people(300).items() if name in ("score", "age", "cost")}
    table = written(tmp_path / "t.parquet", rows, rows=50)
    both(table, target="cost", noise=dm.CorrelatedGaussian(np.diag([0.1, 0.2, 0.3])))


def test_a_checkpoint_is_not_that_of_another_covariance_of_the_same_trace(tmp_path: Path) -> None:
    rows = {name: column for name, column in people(300).items() if name in ("score", "age", "cost")}
    table = written(tmp_path / "t.parquet", rows, rows=50)

    def run(*variances: float) -> float:
        noise = dm.CorrelatedGaussian(np.diag(variances))
        leak = dm.measure(table, target="cost", noise=noise, engine="blocks", checkpoint=tmp_path / "work")
        return float(leak.result().dose.highest)

    highest = run(0.1, 0.2, 0.3)
    assert run(0.1, 0.2, 0.3) == highest
    with pytest.raises(Refusal, match="other options"):
        run(0.3, 0.2, 0.1)
