"""A patient's update: the gradient of its own rows, and not a bit of anybody else's."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import Network, PatientRows, patient_updates
from dosimeter.federated.patient_updates import exact_product

P = 7
NETWORKS = {
    "softmax": Network((P, 3)),
    "softmax without bias": Network((P, 3), bias=False),
    "two hidden layers": Network((P, 5, 4, 3)),
    "linear regression": Network((P, 1), end="identity"),
    "regression with a hidden layer": Network((P, 6, 1), end="identity"),
}
COUNTS = (1, 3, 1, 2, 5, 1, 1, 2)


def site(network: Network, seed: int, counts: tuple[int, ...] = COUNTS) -> PatientRows:
    rng = np.random.default_rng(seed)
    n = sum(counts)
    y = rng.normal(size=n) if network.is_regression else rng.integers(0, network.widths[-1], n)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return PatientRows(rng.normal(size=(n, P)) * 10 ** rng.uniform(-2, 2, size=(n, 1)), y, starts)


def model_of(network: Network, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=network.size)


def loss(network: Network, model: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Mean loss of some rows by the plain forward pass in float64."""
    Z = network.outputs(model, X)
    if network.is_regression:
        return float(0.5 * np.square(Z[:, 0] - y).mean())
    Z = Z - Z.max(axis=1, keepdims=True)
    return float((np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(Z)), y]).mean())


def updates(network: Network, rows: PatientRows, model: np.ndarray, drawn: list[int]) -> dict[int, np.ndarray]:
    return {
        int(k): row.copy()
        for patients, stack in patient_updates(network, model, rows, drawn, 0.5)
        for k, row in zip(patients, stack, strict=True)
    }


@pytest.mark.parametrize("name", NETWORKS)
def test_an_update_is_the_step_against_the_gradient_of_the_mean_loss_of_ones_own_rows(name: str) -> None:
    """Against central differences of the loss."""
    network = NETWORKS[name]
    rng = np.random.default_rng(4)
    counts = (1, 3, 2)
    n = sum(counts)
    y = rng.normal(size=n) if network.is_regression else rng.integers(0, network.widths[-1], n)
    rows = PatientRows(rng.normal(size=(n, P)), y, np.concatenate([[0], np.cumsum(counts)]))
    model = 0.5 * model_of(network, 1)
    for k, update in updates(network, rows, model, [0, 1, 2]).items():
        own = slice(rows.starts[k], rows.starts[k + 1])
        steps = 1e-5 * np.eye(network.size)
        both = [[loss(network, model + sign * s, rows.X[own], rows.y[own]) for s in steps] for sign in (1.0, -1.0)]
        gradient = (np.array(both[0]) - np.array(both[1])) / 2e-5
        np.testing.assert_allclose(update, -0.5 * gradient, atol=2e-5 * max(1.0, np.abs(gradient).max()))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(3))
def test_the_bits_of_an_update_depend_on_nobody_else(name: str, seed: int) -> None:
    """Alone, in any company, in any order and place: the same bytes."""
    network, rng = NETWORKS[name], np.random.default_rng(seed)
    rows, model = site(network, seed), model_of(network, seed)
    alone = {k: updates(network, rows, model, [k])[k] for k in range(rows.patients)}
    for _ in range(5):
        company = rng.permutation(rows.patients)[: rng.integers(1, rows.patients + 1)].tolist()
        together = updates(network, rows, model, company)
        assert all(together[k].tobytes() == alone[k].tobytes() for k in company)
    others = site(network, seed + 100, (2, 1, 4))
    parts = [np.arange(rows.starts[k], rows.starts[k + 1]) for k in range(rows.patients)]
    theirs = [len(rows.X) + np.arange(others.starts[k], others.starts[k + 1]) for k in range(3)]
    mixed = [*theirs[:2], *parts, theirs[2]]
    joined = PatientRows.of(np.vstack([rows.X, others.X]), np.concatenate([rows.y, others.y]), mixed)
    moved = updates(network, joined, model, list(range(joined.patients)))
    assert all(moved[k + 2].tobytes() == alone[k].tobytes() for k in alone)


def test_many_patients_in_stacks_have_the_bits_of_one_alone() -> None:
    """More than one stack, wide rows: where a BLAS would block and round by the place of a row."""
    rng = np.random.default_rng(0)
    network = Network((91, 2))
    n = 3000
    X, y = rng.normal(size=(n, 91)), rng.integers(0, 2, n)
    model = rng.normal(size=network.size)
    whole = updates(network, PatientRows(X, y, np.arange(n + 1)), model, list(range(n)))
    for k in rng.choice(n, 60, replace=False):
        single = updates(network, PatientRows(X[k : k + 1], y[k : k + 1], np.arange(2)), model, [0])
        assert single[0].tobytes() == whole[int(k)].tobytes()


def test_a_plain_product_does_depend_on_its_company() -> None:
    """So the test above can fail: a float64 product of the same rows, or a sum in another order, has other bits."""
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(3000, 91)), rng.normal(size=(91, 2))
    backwards = X[:, ::-1] @ W[::-1]
    assert (X @ W).tobytes() != backwards.tobytes()
    assert exact_product(X, W).tobytes() == exact_product(X[:, ::-1], W[::-1]).tobytes()


def test_an_exact_product_is_that_of_the_rounded_factors_in_rational_numbers() -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(6, 33)) * 10 ** rng.uniform(-6, 6, size=(6, 1))
    B = rng.normal(size=(33, 4))
    product = exact_product(A, B)
    for i in range(6):
        for j in range(4):
            exact = sum(Fraction(a) * Fraction(b) for a, b in zip(A[i].tolist(), B[:, j].tolist(), strict=True))
            bound = 33 * np.abs(A[i]).max() * np.abs(B).max() * 2.0**-21
            assert abs(float(exact) - product[i, j]) <= bound
    assert exact_product(np.zeros((2, 33)), B).tolist() == np.zeros((2, 4)).tolist()


def test_a_step_of_linear_regression_is_the_step_of_least_squares() -> None:
    network = Network((P, 1), end="identity")
    rng = np.random.default_rng(3)
    X, y, w = rng.normal(size=(20, P)), rng.normal(size=20), rng.normal(size=P + 1)
    rows = PatientRows(X, y, np.arange(21))
    total = np.sum(list(updates(network, rows, w, list(range(20))).values()), axis=0)
    residual = X @ w[:P] + w[P] - y
    np.testing.assert_allclose(total, -0.5 * np.append(X.T @ residual, residual.sum()), atol=1e-4)


@pytest.mark.parametrize(
    ("X", "y", "starts"),
    [
        (np.ones(3), [0, 1, 0], [0, 3]),
        (np.full((3, 1), np.nan), [0, 1, 0], [0, 3]),
        (np.ones((3, 1)), [0, 1], [0, 3]),
        (np.ones((3, 1)), [0, 1, -1], [0, 3]),
        (np.ones((3, 1)), [0, 1, 0], [0, 2]),
        (np.ones((3, 1)), [0, 1, 0], [0, 2, 2, 3]),
        (np.ones((3, 1)), [0, 1, 0], [1, 3]),
    ],
)
def test_rows_that_do_not_fit_together_are_refused(X: np.ndarray, y: list[int], starts: list[int]) -> None:
    with pytest.raises(Refusal):
        PatientRows(X, y, np.array(starts))


def test_labels_of_the_wrong_kind_are_refused() -> None:
    rows = PatientRows(np.ones((2, P)), np.array([0.5, 1.5]), np.arange(3))
    with pytest.raises(Refusal, match="labels that are classes"):
        list(patient_updates(Network((P, 2)), np.zeros(2 * P + 2), rows, [0], 1.0))
