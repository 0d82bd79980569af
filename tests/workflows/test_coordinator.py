"""The coordinator's last step: whoever stops it, the sites learn that the study has ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dosimeter as dm
from dosimeter.engines.protocol.exchange import DirectExchange
from dosimeter.engines.protocol.message import read_message
from dosimeter.models.consortium_study import AGAIN, GOODBYE
from dosimeter.workflows import coordinator
from tests.models.consortium import Consortium, patients, schema_for
from tests.workflows.network_parts import Hospitals


def test_a_coordinator_that_is_stopped_after_the_release_has_time_to_tell_the_sites_when_it_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites that try again to reach it do so every five seconds: with one second they waited for a day."""
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))
    (tmp_path / "desks").mkdir()
    desks = Consortium(hospitals.schema, hospitals.parts, tmp_path / "desks").desks
    stopped, given = [True], []

    class Exchange(DirectExchange):
        def ask(self, questions: Any, *, deadline: float, **options: Any) -> Any:
            if read_message(next(iter(questions.values()))).operation == "finish":
                given.append(deadline)
                if stopped.pop():
                    raise KeyboardInterrupt
                stopped.append(False)
            return super().ask(questions, deadline=deadline, **options)

    @contextmanager
    def open_exchange(place: Any, roster: Any) -> Iterator[Exchange]:
        yield Exchange({k: desk.answer for k, desk in desks.items()})

    monkeypatch.setattr(coordinator, "transport_named", lambda name: SimpleNamespace(open_exchange=open_exchange))
    config = hospitals.coordinator / "consortium.toml"
    with pytest.raises(KeyboardInterrupt):
        dm.run_coordinator(config)
    assert hospitals.release.exists()
    stopped.append(False)
    assert dm.run_coordinator(config).artefact == dm.run_coordinator(config).artefact == hospitals.release.read_bytes()
    assert given == [GOODBYE, AGAIN, AGAIN]
    assert all(desk.finished for desk in desks.values())
