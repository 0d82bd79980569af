"""The page of a running consortium, as plain values and as a response."""

from __future__ import annotations

from pathlib import Path

import pytest

from dosimeter.core.errors import Refusal
from dosimeter.files.consortium_journal import open_journal
from dosimeter.ledger import Ledger
from dosimeter.serve.app import application
from dosimeter.serve.consortium_page import consortium
from tests.serve.asking import PORT, TOKEN, Client

STATUS = {"study": "wards", "kind": "training", "stage": "training", "round": 3, "rounds": 20, "spent": 0.4,
          "budget": 1.0, "delta": 1e-6}  # fmt: skip


def text_of(folder: Path) -> str:
    page = consortium(folder, alone=True)
    return page.verdict.text + repr(page.sections)


def test_a_running_coordinator_shows_round_spent_and_left(tmp_path: Path) -> None:
    with open_journal(tmp_path, bytes(32)) as journal:
        journal.show(**STATUS)
        shown = text_of(tmp_path)
    assert "The coordinator is running: training." in shown
    for words in ("3 of 20", "'0.4'", "'0.6'"):
        assert words in shown
    assert "The coordinator is not running: the same command goes on." in text_of(tmp_path)


def test_sites_are_shown_with_when_they_were_heard_of(tmp_path: Path) -> None:
    with open_journal(tmp_path, bytes(32)) as journal:
        journal.show(study="wards", kind="model", stage="newton", asked=7, sites=["north", "south"], seen={"1": 2.0})
        shown = text_of(tmp_path)
    assert "(1, 'north', 'connected')" in shown
    assert "(2, 'south', 'not heard of yet')" in shown


def test_a_site_shows_what_it_answered_and_no_patient(tmp_path: Path) -> None:
    (tmp_path / "asked.json").write_text('{"count": 12}')
    (tmp_path / "pending.json").write_text('{"ids": ["CANARY"], "proposal": "00"}')
    shown = text_of(tmp_path)
    assert "'12'" in shown
    assert "agreed, not booked yet" in shown
    assert "CANARY" not in shown


def test_a_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no study was run"):
        consortium(tmp_path)


def test_it_is_served_alone_and_beside_a_ledger(tmp_path: Path, ledger: Ledger) -> None:
    with open_journal(tmp_path, bytes(32)) as journal:
        journal.show(**{**STATUS, "study": "<script>wards"})
    for opened, path in ((None, "/"), (ledger, "/consortium")):
        client = Client(application(opened, PORT, TOKEN, tmp_path))
        assert client.get(path).status_code != 200
        client.get(f"/?token={TOKEN}")
        page = client.get(path)
        assert page.status_code == 200
        assert "A consortium" in page.text
        assert "<script>wards" not in page.text
