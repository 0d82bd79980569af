"""Batched training against finite differences and against each client by itself."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from dosimeter.core.errors import Refusal
from dosimeter.federated import networks
from dosimeter.federated.local_training import BatchedRows, LocalSGD, gather_rows, slots
from dosimeter.federated.networks import Network

NETWORKS = [Network(w, bias) for w in ((5, 3), (5, 4, 3), (5, 6, 4, 3)) for bias in (True, False)]


def loss_at(network: Network, model: np.ndarray, X: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    """Row by row, from a list of matrices: shares only the order of the parameters with the batched code."""
    total, offset, parts = 0.0, 0, []
    for i, o in zip(network.widths[:-1], network.widths[1:], strict=True):
        W = model[offset : offset + i * o].reshape(i, o)
        offset += i * o
        b = model[offset : offset + o] if network.bias else np.zeros(o)
        offset += o if network.bias else 0
        parts.append((W, b))
    for x, label, w in zip(X, y, weight, strict=True):
        for k, (W, b) in enumerate(parts):
            x = np.where(x > 0, x, 0.0) @ W + b if k else x @ W + b
        total += w * (logsumexp(x) - x[label])
    return float(total)


def random_stack(c: int, steps: int, b: int, p: int, classes: int, seed: int, kind: type = np.float64) -> BatchedRows:
    rng = np.random.default_rng(seed)
    weight = np.full((c, steps, b), 1 / b, dtype=kind)
    return BatchedRows(
        rng.normal(size=(c, steps, b, p)).astype(kind),
        rng.integers(classes, size=(c, steps, b)).astype(np.intp),
        weight,
    )


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_a_step_is_the_finite_difference_of_the_loss(network: Network) -> None:
    rng = np.random.default_rng(3)
    stack = random_stack(2, 1, 4, 5, 3, seed=1)
    stack.weight[1, 0] = [0.5, 0.5, 0.0, 0.0]
    model, rate, h = rng.normal(size=network.size), 0.3, 1e-5
    updates = network.updates(model, stack, LocalSGD(1, rate, batch=4), rate)
    for k in range(2):
        rows = stack.X[k, 0], stack.y[k, 0], stack.weight[k, 0]
        slope = np.array(
            [
                (loss_at(network, model + h * e, *rows) - loss_at(network, model - h * e, *rows)) / (2 * h)
                for e in np.eye(network.size)
            ]
        )
        np.testing.assert_allclose(updates[k], -rate * slope, rtol=0, atol=1e-8)


def test_later_steps_start_where_earlier_ones_ended() -> None:
    network, local = Network((5, 4, 3)), LocalSGD(3, 0.2, batch=4)
    stack = random_stack(1, 2, 4, 5, 3, seed=2)
    model = w = np.random.default_rng(0).normal(size=network.size)
    for _ in range(3):
        for j in range(2):
            w = (
                w
                + network.updates(
                    w, BatchedRows(*(part[:, j : j + 1] for part in stack)), LocalSGD(1, 0.2, batch=4), 0.2
                )[0]
            )
    np.testing.assert_allclose(network.updates(model, stack, local, 0.2)[0], w - model, atol=1e-12)


@pytest.mark.parametrize("sizes", [(12, 12, 12), (3, 12, 7)], ids=["equal", "unequal"])
@pytest.mark.parametrize("local", [LocalSGD(3, 0.2, batch=5), LocalSGD(3, 0.2, batches=4)], ids=["batch", "batches"])
def test_a_stack_trains_each_client_as_it_would_train_alone(sizes: tuple[int, ...], local: LocalSGD) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 5)).astype(np.float32), rng.integers(3, size=40)
    rows_of_clients = np.split(rng.permutation(40)[: sum(sizes)], np.cumsum(sizes)[:-1])
    network = Network((5, 8, 3))
    model = network.start(rng)
    batched = network.updates(model, gather_rows(X, y, slots(rows_of_clients, local, 9, 4, [7, 1, 3])), local, 0.2)
    for k, client in enumerate([7, 1, 3]):
        single = network.updates(
            model, gather_rows(X, y, slots(rows_of_clients[k : k + 1], local, 9, 4, [client])), local, 0.2
        )
        np.testing.assert_allclose(batched[k], single[0], rtol=0, atol=1e-5)


def test_every_row_is_used_once_per_epoch_with_the_weight_of_its_batch() -> None:
    rows_of_clients = [np.arange(10, 17), np.arange(3)]
    rows, weight = slots(rows_of_clients, LocalSGD(1, 0.1, batch=3), 1, 0, [0, 1])
    for k in range(2):
        assert sorted(rows[k][weight[k] > 0].tolist()) == rows_of_clients[k].tolist()
    np.testing.assert_allclose(weight.sum(axis=2), [[1, 1, 1], [1, 0, 0]], atol=1e-6)
    assert weight[0, 2].tolist() == [1.0, 0.0, 0.0]


def test_shuffles_depend_on_seed_round_and_client_and_on_nothing_else() -> None:
    rows_of_clients, local = [np.arange(50)], LocalSGD(1, 0.1, batch=50)
    first = slots(rows_of_clients, local, 1, 2, [3]).rows
    assert (slots(rows_of_clients * 2, local, 1, 2, [8, 3]).rows[1] == first[0]).all()
    for other in ((2, 2, 3), (1, 3, 3), (1, 2, 4)):
        assert (slots(rows_of_clients, local, other[0], other[1], [other[2]]).rows != first).any()


def test_a_large_network_takes_the_same_steps_inside_its_products() -> None:
    network, local = Network((300, 500, 4)), LocalSGD(2, 0.1, batch=6)
    assert network.size > networks._FUSED
    stack = random_stack(2, 3, 6, 300, 4, seed=8, kind=np.float32)
    model = network.start(np.random.default_rng(1))
    double = BatchedRows(stack.X.astype(np.float64), stack.y, stack.weight.astype(np.float64))
    exact = network.updates(model, double, local, 0.1)
    updates = network.updates(model, stack, local, 0.1)
    assert updates.dtype == np.float32
    assert np.abs(exact).max() > 1e-2
    np.testing.assert_allclose(updates, exact, rtol=0, atol=1e-5)


def test_columns_without_an_entry_are_left_out_and_nothing_changes() -> None:
    network, local = Network((8, 4, 3)), LocalSGD(2, 0.2, batch=4)
    stack = random_stack(2, 2, 4, 8, 3, seed=4)
    stack.X[..., [1, 6]] = 0.0
    model = np.random.default_rng(2).normal(size=network.size)
    updates = network.updates(model, stack, local, 0.2)
    W = network.layers(updates)[0].W
    assert (W[:, [1, 6]] == 0).all()
    assert (W[:, [0, 2, 3, 4, 5, 7]] != 0).any(axis=2).all()
    np.testing.assert_allclose(updates, network._descend(model, stack, local, 0.2), atol=1e-12)


def test_rows_of_zeros_alone_move_biases_only() -> None:
    stack = random_stack(1, 1, 4, 5, 3, seed=4)
    stack.X[:] = 0.0
    updates = Network((5, 3)).updates(np.zeros(18), stack, LocalSGD(1, 1.0, batch=4), 1.0)[0]
    assert (updates[:15] == 0).all()
    assert (updates[15:] != 0).any()


def test_a_score_is_what_counting_row_by_row_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_ROWS", 7)
    rng = np.random.default_rng(6)
    network = Network((5, 4, 3))
    X, y, model = rng.normal(size=(30, 5)), rng.integers(3, size=30), rng.normal(size=network.size)
    losses = [loss_at(network, model, X[i : i + 1], y[i : i + 1], np.ones(1)) for i in range(30)]
    others = [
        min(loss_at(network, model, X[i : i + 1], np.array([c]), np.ones(1)) for c in range(3)) for i in range(30)
    ]
    score = network.score(model, X, y)
    assert score.accuracy == np.mean(np.array(losses) == np.array(others))
    assert score.loss == pytest.approx(np.mean(losses), rel=1e-12)


def test_training_separates_what_can_be_separated() -> None:
    X = np.repeat(np.eye(3, dtype=np.float32), 10, axis=0)
    y = np.repeat(np.arange(3), 10)
    network, local = Network((3, 16, 3)), LocalSGD(30, 0.5, batch=10)
    model = network.start(np.random.default_rng(0))
    update = network.updates(model, gather_rows(X, y, slots([np.arange(30)], local, 0, 0, [0])), local, 0.5)[0]
    assert network.score(model + update, X, y).accuracy == 1.0


def test_an_exploding_training_raises_no_error() -> None:
    stack = random_stack(1, 3, 4, 5, 3, seed=4, kind=np.float32)
    model = np.random.default_rng(0).normal(size=Network((5, 6, 4, 3)).size)
    updates = Network((5, 6, 4, 3)).updates(model, stack, LocalSGD(9, 1e6, batch=4), 1e12)
    assert not np.isfinite(updates).all()


@pytest.mark.parametrize("widths", [(5,), (5, 1), (0, 3), (5, 2.5)])
def test_invalid_widths_are_refused(widths: tuple[float, ...]) -> None:
    with pytest.raises(Refusal, match="width"):
        Network(widths)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{}, {"batch": 5, "batches": 5}, {"batch": 5, "decay": 0.0}, {"batches": 2.5}])
def test_an_invalid_local_training_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(Refusal, match=r"batch|decay"):
        LocalSGD(1, 0.1, **wrong)  # type: ignore[arg-type]


def test_the_rate_decays_by_round() -> None:
    local = LocalSGD(1, 0.8, batch=1, decay=0.5)
    assert [local.rate_at(t) for t in range(3)] == [0.8, 0.4, 0.2]


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(Refusal, match="rows have 4 columns"):
        Network((5, 3)).score(np.zeros(18), np.zeros((2, 4)), np.zeros(2, dtype=int))
