"""Figures of many votes in one pass: the same by any blocks, and those counted teacher by teacher."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dosimeter.core.density import Density
from dosimeter.core.engine import LocalEngine
from dosimeter.core.noise import Exponential, Gaussian, Gumbel, Laplace, LogisticNoise
from dosimeter.core.progress import listening
from dosimeter.pate.doses import dose, leakage_matrix, totals, worst_by_query
from dosimeter.pate.leakage import leakage
from dosimeter.pate.threshold import Threshold, threshold_leakage
from dosimeter.pate.vote_blocks import VoteBlocks, count_votes, queries_per_block, sum_by_teacher
from dosimeter.pate.vote_figures import (
    RememberedLeakage,
    block_figures,
    exact_leakage,
    leakage_by_teacher,
    leakage_by_vote,
    vote_figures,
)
from dosimeter.pate.votes import Votes

LAWS = [Laplace(2.0), Gumbel(2.0), Exponential(2.0), LogisticNoise(1.5), Gaussian(2.0)]
L, K, M = 12, 83, 4
VALUES = np.random.default_rng(5).integers(0, M, (L, K))


def without(values: np.ndarray, m: int, t: int) -> np.ndarray:
    """v⁻ of one teacher, counted query by query."""
    rest = np.delete(values, t, axis=0)
    return np.array([np.bincount(column, minlength=m) for column in rest.T])


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("threshold", [None, Threshold(5, Laplace(1.5))])
@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_every_block_size_gives_the_figures_of_teacher_by_teacher(
    law: Density, threshold: Threshold | None, size: int
) -> None:
    """The oracle measures all (teacher, query) at once, without blocks, sorting or remembering."""
    each = np.array(
        [
            leakage(without(VALUES, M, t), law)
            if threshold is None
            else threshold_leakage(without(VALUES, M, t), law, threshold)
            for t in range(L)
        ]
    )
    figures = vote_figures(Votes(VALUES, M), law, threshold=threshold, block_size=size)
    np.testing.assert_allclose(figures.totals, each.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(figures.worst, each.max(axis=0), rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["i1", "u2", ">i4", "i8"])
def test_votes_on_disk_have_the_figures_of_votes_in_memory(kind: str, order: str, tmp_path: Path) -> None:
    np.save(tmp_path / "votes.npy", np.asarray(VALUES, dtype=kind, order=order))
    on_disk, here = Votes(np.load(tmp_path / "votes.npy", mmap_mode="r"), M), Votes(VALUES, M)
    a, b = (vote_figures(votes, Laplace(2.0), block_size=10) for votes in (on_disk, here))
    assert a.totals.tolist() == b.totals.tolist()
    assert a.worst.tolist() == b.worst.tolist()


def test_totals_worst_and_matrix_are_of_one_pass() -> None:
    votes, noise = Votes(VALUES, M), Laplace(2.0)
    figures, matrix = vote_figures(votes, noise, shown=9), leakage_matrix(votes, noise)
    assert figures.totals.tolist() == totals(votes, noise).tolist()
    assert figures.worst.tolist() == worst_by_query(votes, noise)[:9].tolist()
    np.testing.assert_allclose(matrix.sum(axis=1), figures.totals, rtol=1e-13)
    np.testing.assert_allclose(matrix.max(axis=0)[:9], figures.worst, rtol=1e-13)
    assert dose(votes, noise, by_teacher=figures.totals).amounts.tolist() == dose(votes, noise).amounts.tolist()


@pytest.mark.parametrize("size", [1, 4, 30, 200])
@pytest.mark.parametrize("shown", [0, 5, 50, 1000])
def test_the_first_queries_are_shown_however_they_are_cut(shown: int, size: int) -> None:
    votes, noise = Votes(VALUES, M), Gumbel(2.0)
    figures = vote_figures(votes, noise, shown=shown, block_size=size)
    np.testing.assert_allclose(figures.worst, worst_by_query(votes, noise)[:shown], rtol=1e-13)


def test_labels_that_agree_with_the_plain_vote_are_counted() -> None:
    plain = np.array([np.bincount(column, minlength=M).argmax() for column in VALUES.T])
    labels = plain.astype(np.int8)
    labels[::3] = -1  # refused
    labels[1] = (labels[1] + 1) % M
    for size in (1, 10, 100):
        assert vote_figures(Votes(VALUES, M), Laplace(2.0), labels=labels, block_size=size).agreed == int(
            (labels == plain).sum()
        )


@pytest.mark.parametrize(("teachers", "m"), [(300, 3), (7, 40), (2, 2)])
def test_many_teachers_and_many_classes_too(teachers: int, m: int) -> None:
    values = np.random.default_rng(6).integers(0, m, (teachers, 20))
    figures = vote_figures(Votes(values, m), Laplace(3.0), block_size=6)
    each = np.array([leakage(without(values, m, t), Laplace(3.0)) for t in range(teachers)])
    np.testing.assert_allclose(figures.totals, each.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(figures.worst, each.max(axis=0), rtol=1e-12)


def test_each_distinct_histogram_without_a_vote_is_measured_once() -> None:
    measured: list[list[int]] = []

    def leak(others: np.ndarray) -> np.ndarray:
        measured.extend(others.tolist())
        return others.max(axis=1) / 7.0

    votes = Votes(np.array([[0, 1, 2]] * 100 + [[1, 1, 0]] * 50), 3)
    leakage_by_teacher(votes, leak)
    assert sorted(measured) == [[99, 50, 0], [100, 49, 0], [149, 0, 0]]  # queries 0 and 2 have the same shape


@pytest.mark.parametrize("most", [0, 1, 1000])
def test_what_is_remembered_changes_no_figure_and_is_bounded(most: int) -> None:
    leak = RememberedLeakage(exact_leakage(Laplace(2.0), None), most)
    counts = count_votes(VALUES, M)
    alone = leakage_by_vote(counts, exact_leakage(Laplace(2.0), None))
    for _ in range(2):
        for start in range(0, K, 20):
            part = leakage_by_vote(counts[start : start + 20], leak)
            np.testing.assert_allclose(part, alone[start : start + 20], rtol=1e-13)
    assert (len(leak._known) == 0) == (most == 0)
    assert len(leak._known) <= most + 20 * M


def test_the_functions_of_blocks_can_be_sent_elsewhere_without_the_histograms_they_know() -> None:
    leak = RememberedLeakage(exact_leakage(Laplace(2.0), Threshold(5, Laplace(1.5))))
    figures = partial(block_figures, n_classes=M, leak=leak)
    blocks = list(VoteBlocks(Votes(VALUES, M).values, M, block_size=30))
    here = LocalEngine().sum_over(blocks, lambda block: (figures(block).totals,))[0]
    assert leak._known
    elsewhere = pickle.loads(pickle.dumps(figures))  # noqa: S301
    assert not elsewhere.keywords["leak"]._known
    there = [elsewhere(pickle.loads(pickle.dumps(block))) for block in blocks]  # noqa: S301
    np.testing.assert_allclose(np.sum([part.totals for part in there], axis=0), here, rtol=1e-13)


def test_sums_by_teacher_are_those_of_a_loop() -> None:
    table = np.random.default_rng(7).random((K, M))
    looped = [sum(table[q, VALUES[t, q]] for q in range(K)) for t in range(L)]
    np.testing.assert_allclose(sum_by_teacher(VALUES, table), looped, rtol=1e-14)


@pytest.mark.parametrize(("teachers", "m"), [(2, 2), (100, 10), (250, 1000), (10**6, 2), (100, 1 << 28)])
def test_a_block_keeps_within_its_memory(teachers: int, m: int) -> None:
    size = queries_per_block(teachers, m)
    assert size >= 1
    assert size == 1 or (size * teachers <= 1 << 23 and size * m <= 1 << 22)


def test_the_share_and_the_speed_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr("dosimeter.pate.vote_blocks.time.monotonic", lambda: next(clock))
    reports: list[object] = []

    class Listener:
        def __call__(self, stage: str | None, share: float | None) -> None:
            reports.append((stage, share))

        def note(self, detail: str) -> None:
            reports.append(detail)

    with listening(Listener()):
        vote_figures(Votes(VALUES, M), Laplace(2.0), block_size=50)
    assert ("measuring votes", None) in reports
    assert (None, 0.5) in reports
    assert (None, 1.0) in reports
    assert "25 queries/s" in reports


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read off Linux's /proc")
@pytest.mark.parametrize("order", ["C", pytest.param("F", marks=pytest.mark.slow)])
def test_a_file_of_votes_is_passed_through_and_not_held(order: str, tmp_path: Path) -> None:
    """150 MB of votes: a pass that keeps its pages holds them all, one that gives them back a few blocks of 8 MB."""
    script = (
        "import sys, numpy as np\n"
        "from dosimeter.core.noise import Gumbel\n"
        "from dosimeter.pate.vote_figures import vote_figures\n"
        "from dosimeter.pate.votes import Votes\n"
        "def peak():\n"
        "    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM'))\n"
        "def figures(values):\n"
        "    return vote_figures(Votes(values, 2), Gumbel(9.0), shown=0)\n"
        "figures(np.zeros((100, 70_000), np.int8))\n"
        "before = peak()\n"
        "figures(np.load(sys.argv[1], mmap_mode='r'))\n"
        "print(peak() - before)\n"
    )
    shape = (100, 1_500_000)
    np.lib.format.open_memmap(
        tmp_path / "votes.npy", mode="w+", dtype=np.int8, shape=shape, fortran_order=order == "F"
    ).flush()
    child = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "votes.npy")], stdout=subprocess.PIPE, check=True, text=True
    )
    assert int(child.stdout) < 50_000  # kB
