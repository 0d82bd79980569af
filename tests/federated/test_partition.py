"""Partitions: sizes, disjointness, labels per client, repeated rows."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated.partition import by_column, classes_of, dirichlet, iid, two_shards

LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(10), 600))


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_two_shards_of_a_table_that_is_just_enough_are_disjoint_and_cover_it() -> None:
    clients = two_shards(LABELS, 10, generator())
    assert [len(rows) for rows in clients] == [600] * 10
    assert sorted(np.concatenate(clients).tolist()) == list(range(6000))


def test_a_client_of_two_shards_has_at_most_two_labels_if_shards_end_with_labels() -> None:
    counts = classes_of(LABELS, two_shards(LABELS, 10, generator()))
    assert set(counts.tolist()) <= {1, 2}
    assert (counts == 2).any()


def test_a_shard_is_a_run_of_the_sorted_table() -> None:
    clients = two_shards(LABELS, 10, generator())
    place = np.empty(6000, dtype=int)
    place[np.argsort(LABELS, kind="stable")] = np.arange(6000)
    for rows in clients:
        for shard in (rows[:300], rows[300:]):
            assert (np.diff(place[shard]) == 1).all()
            assert place[shard[0]] % 300 == 0


@pytest.mark.parametrize("clients", [25, 100, 1000])
def test_rows_are_repeated_over_clients_evenly_and_never_within_one(clients: int) -> None:
    rows_of_clients = two_shards(LABELS, clients, generator())
    assert all(len(np.unique(rows)) == 600 for rows in rows_of_clients)
    holders = np.bincount(np.concatenate(rows_of_clients), minlength=6000)
    assert holders.max() - holders.min() <= 1
    assert holders.sum() == 600 * clients


def test_one_shard_a_client_and_more_than_two_work_as_well() -> None:
    assert (classes_of(LABELS, two_shards(LABELS, 20, generator(), points=300, shards=1)) == 1).all()
    assert classes_of(LABELS, two_shards(LABELS, 10, generator(), shards=6)).max() > 2


def test_partitions_follow_from_the_generator() -> None:
    for partition in (
        lambda rng: two_shards(LABELS, 10, rng),
        lambda rng: iid(6000, 10, rng),
        lambda rng: dirichlet(LABELS, 10, rng, concentration=1.0),
    ):
        first, same, other = (np.concatenate(partition(generator(seed))).tolist() for seed in (1, 1, 2))
        assert first == same
        assert first != other


def test_iid_gives_every_row_to_one_client_in_equal_parts() -> None:
    clients = iid(1003, 10, generator())
    assert sorted({len(rows) for rows in clients}) == [100, 101]
    assert sorted(np.concatenate(clients).tolist()) == list(range(1003))


def test_iid_clients_have_all_labels() -> None:
    assert (classes_of(LABELS, iid(6000, 10, generator())) == 10).all()


def test_iid_with_points_repeats_rows_over_clients_and_never_within_one() -> None:
    clients = iid(1000, 25, generator(), points=300)
    assert all(len(np.unique(rows)) == 300 for rows in clients)
    assert len(clients) == 25


@pytest.mark.parametrize("concentration", [0.1, 1.0, 100.0])
def test_dirichlet_gives_every_row_to_one_client(concentration: float) -> None:
    clients = dirichlet(LABELS, 20, generator(), concentration=concentration, least=5)
    assert sorted(np.concatenate(clients).tolist()) == list(range(6000))
    assert min(len(rows) for rows in clients) >= 5


def test_dirichlet_shares_have_the_variance_of_their_distribution() -> None:
    """Share of a label at a client: mean 1/K, variance (K - 1)/(K²(Kα + 1)). 400 partitions; the band is 5 standard
    errors of the estimated variance, exceeded once in a million; half of α lies outside."""
    K, alpha, rng = 4, 2.0, generator()
    shares = np.array(
        [len(dirichlet(np.zeros(1000, dtype=int), K, rng, concentration=alpha)[0]) / 1000 for _ in range(400)]
    )
    squares = (shares - 1 / K) ** 2
    error = 5 * squares.std() / np.sqrt(len(squares))
    variance = [(K - 1) / (K * K * (K * a + 1)) for a in (alpha, alpha / 2)]
    assert abs(squares.mean() - variance[0]) < error
    assert abs(squares.mean() - variance[1]) > error


def test_small_concentrations_give_clients_fewer_labels() -> None:
    few, many = (classes_of(LABELS, dirichlet(LABELS, 20, generator(), concentration=a)).mean() for a in (0.05, 10.0))
    assert few < many == 10


def test_a_column_names_the_client_of_each_row() -> None:
    column = np.array(["north", "south", "north", "east"])
    clients, names = by_column(column)
    assert names == ("east", "north", "south")
    for rows, name in zip(clients, names, strict=True):
        assert rows.tolist() == np.flatnonzero(column == name).tolist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: two_shards(LABELS, 10, generator(), points=601), "not a multiple"),
        (lambda: two_shards(LABELS, 0, generator()), "clients"),
        (lambda: two_shards(LABELS, 10, generator(), points=7000), "points"),
        (lambda: two_shards(np.zeros((2, 2)), 1, generator()), "labels"),
        (lambda: iid(5, 10, generator()), "points="),
        (lambda: dirichlet(LABELS[:100], 90, generator(), concentration=0.01), "concentration"),
        (lambda: by_column([1.0, np.nan]), "missing"),
        (lambda: by_column([]), "one value"),
    ],
)
def test_an_impossible_partition_is_refused_with_what_to_do(wrong, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Refusal, match=message):
        wrong()
