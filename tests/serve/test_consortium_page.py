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
    assert "The coordinator is not running. The same command resumes the study." in text_of(tmp_path)


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


def test_facts_stay_until_they_change_and_an_ended_study_shows_no_connections(tmp_path: Path) -> None:
    with open_journal(tmp_path, bytes(32)) as journal:
        journal.show(study="wards", stage="match", sites=["north", "south"], seen={})
        journal.show(**{**STATUS, "study": "wards"})
        journal.show(seen={"2": 1.0})
        shown = text_of(tmp_path)
        journal.show(stage="released")
        ended = text_of(tmp_path)
    assert "3 of 20" in shown
    assert "(2, 'south', 'connected')" in shown
    assert "The study has ended: released." in ended
    assert "connected" not in ended


def test_of_many_clients_it_shows_how_many_are_connected(tmp_path: Path) -> None:
    with open_journal(tmp_path, bytes(32)) as journal:
        journal.show(study="practices", kind="clients", stage="training", clients=400, seen={"7": 2.0, "9": 99.0})
        shown = text_of(tmp_path)
    assert "1 of 400 clients" in shown


def test_a_client_of_a_training_shows_its_last_round(tmp_path: Path) -> None:
    (tmp_path / "round.json").write_text('{"round": 4, "model": "00"}')
    assert "('last round', '5')" in text_of(tmp_path)


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
