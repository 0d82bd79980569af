"""A measurement on a cluster has the figures of the same table in this process."""

import json
import os
import subprocess
import sys
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import dosimeter as dm
from dosimeter import pate
from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.engines import memory, registry
from tests.deadlines import PATIENCE
from tests.engines.clusters import HarmedEngine, cluster, dies_once, distributed, separate_cluster
from tests.engines.tables import assert_same_figures, people, without_component_draw, written

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
da = pytest.importorskip("dask.array")
pd = pytest.importorskip("pandas")

OPTIONS = {
    "target": "ill",
    "exclude": ("cost", "stays", "adjacent", "scattered"),
    "noise": dm.Gaussian(0.05),
}
BY_PERSON = {**OPTIONS, "exclude": ("cost", "stays", "scattered"), "person": "adjacent"}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(memory, "MOST_ROWS", 256)


@pytest.fixture(scope="module")
def columns():
    return people(1200)


@pytest.fixture(scope="module")
def path(columns, tmp_path_factory):
    return written(tmp_path_factory.mktemp("table") / "people.parquet", columns, rows=300)


@pytest.fixture(scope="module")
def client():
    with cluster() as here:
        yield here


def result(table, **options):
    return dm.measure(table, **options).result(limit=0.5, groups="city")


@pytest.fixture(scope="module")
def local(path):
    return result(path, engine="memory", **OPTIONS)


def test_a_file_on_the_cluster_has_the_figures_of_the_table_in_memory(client, path, local):
    assert_same_figures(local, result(path, engine="dask", **OPTIONS))


def test_people_on_the_cluster_have_the_figures_of_the_table_in_memory(client, path):
    assert_same_figures(result(path, engine="memory", **BY_PERSON), result(path, engine="dask", **BY_PERSON))


def test_a_dataframe_of_dask_is_measured_as_it_is(client, columns, local):
    frame = dd.from_pandas(pd.DataFrame(columns), npartitions=5)
    assert_same_figures(local, result(frame, **OPTIONS))
    by_person = result(pd.DataFrame(columns), **BY_PERSON)
    assert_same_figures(by_person, result(frame, **BY_PERSON))


def test_an_array_of_dask_is_measured_as_it_is(client, columns):
    table = pd.DataFrame({name: columns[name] for name in ("score", "age", "dose", "cost")}).to_numpy()
    whole = {f"x{j}": table[:, j] for j in range(4)}
    options = {"target": "x3", "noise": dm.Gaussian(0.05)}
    ours = dm.measure(da.from_array(table, chunks=(500, 4)), **options).result(limit=0.5)
    assert_same_figures(dm.measure(whole, **options).result(limit=0.5), ours)


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_worker_that_is_killed_in_every_stage_changes_nothing(client, path, local, tmp_path, monkeypatch, every):
    passes = []

    def harmed(options):
        def harm(f, number):
            if number % every:
                return f
            passes.append(number)
            return partial(dies_once, f=f, marker=tmp_path / f"killed-{number}")

        return HarmedEngine(client, harm)

    monkeypatch.setitem(registry.ENGINES, "dask", harmed)
    assert_same_figures(local, result(path, engine="dask", **OPTIONS))
    assert len(passes) * every >= 8  # columns, fit, rows, columns over all rows, groups
    assert sorted(os.listdir(tmp_path)) == sorted(f"killed-{number}" for number in passes)


COMPONENTS = {
    "epsilon": 1.0,
    "person": "adjacent",
    "exclude": ("smokes", "sex", "born", "ill", "cost", "stays", "scattered", "visits"),
    "bounds": {
        "score": {"lower": -2.0, "upper": 2.0},
        "age": {"lower": 20, "upper": 90},
        "dose": {"lower": 2.9, "upper": 3.1},
        "city": {"levels": ["Ulm", "Graz", "Bonn"]},
    },
    "attack": True,
}


@pytest.mark.parametrize("kind", ["file", "collection", "harmed"])
def test_components_on_the_cluster_have_the_figures_of_the_table_in_memory(
    client, columns, path, kind, tmp_path, monkeypatch
):
    whole = dm.components(path, engine="memory", **COMPONENTS)

    def harm(f, number):
        return f if number % 2 else partial(dies_once, f=f, marker=tmp_path / f"killed-{number}")

    if kind == "harmed":
        monkeypatch.setitem(registry.ENGINES, "dask", lambda _: HarmedEngine(client, harm))
    table = dd.from_pandas(pd.DataFrame(columns), npartitions=4) if kind == "collection" else path
    there = dm.components(table, **({} if kind == "collection" else {"engine": "dask"}), **COMPONENTS)
    assert_same_figures(without_component_draw(whole.result), without_component_draw(there.result))
    figures = [dict(zip(r.doses[1].ids, r.doses[1].figures, strict=True)) for r in (whole, there)]
    assert figures[0].keys() == figures[1].keys()
    assert max(abs(figures[1][name] / eta - 1) for name, eta in figures[0].items()) < 1e-9
    assert len(os.listdir(tmp_path)) == (3 if kind == "harmed" else 0)


def test_readings_are_written_by_the_workers_whole(client, path, local, tmp_path):
    folder = tmp_path / "state"
    leak = dm.measure(path, engine="dask", checkpoint=folder, **OPTIONS)
    leak.write_doses(tmp_path / "doses.csv")
    in_blocks = dm.measure(path, engine="blocks", **OPTIONS)
    in_blocks.write_doses(tmp_path / "local.csv")
    ours, theirs = (pd.read_csv(tmp_path / name) for name in ("doses.csv", "local.csv"))
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    again = dm.measure(path, engine="dask", checkpoint=folder, **OPTIONS)
    assert_same_figures(local, again.result(limit=0.5, groups="city"))


def test_bad_rows_are_named_by_file_row_group_and_row(client, columns, tmp_path):
    holes = {**columns, "age": [None if k == 700 else v for k, v in enumerate(columns["age"].tolist())]}
    bad = written(tmp_path / "holes.parquet", holes, rows=300)
    with pytest.raises(Refusal, match=r"holes.parquet, row group 2: .*row 701, column age") as refusal:
        result(bad, engine="dask", **OPTIONS)
    assert "\n" not in str(refusal.value)


def test_without_a_cluster_the_threads_of_this_process_do_the_same(columns, local):
    frame = dd.from_pandas(pd.DataFrame(columns), npartitions=3)
    assert_same_figures(local, result(frame, **OPTIONS))


def collection(partitions):
    """A Dask DataFrame whose partitions are these frames, whatever their columns: Dask does not look."""
    parts = [dask.delayed(frame) for frame in partitions]
    return dd.from_delayed(parts, meta=partitions[0].iloc[:0], verify_meta=False)


def thirds(columns):
    frame = pd.DataFrame(columns)
    return [frame.iloc[k : k + 400] for k in (0, 400, 800)]


def test_columns_of_a_partition_are_found_by_their_names(columns, local):
    """By their places, doses and ages would change places in the second part of the table."""
    used = {name: column for name, column in columns.items() if name not in OPTIONS["exclude"]}
    partitions = thirds(used)  # nothing is left out, so that Dask selects no columns either
    partitions[1] = partitions[1][["age", "dose", "score", *list(used)[3:]]]
    assert_same_figures(local, result(collection(partitions), **{**OPTIONS, "exclude": ()}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda part: part.rename(columns={"age": "years"}), "partition 2: it has no column age: all partitions"),
        (lambda part: part.drop(columns="age"), "partition 2: it has no column age"),
        (lambda part: part.rename(columns={"dose": "age"}), "partition 2: it has two columns age"),
        (lambda part: part.assign(city=7), r"kind number and text in different parts .*\(column city\)"),
        (lambda part: part.assign(age=True), r"kind bool and number in different parts .*\(column age\)"),
        (lambda part: part.assign(age=part["age"].astype(str)), r"kind number and text .*\(column age\)"),
    ],
)
def test_a_partition_that_differs_from_its_collection_is_one_line(columns, change, message):
    partitions = thirds(columns)
    partitions[2] = change(partitions[2])
    with pytest.raises(Refusal, match=message) as refusal:
        result(collection(partitions), **OPTIONS)
    assert "\n" not in str(refusal.value)


def test_a_collection_that_cannot_be_computed_is_one_line_without_its_cells(columns):
    def broken(part):
        raise ValueError("could not convert Mrs Smith to a number")

    partitions = [dask.delayed(part) for part in thirds(columns)]
    partitions[1] = dask.delayed(broken)(partitions[1])
    table = dd.from_delayed(partitions, meta=pd.DataFrame(columns).iloc[:0], verify_meta=False)
    with pytest.raises(Refusal, match=r"a partition cannot be computed \(ValueError\)") as refusal:
        result(table, **OPTIONS)
    assert "Smith" not in str(refusal.value)


def test_a_chunk_of_an_array_that_is_too_narrow_is_one_line():
    rng = np.random.default_rng(0)
    chunks = [dask.delayed(rng.normal(size=(50, width))) for width in (3, 3, 2)]
    table = da.concatenate([da.from_delayed(chunk, (50, 3), dtype=float) for chunk in chunks])
    with pytest.raises(Refusal, match=r"partition 2: it is an array of shape \(50, 2\)"):
        dm.measure(table, target="x2", noise=dm.Gaussian(0.05)).result()


def test_what_does_not_fit_a_cluster_is_one_line(client, columns, path, tmp_path):
    frame = dd.from_pandas(pd.DataFrame(columns), npartitions=3)
    for table, options, message in [
        (frame, {"engine": "blocks"}, "a Dask collection is measured where it is"),
        (frame, {"scheduler": "tls://there:1"}, "open a distributed.Client"),
        (path, {"engine": "blocks", "scheduler": "tls://there:1"}, "is for files that a cluster reads"),
        (path, {"scheduler": "tcp://there:1"}, "it is not encrypted"),
        (pd.DataFrame(columns), {"engine": "dask"}, "not read in blocks"),
        (path, {"engine": "dask", "person": "scattered"}, "a cluster moves no rows"),
    ]:
        given = {**OPTIONS, **options}
        if "person" in options:
            given["exclude"] = ("cost", "stays", "adjacent")
        with pytest.raises(Refusal, match=message) as refusal:
            dm.measure(table, **given)
        assert "\n" not in str(refusal.value)


def test_workers_that_do_not_share_the_folder_are_refused(client, path, monkeypatch):
    from dosimeter.engines import dask_client

    monkeypatch.setattr(dask_client, "_sees", lambda probe: False)
    with pytest.raises(Refusal, match="does not share the folder"):
        dm.measure(path, engine="dask", **OPTIONS)


def test_teachers_on_the_cluster_vote_as_they_do_here(client):
    X = np.random.default_rng(3).normal(size=(240, 3))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    teachers = pate.Teachers(KNeighborsClassifier(1), 4)
    with client.as_current(), joblib.parallel_config("dask"):
        there = teachers.vote(X, y, X[:20] + 0.1)
    np.testing.assert_array_equal(there.values, teachers.vote(X, y, X[:20] + 0.1, n_jobs=1).values)


def test_the_command_line_measures_on_an_existing_cluster(path, tmp_path, capsys):
    """In a process of its own: in this one another test may have left a client that Dask takes for the default."""
    command = f"measure {path} --target ill --noise gaussian --scale 0.05 --json -".split()
    command += [word for name in OPTIONS["exclude"] for word in ("--exclude", name)]
    with separate_cluster(tmp_path) as site:
        site.start()
        with distributed.Client(site.address, timeout=PATIENCE, set_as_default=False) as first:
            first.wait_for_workers(1, timeout=PATIENCE)  # the command waits half a minute for a scheduler
        named = {f"DASK_{key.replace('.', '__').replace('-', '_').upper()}": v for key, v in site.settings.items()}
        words = [sys.executable, "-m", "dosimeter", *command, "--scheduler", site.address]
        child = subprocess.run(words, env={**os.environ, **named}, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    there = child.stdout
    assert run([*command, "--engine", "blocks"]) == 0
    here = capsys.readouterr().out
    assert json.loads(there)["dose"]["highest"] == pytest.approx(json.loads(here)["dose"]["highest"], rel=1e-9)
