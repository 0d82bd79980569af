"""Votes: what is refused, what is counted, and the votes of the others."""

from __future__ import annotations

import pickle
from pathlib import Path

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


@pytest.mark.parametrize("cells", [17, 1 << 20])
@pytest.mark.parametrize("m", [4, 40])
def test_blocks_do_not_change_what_is_counted(m: int, cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(0, m, (300, 50))
    monkeypatch.setattr("dosimeter.pate.vote_blocks._CELLS", cells)
    monkeypatch.setattr("dosimeter.pate.vote_blocks.MOST_QUERIES", 7)
    counts = Votes(values, m).counts
    assert counts.tolist() == [[int((values[:, q] == j).sum()) for j in range(m)] for q in range(50)]


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


# ---------------------------------------------------------------- votes on disk


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["i1", "u1", "<i2", ">i4", "<u8", "<i8"])
def test_a_read_only_memory_map_stays_on_disk_whatever_its_integers(kind: str, order: str, tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 5, (6, 90))
    np.save(tmp_path / "votes.npy", np.asarray(values, dtype=kind, order=order))
    mapped = np.load(tmp_path / "votes.npy", mmap_mode="r")
    for view, same in ((mapped, values), (mapped[:, 3:50], values[:, 3:50]), (mapped[::-1], values[::-1])):
        votes = Votes(view, 5)
        assert np.shares_memory(votes.values, view)
        assert (votes.counts == Votes(same, 5).counts).all()
        assert not votes.values.flags.writeable
    transposed = np.load(tmp_path / "votes.npy", mmap_mode="r").T
    assert (Votes(transposed, 5).counts == Votes(values.T, 5).counts).all()
    sent = pickle.loads(pickle.dumps(Votes(mapped, 5)))  # noqa: S301
    assert (sent.values == values).all()


@pytest.mark.parametrize("mode", ["c", "r+"])
def test_a_memory_map_that_can_be_written_is_copied(mode: str, tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.zeros((3, 4), np.int8))
    mapped = np.load(tmp_path / "votes.npy", mmap_mode=mode)
    votes = Votes(mapped, 2)
    mapped[0, 0] = 1
    assert votes.values[0, 0] == 0
    hidden = mapped.view()
    hidden.setflags(write=False)
    assert not np.shares_memory(Votes(hidden, 2).values, mapped)
    assert mapped[0, 0] == 1  # what was written to it is not given back with its pages


def test_whole_floats_on_disk_are_copied_into_small_integers(tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.array([[0.0, 2.0], [1.0, 1.0]]))
    votes = Votes(np.load(tmp_path / "votes.npy", mmap_mode="r"), 3)
    assert (votes.values.dtype, votes.values.tolist()) == (np.dtype(np.int8), [[0, 2], [1, 1]])


@pytest.mark.parametrize("m", [2, 128, 129, 32768, 32769])
def test_the_highest_class_fits_into_the_type(m: int) -> None:
    assert Votes([[m - 1, 0], [0, m - 1]], m).values.tolist() == [[m - 1, 0], [0, m - 1]]


@pytest.mark.parametrize(("vote", "word"), [(5, "not one of the classes 0..4"), (-1, "negative")])
def test_a_bad_vote_in_the_last_block_is_named(
    vote: int, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dosimeter.pate.vote_blocks.MOST_QUERIES", 16)
    values = np.zeros((4, 99), np.int8)
    values[2, 97] = vote
    np.save(tmp_path / "votes.npy", values)
    for source in (values, np.load(tmp_path / "votes.npy", mmap_mode="r")):
        with pytest.raises(Refusal, match=r"votes\[2, 97\] \(teacher 2, query 97\)") as refusal:
            Votes(source, 5)
        assert word in str(refusal.value)


def test_a_file_that_changes_after_it_was_checked_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.zeros((4, 99), np.int8))
    votes = Votes(np.load(tmp_path / "votes.npy", mmap_mode="r"), 5)
    np.load(tmp_path / "votes.npy", mmap_mode="r+")[1, 3] = 9
    with pytest.raises(Refusal, match="changed while they were read"):
        _ = votes.counts


@pytest.mark.parametrize("teacher", [-1, 2, 0.0, True, "0"])
def test_a_teacher_that_is_not_there_is_refused(teacher: object) -> None:
    with pytest.raises(Refusal, match="from 0 to 1"):
        Votes(GOOD, 3).others(teacher)  # type: ignore[arg-type]


def test_classes_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(Refusal, match="too many to count"):
        Votes([[0, 1], [1, 1]], n_classes=10**9)
    with pytest.raises(Refusal, match="too many counts to hold"):
        _ = Votes([[0, 1], [1, 1]], n_classes=1 << 28).counts
    with pytest.raises(Refusal, match="at most"):
        Votes([[0, 1], [1, 1]], n_classes=10**20)
