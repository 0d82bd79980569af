"""The coordinator's journal: what must survive a kill at any moment, in one file that is replaced whole.

It is written before anybody is asked, before a draw is sent to a site, and before the release is written. The draw
itself lies beside it. All of it is internal and readable by its owner only. A copy from an earlier time would draw
noise a second time: restore none.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from dosimeter.core.location import Location
from dosimeter.files.atomic import write_bytes
from dosimeter.files.federated_checkpoint import checkpoint_lock

SCHEMA = "dosimeter.consortium-journal/1"
DRAWS, FILE, ARTEFACT, STATUS = 32, "journal.json", "release.bin", "status.json"
STARTED, DRAWN, RELEASED, DECLINED = "started", "drawn", "released", "declined"
ROUNDS_OF_A_RUN = 1 << 32
"""Rounds grow over restarts: each run has its own range."""


@dataclass
class Journal:
    """The state of one study at the coordinator."""

    folder: Path
    study: bytes
    """SHA-256 of the schema."""
    run: int = 0
    """How often the coordinator was started for this study."""
    stage: str = STARTED
    facts: dict[str, Any] = field(default_factory=dict)
    """What later stages need: the recipe and the digest of the draw."""
    _shown: dict[str, Any] = field(default_factory=dict, repr=False)
    _showing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def first_round(self) -> int:
        """The number before the first question of this run."""
        return self.run * ROUNDS_OF_A_RUN

    def keep(self, stage: str | None = None, **facts: Any) -> None:
        """Write the journal with these facts."""
        self.stage = self.stage if stage is None else stage
        self.facts |= facts
        content = {"schema": SCHEMA, "study": self.study.hex(), "run": self.run, "stage": self.stage, **self.facts}
        write_bytes(self.folder / FILE, json.dumps(content, sort_keys=True).encode())

    def keep_draw(self, artefact: bytes, **facts: Any) -> None:
        """Keep a draw: first its bytes, then the line that makes it the draw of this study.

        A kill in between leaves bytes that nobody saw and that the journal does not name.
        """
        write_bytes(self.folder / ARTEFACT, artefact)
        self.keep(DRAWN, artefact=sha256(artefact).hexdigest(), **facts)

    @property
    def has_drawn(self) -> bool:
        """Whether noise was drawn for this study."""
        return self.stage in (DRAWN, RELEASED)

    def artefact(self) -> bytes:
        """The bytes of the draw."""
        path = self.folder / ARTEFACT
        content = path.read_bytes() if path.exists() else b""
        if sha256(content).hexdigest() != self.facts.get("artefact"):
            raise Location(os.fspath(path)).refusal(
                "it is not the draw that the journal names", "restore both from one copy; never draw again"
            )
        return content

    def show(self, **facts: Any) -> None:
        """Write what a page of a running study shows: numbers of rounds and sites, nothing of a patient.

        Facts that were shown before stay until they change. It may be called from several threads.
        """
        with self._showing:
            self._shown |= facts
            write_bytes(self.folder / STATUS, json.dumps({"time": time.time(), **self._shown}, sort_keys=True).encode())


@contextmanager
def open_journal(folder: Path, study: bytes) -> Iterator[Journal]:
    """The journal of a study under a lock, with one more run in it; refused if it belongs to another study."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / FILE
    with checkpoint_lock(path):
        journal = Journal(folder, study)
        if path.exists():
            stored = _read(path)
            if stored["study"] != study.hex():
                remedy = "name another state folder for another study"
                raise Location(os.fspath(path)).refusal("it belongs to another study or another schema", remedy)
            known = {key: value for key, value in stored.items() if key not in ("schema", "study", "run", "stage")}
            journal = Journal(folder, study, stored["run"], stored["stage"], known)
        journal.run += 1
        journal.keep()
        yield journal


def _read(path: Path) -> Mapping[str, Any]:
    try:
        stored = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        stored = None
    stages = (STARTED, DRAWN, RELEASED, DECLINED)
    fits = isinstance(stored, dict) and stored.get("schema") == SCHEMA and stored.get("stage") in stages
    if not fits or type(stored.get("run")) is not int or not isinstance(stored.get("study"), str):
        raise Location(os.fspath(path)).refusal("it is no journal of a consortium", "restore it from a copy")
    return dict(stored)


def read_status(folder: Path) -> Mapping[str, Any]:
    """What a running study shows; empty before its first question."""
    path = folder / STATUS
    if not path.exists():
        return {}
    try:
        facts = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise Location(os.fspath(path)).refusal("it is no status of a consortium", "start the coordinator again")
    return facts
