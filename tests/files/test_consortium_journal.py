"""The coordinator's journal: one study, one draw, one run at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.files.consortium_journal import RELEASED, open_journal

STUDY = bytes(range(32))


def test_rounds_grow_over_restarts(tmp_path: Path) -> None:
    firsts = []
    for _ in range(3):
        with open_journal(tmp_path, STUDY) as journal:
            firsts.append(journal.first_round)
    assert firsts == sorted(set(firsts))
    assert firsts[1] - firsts[0] >= 1 << 32


def test_a_draw_outlives_a_restart_and_is_not_taken_from_other_bytes(tmp_path: Path) -> None:
    with open_journal(tmp_path, STUDY) as journal:
        journal.keep_draw(b"noised", proposal="00")
    with open_journal(tmp_path, STUDY) as journal:
        assert (journal.has_drawn, journal.artefact(), journal.facts["proposal"]) == (True, b"noised", "00")
        journal.keep(RELEASED)
        (tmp_path / "release.bin").write_bytes(b"other")
        with pytest.raises(Refusal, match="it is not the draw that the journal names"):
            journal.artefact()


def test_bytes_that_the_journal_does_not_name_are_no_draw(tmp_path: Path) -> None:
    """A kill between the bytes and the journal: nobody saw them."""
    with open_journal(tmp_path, STUDY) as journal:
        (tmp_path / "release.bin").write_bytes(b"half")
        assert not journal.has_drawn


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    second = open_journal(tmp_path, STUDY)
    with open_journal(tmp_path, STUDY), pytest.raises(Refusal, match="another run is using it"):
        second.__enter__()


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"schema": "dosimeter.consortium-journal/1"}', b"\xff"])
def test_a_damaged_journal_is_refused_and_not_begun_anew(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "journal.json").write_bytes(content)
    with pytest.raises(Refusal, match="it is no journal"), open_journal(tmp_path, STUDY):
        raise AssertionError
    assert (tmp_path / "journal.json").read_bytes() == content
