"""A torch module against the batched network of the same shape. Skipped if torch is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import torch_learner
from dosimeter.federated.local_training import BatchedRows, LocalSGD, gather_rows, slots
from dosimeter.federated.networks import Network
from dosimeter.federated.torch_learner import TorchLearner

torch = pytest.importorskip("torch", reason="torch is not installed: TorchLearner is not tested")


def small() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))


def normalised() -> Any:
    return torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Linear(5, 3))


def as_module(network: Network, model: np.ndarray) -> np.ndarray:
    """The network's parameters in torch's order: each matrix (out, in)."""
    parts = []
    for W, b in network.layers(model[None]):
        parts += [W[0].T.ravel(), b[0].ravel()]
    return np.concatenate(parts)


@pytest.fixture
def stack() -> BatchedRows:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(30, 5)).astype(np.float32), rng.integers(3, size=30)
    return gather_rows(X, y, slots([np.arange(12), np.arange(12, 30)], LocalSGD(1, 0.1, batch=5), 1, 0, [0, 1]))


def test_a_module_moves_as_the_stacked_network_of_its_shape_does(stack: BatchedRows) -> None:
    network, learner, local = Network((5, 4, 3)), TorchLearner(small, 3), LocalSGD(3, 0.2, batch=5)
    model = network.start(np.random.default_rng(0))
    ours = network.updates(model, stack, local, 0.2)
    theirs = learner.updates(as_module(network, model), stack, local, 0.2)
    assert learner.size == network.size
    for k in range(2):
        np.testing.assert_allclose(theirs[k], as_module(network, ours[k]), rtol=0, atol=1e-5)
        assert np.abs(theirs[k]).max() > 1e-2


def test_a_module_is_scored_as_the_stacked_network_is(stack: BatchedRows) -> None:
    network, learner = Network((5, 4, 3)), TorchLearner(small, 3)
    model = np.random.default_rng(1).normal(size=network.size)
    X, y = stack.X[0].reshape(-1, 5), stack.y[0].ravel()
    ours, theirs = network.score(model, X, y), learner.score(as_module(network, model), X, y)
    assert theirs.accuracy == ours.accuracy
    assert theirs.loss == pytest.approx(ours.loss, rel=1e-5)


def test_the_start_follows_from_the_generator_and_leaves_torch_alone() -> None:
    learner = TorchLearner(small, 3)
    torch.manual_seed(1)
    undisturbed = torch.rand(1)
    torch.manual_seed(1)
    first, same, other = (learner.start(np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (first == same).all()
    assert (first != other).any()
    assert torch.rand(1) == undisturbed


def test_running_statistics_are_refused() -> None:
    with pytest.raises(Refusal, match="running_mean"):
        TorchLearner(normalised, 3).check(5, 3)


@pytest.mark.parametrize(("columns", "classes", "declared"), [(4, 3, 3), (5, 4, 3), (5, 2, 2)])
def test_a_module_that_does_not_fit_the_table_is_refused(columns: int, classes: int, declared: int) -> None:
    with pytest.raises(Refusal, match="module"):
        TorchLearner(small, declared).check(columns, classes)


def test_without_torch_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(Refusal, match=r"dosimeter\[torch\]"):
        torch_learner._torch()
