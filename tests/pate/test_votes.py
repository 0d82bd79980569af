"""Votes: what is refused, what is counted, and the votes of the others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.pate.votes import Votes, check_histograms

GOOD = [[0, 1, 2], [2, 1, 0]]


@pytest.mark.parametrize(
    ("votes", "m", "word"),
    [
        ([[0, -1], [0, 1]], 3, "negative"),
        ([[0, 1.5], [0, 1]], 3, "whole"),
        ([[0, np.nan], [0, 1]], 3, "whole"),
        ([[0, np.inf], [0, 1]], 3, "whole"),
        ([[0, 3], [0, 1]], 3, "not one of the classes 0..2"),
        (GOOD, 1, "nothing to vote on"),
        (GOOD, 2.0, "whole number"),
        (GOOD, True, "whole number"),
        ([[], []], 3, "not empty"),
        ([[0, 1, 2]], 3, "two teachers"),
        ([0, 1, 2], 3, "(teachers, queries)"),
        ([[True, False], [True, True]], 3, "bool"),
        (np.array([[0, None], [1, 1]], dtype=object), 3, "object"),
        ([["a", "b"], ["a", "b"]], 3, "number the classes"),
        ([[0, 1], [0]], 3, "different lengths"),
    ],
)
def test_bad_votes_are_refused_in_one_line(votes: object, m: int, word: str) -> None:
    with pytest.raises(Refusal) as refusal:
        Votes(votes, m)  # type: ignore[arg-type]
    assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("counts", "teachers", "word"),
    [
        ([[3, -1]], None, "-1"),
        ([[1.5, 1.5]], 3, "1.5"),
        ([[np.nan, 1.0]], None, "nan"),
        ([[2, 2]], 3, "sums to 4"),
        ([[3]], 3, "two classes"),
        (np.empty((0, 3)), 3, "empty"),
        ([2, 1], 3, "(queries, classes)"),
        ([[True, False]], 1, "bool"),
    ],
)
def test_bad_histograms_are_refused_in_one_line(counts: object, teachers: int | None, word: str) -> None:
    with pytest.raises(Refusal) as refusal:
        check_histograms(counts, teachers)  # type: ignore[arg-type]
    assert word in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_whole_floats_are_votes() -> None:
    assert Votes(np.array([[0.0, 2.0], [1.0, 1.0]]), 3).values.tolist() == [[0, 2], [1, 1]]


def test_counts_and_others_are_those_counted_vote_by_vote() -> None:
    rng = np.random.default_rng(1)
    votes = Votes(rng.integers(0, 5, (7, 40)), 6)
    for q in range(40):
        for j in range(6):
            assert votes.counts[q, j] == sum(int(vote) == j for vote in votes.values[:, q])
            others = [int(vote) for t, vote in enumerate(votes.values[:, q]) if t != 3]
            assert votes.others(3)[q, j] == others.count(j)


def test_blocks_do_not_change_what_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, 4, (9, 50))

    def leak(others: np.ndarray) -> np.ndarray:
        return (others**2).sum(axis=1) / 7.0

    whole = Votes(values, 4)
    matrix, totals = whole.matrix(leak), whole.totals(leak)
    monkeypatch.setattr("dosimeter.pate.votes._CELLS", 17)
    parts = Votes(values, 4)
    assert np.array_equal(parts.counts, whole.counts)
    assert np.array_equal(parts.matrix(leak), matrix)
    assert parts.totals(leak) == pytest.approx(totals, rel=1e-14)
    assert all(matrix[t] == pytest.approx(leak(whole.others(t)), rel=1e-15) for t in range(9))


def test_each_distinct_pair_of_query_and_own_vote_is_measured_once() -> None:
    votes = Votes(np.array([[0, 1]] * 100 + [[1, 1]] * 50), 3)
    measured = []
    votes.totals(lambda others: (measured.append(others.tolist()), np.zeros(len(others)))[1])
    assert measured == [[[99, 50, 0], [100, 49, 0], [0, 149, 0]]]


def test_votes_are_not_changed_by_their_maker_or_reader_and_survive_a_copy() -> None:
    values = np.zeros((3, 2), int)
    votes = Votes(values, 2, {"seed": 1})
    values[0, 0] = 1
    assert votes.values[0, 0] == 0
    with pytest.raises(ValueError, match="read-only"):
        votes.values[0, 0] = 1
    again = pickle.loads(pickle.dumps(votes))  # noqa: S301  as joblib sends it to another process
    assert (again.values == votes.values).all()
    assert dict(again.provenance) == {"seed": 1}


def test_provenance_holds_plain_constants_only() -> None:
    with pytest.raises(Refusal, match="ndarray"):
        Votes(GOOD, 3, {"rows": np.zeros(3)})  # type: ignore[dict-item]


@pytest.mark.parametrize("teacher", [-1, 2, 0.0, True, "0"])
def test_a_teacher_that_is_not_there_is_refused(teacher: object) -> None:
    with pytest.raises(Refusal, match="from 0 to 1"):
        Votes(GOOD, 3).others(teacher)  # type: ignore[arg-type]


def test_classes_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(Refusal, match="too many to count"):
        Votes([[0, 1], [1, 1]], n_classes=10**9)
    with pytest.raises(Refusal, match="at most"):
        Votes([[0, 1], [1, 1]], n_classes=10**20)
