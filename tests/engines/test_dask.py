"""Sums on a cluster of separate processes with TLS: the same figures as here, whatever happens to the workers."""

import pickle
import sys
import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dosimeter import glm
from dosimeter.core.engine import LocalEngine, MappedPart, split
from dosimeter.core.errors import Refusal
from dosimeter.engines import dask_client
from dosimeter.engines.checkpoint import Checkpoint
from dosimeter.engines.dask import DaskEngine
from dosimeter.engines.dask_client import open_client
from dosimeter.engines.dask_source import DaskSource, is_dask
from dosimeter.engines.dask_tasks import leaves_of
from dosimeter.engines.parquet_source import ParquetSource
from dosimeter.glm.fitting.block_fit import fit_blocks
from tests.engines.clusters import (
    HarmedEngine,
    cloudpickle,
    cluster,
    dies_once,
    fills_memory,
    first_to,
    separate_cluster,
    stalls_once,
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
da = pytest.importorskip("dask.array")
cloudpickle.register_pickle_by_value(sys.modules[__name__])

N, D = 6000, 4
NAMES = tuple(f"x{j}" for j in range(D))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(20)
    X = rng.normal(size=(N, D)) + 0.5 * rng.normal(size=(N, 1))
    y = (rng.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2, 0.0]))).astype(float)
    return X, y


@pytest.fixture(scope="module")
def parts(rows, tmp_path_factory):
    """Row groups of a file that the workers read."""
    path = tmp_path_factory.mktemp("table") / "rows.parquet"
    X, y = rows
    table = pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": y})
    pq.write_table(table, path, row_group_size=750)
    source = ParquetSource.of(path, 1 << 30)
    return [MappedPart(part, as_numbers) for part in source.parts((*NAMES, "y"), 400)]


def as_numbers(raw):
    columns = [np.asarray(column) for column in raw.columns.values()]
    return np.column_stack(columns[:-1]), columns[-1], np.ones(raw.n)


@pytest.fixture(scope="module")
def client():
    with cluster() as here:
        yield here


@pytest.fixture(scope="module")
def in_memory(rows):
    return glm.fit(*rows, glm.Logistic(), 0.01, intercept=True)


def fit_on(engine, parts, rows):
    some = rows[0][:400], rows[1][:400]
    return fit_blocks(parts, glm.Logistic(), n=N, d=D, l2=0.01, engine=engine, sample=some)


def moments(block):
    X, y, _ = block
    return len(X), X.T @ X, X.T @ y


def close(ours, theirs):
    for mine, its in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-12)


# --- the same figures ---


def test_sums_of_the_cluster_are_those_of_this_process(client, rows, parts):
    X, y = rows
    assert client.scheduler.address.startswith("tls://")
    n, gram, products = DaskEngine(client).sum_over(parts, moments)
    assert n == N
    np.testing.assert_allclose(gram, X.T @ X, rtol=1e-12)
    np.testing.assert_allclose(products, X.T @ y, rtol=1e-12, atol=1e-10)


def test_a_fit_on_the_cluster_is_the_fit_in_memory(client, parts, rows, in_memory):
    fitted = fit_on(DaskEngine(client), parts, rows)
    np.testing.assert_allclose(fitted.w, in_memory.w, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        fitted.factor.matrix @ fitted.factor.matrix.T, in_memory.factor.matrix @ in_memory.factor.matrix.T, rtol=1e-9
    )


def test_a_map_keeps_the_order_of_the_blocks(client, parts):
    firsts = DaskEngine(client).map_over(parts, first_cell)
    assert firsts == LocalEngine().map_over(parts, first_cell)
    assert len(firsts) == 16  # two blocks in each of eight row groups


def first_cell(block):
    return float(block[0][0, 0])


def test_the_sum_has_the_same_bits_on_one_worker_and_on_two(client, parts):
    two = DaskEngine(client).sum_over(parts, moments)
    here = DaskEngine().sum_over(parts, moments)  # threads of this process, no cluster
    for ours, theirs in zip(two, here, strict=True):
        assert np.array_equal(ours, theirs)


def test_leaves_are_decided_by_the_table_alone():
    leaves = leaves_of(range(10_000))
    assert len(leaves) == 4096
    assert [k for leaf in leaves for k in leaf] == list(range(10_000))
    assert leaves_of([]) == []


def test_blocks_in_memory_and_functions_of_a_script_are_sent(client, rows):
    blocks = list(split(rows, 1000))
    assert DaskEngine(client).sum_over(blocks, lambda b: (len(b[0]),)) == (N,)
    with pytest.raises(Refusal, match="nothing to sum"):
        DaskEngine(client).sum_over([], moments)
    assert DaskEngine(client).map_over([], moments) == []


# --- what travels ---


def outgoing(client):
    """Bytes of values that left the workers, by Dask's own counter."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def forgets_everything(client):
    """Whether the workers hold nothing any more; they are notified after the client has its result."""
    deadline = time.monotonic() + 200
    while any(client.run(lambda dask_worker: len(dask_worker.data)).values()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def test_sums_travel_and_rows_do_not(client, parts):
    engine = DaskEngine(client)
    term = len(pickle.dumps(moments((np.ones((2, D)), np.ones(2), np.ones(2)))))
    before = outgoing(client)
    engine.sum_over(parts, moments)
    travelled = outgoing(client) - before
    envelope = 2000  # of Dask, for each value
    assert travelled < (len(parts) + 4) * (term + envelope)
    assert travelled < 0.25 * N * (D + 1) * 8
    assert forgets_everything(client)


def refuses_to_carry(dask_scheduler):
    """From here on the scheduler hands no results on; what it was able to do is kept."""

    async def refuse(*args, **kwargs):
        raise RuntimeError("the scheduler was asked for results")

    dask_scheduler.kept_gather = dask_scheduler.handlers["gather"]
    dask_scheduler.handlers["gather"] = refuse


def carries_again(dask_scheduler):
    dask_scheduler.handlers["gather"] = dask_scheduler.kept_gather


def test_results_do_not_go_through_the_scheduler(client, parts):
    here = LocalEngine().sum_over(parts, moments)
    client.run_on_scheduler(refuses_to_carry)
    try:
        there = DaskEngine(client).sum_over(parts, moments)
        with pytest.raises(Exception, match="asked for results"):  # the check can fail: Dask's own default asks it
            client.gather(client.scatter([1.0]), direct=False)
    finally:
        client.run_on_scheduler(carries_again)
    for ours, theirs in zip(here, there, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)


# --- what happens to workers ---


def test_a_worker_that_is_killed_in_every_pass_of_a_fit_changes_nothing(client, parts, rows, in_memory, tmp_path):
    engine = HarmedEngine(client, lambda f, number: partial(dies_once, f=f, marker=tmp_path / f"killed-{number}"))
    fitted = fit_on(engine, parts, rows)
    assert len(list(tmp_path.iterdir())) == engine.passes >= 4
    np.testing.assert_allclose(fitted.w, in_memory.w, rtol=0, atol=1e-9)


def test_a_worker_that_is_killed_while_it_maps_changes_nothing(client, parts, tmp_path):
    engine = HarmedEngine(client, lambda f, _: partial(dies_once, f=f, marker=tmp_path / "killed"))
    assert engine.map_over(parts, first_cell) == LocalEngine().map_over(parts, first_cell)
    assert (tmp_path / "killed").exists()


def test_a_slow_worker_is_waited_for(client, parts, tmp_path):
    harm = partial(stalls_once, f=moments, marker=tmp_path / "slow", seconds=2.0)
    close(DaskEngine(client).sum_over(parts, harm), LocalEngine().sum_over(parts, moments))


def test_a_refusal_of_a_worker_is_the_refusal_here(client, parts):
    with pytest.raises(Refusal, match=r"^cell of nobody: refused$"):
        DaskEngine(client).sum_over(parts, refuse)
    assert forgets_everything(client)


def refuse(block):
    raise Refusal("cell of nobody: refused")


def test_workers_without_memory_are_one_line(parts):
    settings = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.worker.memory.monitor-interval": "20ms",
    }
    with cluster(workers=1, memory="400MB", **settings) as client:
        with pytest.raises(Refusal, match=r"workers died 1 times at the same rows, .* memory") as refusal:
            DaskEngine(client).sum_over(parts, fills_memory)
        assert "\n" not in str(refusal.value)


def test_a_cluster_without_workers_is_one_line(parts, monkeypatch):
    monkeypatch.setattr(dask_client, "PATIENCE", 0.5)
    with cluster(workers=0) as client, pytest.raises(Refusal, match="no worker took a task"):
        DaskEngine(client).sum_over(parts, moments)


# --- what happens to the scheduler ---


@pytest.fixture
def separate(tmp_path):
    with separate_cluster(tmp_path) as site:
        yield site


def leaves_a_mark(block, marker):
    first_to(marker)
    time.sleep(0.05)
    return moments(block)


def when(marker, action):
    """Runs the action in a thread as soon as the marker exists."""

    def watch():
        while not marker.exists():
            time.sleep(0.02)
        action()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


def test_a_scheduler_that_comes_back_changes_nothing(separate, parts, tmp_path):
    separate.start()

    def restart():
        separate.kill()
        separate.start()

    marker = tmp_path / "begun"
    client = open_client(separate.address)
    try:
        watcher = when(marker, restart)
        sums = DaskEngine(client).sum_over(parts, partial(leaves_a_mark, marker=marker))
        watcher.join()
    finally:
        client.close()
    close(sums, LocalEngine().sum_over(parts, moments))


def test_a_scheduler_that_stays_away_is_one_line_and_finished_passes_are_kept(separate, parts, tmp_path, monkeypatch):
    separate.start()
    marker, folder = tmp_path / "begun", tmp_path / "state"
    client = open_client(separate.address)
    client._timeout = 1.0
    engine = DaskEngine(client, Checkpoint(folder, "task"))
    try:
        first = engine.sum_over(parts, moments)
        watcher = when(marker, separate.kill)
        with pytest.raises(Refusal, match="scheduler") as refusal:
            engine.sum_over(parts, partial(leaves_a_mark, marker=marker))
        watcher.join()
    finally:
        client.close()
    assert "\n" not in str(refusal.value)
    assert len(list(folder.glob("pass-*.npz"))) == len(list(folder.iterdir())) - 1 == 1  # and task.json
    again = DaskEngine(None, Checkpoint(folder, "task"))
    close(again.sum_over([MappedPart(part, refuse) for part in parts], moments), first)  # read, not computed


# --- who is connected to ---


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "scheduler.example:8786", "http://127.0.0.1:1", "tls://"])
def test_an_address_without_tls_is_refused(address):
    with pytest.raises(Refusal, match="use tls://HOST:PORT"):
        open_client(address)


def test_a_scheduler_that_is_not_there_is_one_line(separate, monkeypatch):
    monkeypatch.setattr(dask_client, "CONNECT", 1.0)
    with pytest.raises(Refusal, match="no scheduler can be reached") as refusal:
        open_client(separate.address)
    assert "\n" not in str(refusal.value)


def test_workers_with_other_software_are_refused(client, parts, monkeypatch):
    monkeypatch.setattr(dask_client, "software", lambda: ("dosimeter 0.0.1", "numpy 2.0", "scipy 1.15"))
    monkeypatch.setattr(
        client, "run", lambda f, **_: {"tls://worker:1": ("dosimeter 0.0.2", "numpy 2.0", "scipy 1.15")}
    )
    with pytest.raises(Refusal, match=r"worker tls://worker:1 has dosimeter 0\.0\.2 and this computer dosimeter 0.0.1"):
        DaskEngine(client)
    monkeypatch.setattr(client, "run", lambda f, **_: {"tls://worker:1": ModuleNotFoundError("no dosimeter")})
    with pytest.raises(Refusal, match="cannot run dosimeter"):
        DaskEngine(client)


# --- collections of Dask ---


def test_an_array_of_dask_is_a_table_in_parts(client, rows):
    X, y = rows
    array = da.from_array(np.column_stack([X, y]), chunks=(700, 3))
    source = DaskSource.of(array)
    assert is_dask(array)
    assert (source.rows, source.names, source.row_bytes) == (N, (*NAMES, "x4"), 40)
    assert "partition 1: bad (row 2)" in str(source.place_of(701).refusal("bad", "correct it", row=701))
    parts = [MappedPart(part, as_numbers) for part in source.parts(source.names, 256)]
    n, gram, products = DaskEngine(client).sum_over(parts, moments)
    np.testing.assert_allclose(gram, X.T @ X, rtol=1e-12)
    np.testing.assert_allclose(products, X.T @ y, rtol=1e-12, atol=1e-10)
    here = LocalEngine().sum_over(parts, moments)
    close((n, gram, products), here)


def test_a_dataframe_of_dask_is_a_table_in_parts(client, rows):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    X, y = rows
    frame = pd.DataFrame(dict(zip(NAMES, X.T, strict=True)) | {"word": np.where(y > 0, "yes", "no"), "y": y})
    collection = dd.from_pandas(frame, npartitions=7)
    source = DaskSource.of(collection)
    assert (source.rows, source.names) == (N, (*NAMES, "word", "y"))
    parts = [MappedPart(part, as_numbers) for part in source.parts(("x2", "y"), 256)]
    n, gram, products = DaskEngine(client).sum_over(parts, moments)
    assert n == N
    np.testing.assert_allclose(gram, [[X[:, 2] @ X[:, 2]]], rtol=1e-12)
    np.testing.assert_allclose(products, [X[:, 2] @ y], rtol=1e-12)
    words = DaskEngine(client).map_over(source.parts(("word",), 4000), first_word)
    starts = np.cumsum([0, *source.sizes[:-1]])
    assert words == ["yes" if y[k] else "no" for k in starts]


def first_word(raw):
    return raw.columns["word"][0].as_py()


def test_a_collection_that_is_no_table_is_refused():
    with pytest.raises(Refusal, match="is no table"):
        DaskSource.of(da.ones(10))
    with pytest.raises(Refusal, match="no rows"):
        DaskSource.of(da.ones((0, 3)))


def test_rows_that_change_between_passes_are_refused(client):
    source = DaskSource.of(da.ones((10, 2), chunks=5))
    part = source.parts(("x0",), 256)[0]
    other = replace(part, frame=np.ones((4, 2)), number=3)
    with pytest.raises(Refusal, match="partition 3: it has 4 rows and had 5"):
        list(other.blocks())
