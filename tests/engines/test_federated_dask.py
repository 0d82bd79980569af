"""Clients that are trained on a cluster send the updates that they send when they are trained here, to the last bit."""

import os
import signal
from functools import partial

import numpy as np
import pytest

import dosimeter as dm
from dosimeter import federated
from dosimeter.core.errors import Refusal
from dosimeter.engines import dask_trainer
from tests.engines.clusters import cluster, first_to

ROUNDS = 3


@pytest.fixture(scope="module")
def client():
    with cluster() as here:
        yield here


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    y = (X @ rng.normal(size=5) + 0.3 * rng.normal(size=600) > 0).astype(int)
    clients = tuple(np.array_split(rng.permutation(600), 40))
    local = federated.LocalSGD(2, 0.3, batch=4)
    return federated.Task(federated.Network((5, 7, 2)), local, X, y, clients, X[:50], y[:50])


def train(task, **options):
    sampling, schedule = federated.PoissonSampling(40), federated.Constant(20, 1.0)
    curator = federated.Curator(sampling, schedule, federated.PrivacyBudget(50.0, 1e-2))
    options.setdefault("clients_per_batch", 4)
    return federated.simulate(task, curator, seed=1, rounds=ROUNDS, **options)


def test_the_model_is_that_of_a_training_in_this_process(client, task):
    here, there = train(task), train(task, trainer=dask_trainer.dask_trainer())
    assert there.state.model.tobytes() == here.state.model.tobytes()
    assert there.rounds == here.rounds


def test_the_workers_of_an_address_train_and_then_forget_the_rows(task):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", protocol="tcp") as here,
        Client(here, set_as_default=False) as watcher,
    ):
        there = train(task, trainer=dask_trainer.dask_trainer(here.scheduler_address))
        assert not any(watcher.run(lambda dask_worker: len(dask_worker.data)).values())
    assert there.state.model.tobytes() == train(task).state.model.tobytes()


def dies_once(rows, model, clients, t, f, marker):
    if t == 1 and first_to(marker):
        os.kill(os.getpid(), signal.SIGKILL)
    return f(rows, model, clients, t)


def test_a_worker_that_dies_in_a_round_changes_nothing(client, task, tmp_path, monkeypatch):
    import cloudpickle

    cloudpickle.register_pickle_by_value(__import__("tests.engines.test_federated_dask", fromlist=["x"]))
    harmed = partial(dies_once, f=dask_trainer.train_batch, marker=str(tmp_path / "killed"))
    expected = train(task)
    monkeypatch.setattr(dask_trainer, "train_batch", harmed)
    there = train(task, trainer=dask_trainer.dask_trainer())
    assert (tmp_path / "killed").exists()
    assert there.state.model.tobytes() == expected.state.model.tobytes()


def test_a_release_is_trained_on_the_cluster_too(client, task):
    assert not train(task, trainer=dask_trainer.dask_trainer(), clients_per_batch=None, for_release=True).simulation


def test_without_a_cluster_or_with_two_places_it_is_refused(task, monkeypatch):
    monkeypatch.setattr(dask_trainer, "open_client", lambda address: None)
    with pytest.raises(Refusal, match="no cluster"):
        train(task, trainer=dask_trainer.dask_trainer())
    with pytest.raises(Refusal, match="one place"):
        train(task, trainer=dask_trainer.dask_trainer(), processes=2)
    table = {"h": ["a", "b"] * 4, "x": np.arange(8.0), "y": [0, 1] * 4}
    with pytest.raises(Refusal, match="one place"):
        dm.federate(table, target="y", client="h", epsilon=8, scheduler="tls://h:1", processes=2)
    monkeypatch.undo()
    with pytest.raises(Refusal, match="not encrypted"):
        dm.federate(epsilon=8, rounds=2, dataset="digits", clients=500, scheduler="tcp://somewhere.example:1")
