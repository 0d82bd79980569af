"""Votes and states of training in files: atomic, private, and never an array of objects."""

from __future__ import annotations

import io
import stat
import sys
import zipfile

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.files.pate_checkpoint import read_progress, read_votes, write_progress
from dosimeter.pate.ensemble import Progress

from ..tables.corpus import Canary

STATE = Progress(
    np.array([[0, 2, 1], [-1, -1, -1]], dtype=np.int32), np.array([3, 0], dtype=np.int32), 3, "0123456789abcdef" * 2
)


def arrays(**changed):
    members = {
        "votes": STATE.votes,
        "seen": STATE.class_counts,
        "n_classes": np.int64(3),
        "digest": np.frombuffer(STATE.digest.encode(), dtype=np.uint8),
    }
    return {k: v for k, v in (members | changed).items() if v is not None}


def test_a_state_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "state.npz"
    write_progress(path, STATE)
    back = read_progress(path)
    np.testing.assert_array_equal(back.votes, STATE.votes)
    np.testing.assert_array_equal(back.class_counts, STATE.class_counts)
    assert (back.n_classes, back.digest, back.finished.tolist()) == (3, STATE.digest, [True, False])
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(Refusal, match=r"\.npz"):
        write_progress(tmp_path / "state.pkl", STATE)


@pytest.mark.parametrize(
    "changed",
    [
        {"votes": None},
        {"more": np.zeros(3)},
        {"votes": STATE.votes.astype(float)},
        {"votes": STATE.votes[0]},
        {"votes": np.where(STATE.votes == 2, 3, STATE.votes).astype(np.int32)},
        {"votes": np.abs(STATE.votes)},
        {"votes": np.full((2, 3), -1, dtype=np.int32)},
        {"seen": np.array([4, 0], dtype=np.int32)},
        {"seen": np.array([-1, 0], dtype=np.int32)},
        {"seen": np.array([3], dtype=np.int32)},
        {"n_classes": np.array([3])},
        {"digest": np.array("text")},
        {"digest": np.array([Canary(None)], dtype=object)},
    ],
)
def test_what_is_not_a_state_is_refused(changed, tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, **arrays(**changed))
    with pytest.raises(Refusal, match=r"state\.npz") as refused:
        read_progress(path)
    assert "\n" not in str(refused.value)


def test_damaged_bytes_are_refused_wherever_the_damage_is(tmp_path):
    path = tmp_path / "state.npz"
    write_progress(path, STATE)
    intact = path.read_bytes()
    for cut in range(0, len(intact), 37):
        path.write_bytes(intact[:cut] or b"x")
        with pytest.raises(Refusal):
            read_progress(path)


def test_a_declared_size_above_the_limit_is_refused_unread(tmp_path):
    path = tmp_path / "state.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays(votes=np.zeros((1000, 1000), dtype=np.int32)).items():
            data = io.BytesIO()
            np.save(data, array)
            archive.writestr(f"{name}.npy", data.getvalue())
    assert path.stat().st_size < 100_000
    with pytest.raises(Refusal, match="above the limit"):
        read_progress(path, limit=1_000_000)


def test_votes_are_read_as_stored(tmp_path):
    path = tmp_path / "votes.npy"
    np.save(path, np.array([[0, 1], [2, 1]], dtype=np.int8))
    assert read_votes(path).tolist() == [[0, 1], [2, 1]]


def test_an_array_of_objects_is_refused_by_its_header_and_never_opened(tmp_path):
    canary, path = tmp_path / "canary", tmp_path / "votes.npy"
    np.save(path, np.array([Canary(canary)], dtype=object), allow_pickle=True)
    with pytest.raises(Refusal, match="may run its author's code"):
        read_votes(path)
    assert not canary.exists()


@pytest.mark.parametrize(
    "content", [b"", b"0,1\n2,1\n", b"\x93NUMPY", b"\x93NUMPY\x01\x00\x10\x00{'descr': 'x'}\n", b"PK\x03\x04"]
)
def test_what_is_not_an_array_is_refused(content, tmp_path):
    path = tmp_path / "votes.npy"
    path.write_bytes(content)
    with pytest.raises(Refusal):
        read_votes(path)


def test_an_array_whose_header_lies_about_its_size_is_refused(tmp_path):
    path = tmp_path / "votes.npy"
    np.save(path, np.zeros((4, 5), dtype=np.int32))
    intact = path.read_bytes()
    for lie in (intact[:-1], intact + b"x", intact.replace(b"(4, 5)", b"(9, 5)")):
        path.write_bytes(lie)
        with pytest.raises(Refusal, match="its header declares"):
            read_votes(path)
    path.rename(tmp_path / "votes.csv")
    with pytest.raises(Refusal, match=r"\.npy file"):
        read_votes(tmp_path / "votes.csv")
