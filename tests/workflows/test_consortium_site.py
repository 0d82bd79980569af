"""A site before its first question: what is wrong is said at once, and nothing ends it without a word."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dosimeter as dm
from dosimeter.cli.main import run
from dosimeter.core.errors import Refusal
from dosimeter.engines.consortium_operations import FINISH
from dosimeter.engines.protocol.fields import pack
from dosimeter.engines.protocol.message import Message
from dosimeter.serve.server import Serving
from dosimeter.tables.consortium_schema import schema_of
from dosimeter.workflows import consortium_site, coordinator
from tests.ledger.samples import booking, dose
from tests.models.consortium import patients, schema_for
from tests.models.study_parts import COLUMNS
from tests.workflows.network_parts import Hospitals


class Away(Exception):
    """There is no coordinator."""


def started(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch, seen: Callable[[], None] = lambda: None
) -> list[str]:
    """What a site says until it connects."""

    def serve_site(*arguments: Any, **options: Any) -> None:
        seen()
        raise Away

    monkeypatch.setattr(consortium_site, "transport_named", lambda name: SimpleNamespace(serve_site=serve_site))
    said: list[str] = []
    with pytest.raises(Away):
        dm.run_site(hospitals.places[1] / "site.toml", say=said.append)
    return said


@pytest.fixture
def hospitals(tmp_path: Path) -> Hospitals:
    return Hospitals(tmp_path, schema_for("logistic"), patients("logistic"))


def edit(hospitals: Hospitals, pattern: str, text: str) -> None:
    path = hospitals.places[1] / "patients.csv"
    content, count = re.subn(pattern, text, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1
    path.write_text(content)


def test_a_table_that_matches_is_counted_before_the_site_connects(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(hospitals, r"^(p\d+),[^,]+,", r"\1,101.5,")
    first, last = started(hospitals, monkeypatch)
    assert first == (
        "the table matches the schema: 54 patients in 81 rows; 1 cells beyond the agreed bounds count as the bound"
    )
    assert last == "site 2, south: connecting to 127.0.0.1"


def test_ids_that_differ_in_capitals_only_are_counted_and_not_shown(
    hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patient who is written in two ways has two doses, each too low."""
    edit(hospitals, r"^p82,", "P82,")
    said = started(hospitals, monkeypatch)
    assert said[1].startswith("1 id of a person differs from another only in capitals, blanks, leading zeros")
    assert "82" not in said[1]


def test_a_ledger_without_a_limit_for_the_study_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would answer yes to everything, since what it limits is another kind of dose."""
    hospitals = Hospitals(tmp_path, schema_for("logistic"), patients("logistic"), budget="eps=8@1e-6")
    line = "the ledger has no limit for doses of this kind: `dosimeter ledger budget --ledger LEDGER fil=2` sets one"
    assert line in started(hospitals, monkeypatch)


@pytest.mark.skipif(os.name == "nt", reason="permissions as on POSIX")
def test_a_key_that_others_can_read_is_said(hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("chmod" in line for line in started(hospitals, monkeypatch))
    (hospitals.places[1] / "site.key").chmod(0o644)
    assert started(hospitals, monkeypatch)[0] == (
        "other users of this computer can read or write site.key: chmod 600 site.key"
    )


FAULTS = {
    "a level": (r",m,", ",CANARY,", "a level that the schema does not list (row "),
    "a gap": (
        r"^(p\d+),[^,]+,",
        r"\1,,",
        'correct the cell, or leave such rows out (missing = "drop" in site.toml: 1 of',
    ),
    "text": (r"^(p\d+),[^,]+,", r"\1,CANARY,", "missing value, or a cell that cannot be read (row 1, column age)"),
    "a name": (r"^id,age", "id,Age", "there is no column age, which the schema names"),
    "no header": (r"^id,age,.*$", "CANARY,34.5,22.25,m,no", "there is no column id, which the schema names"),
    "no header, equal cells": (r"^id,age,.*$", "p0,CANARY,CANARY,m,no", "columns 2 and 3 have the same name"),
    "semicolons": (r"^id,age,.*$", "id;age;bmi;sex;y", 'pass delimiter = ";" in site.toml'),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_table_that_does_not_match_is_said_before_the_site_connects_and_what_to_do(
    fault: str, hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, text, reason = FAULTS[fault]
    edit(hospitals, pattern, text)
    said = started(hospitals, monkeypatch)
    assert said[0].startswith("this site does not match the schema: ")
    assert reason in said[0]
    assert "CANARY" not in said[0]
    assert "--" not in said[0]  # options of a command that has none of them


def test_a_client_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(
        {
            "study": "practices", "target": "y", "release": {"name": "r1"},
            "clients": {"epsilon": 50.0, "delta": 1e-3, "rounds": 2, "noise-multiplier": 1.0, "epochs": 1},
            "columns": {**COLUMNS, "y": {"levels": ["no", "yes"]}},
            "sites": [{"name": name} for name in ("north", "south", "east")],
        },
        complete=False,
    )  # fmt: skip
    hospitals = Hospitals(tmp_path, schema, patients("logistic"))
    assert started(hospitals, monkeypatch)[0] == "the table matches the schema: 81 rows"
    for header, reason in (
        ("id,Age,bmi,sex,y", "there is no column age: add or rename it"),
        ("CANARY,34.5,22.25,m,no", "there is no column age: add or rename it"),
        ("CANARY,CANARY,22.25,m,no", "columns 1 and 2 have the same name: rename one of them"),
    ):
        edit(hospitals, r"\A.*$", header)
        said = started(hospitals, monkeypatch)[0]
        assert said.startswith("this client's table does not match the schema: ")
        assert said.endswith(f"patients.csv: {reason}")


@pytest.mark.parametrize("booked_before", [False, True])
def test_a_coordinator_that_says_released_and_had_nothing_booked_is_not_believed(
    booked_before: bool, hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the ledger has an entry of that name, of something else."""

    def serve_site(place: Any, answer: Callable[[bytes], bytes], **options: Any) -> None:
        values = pack(FINISH.question, {"released": True}, {})
        answer(Message(hospitals.schema.digest, 1 << 32, 2, bytes(16), FINISH.name, values).pack())

    if booked_before:
        with dm.Ledger.open(hospitals.places[1] / "ledger.db") as ledger:
            ledger.book(booking("r1", dose({"p1": 0.1})))
    monkeypatch.setattr(consortium_site, "transport_named", lambda name: SimpleNamespace(serve_site=serve_site))
    record = dm.run_site(hospitals.places[1] / "site.toml")
    assert (record.released, record.booked) == (True, False)
    assert run(["federate", "site", "--config", str(hospitals.places[1] / "site.toml")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "The coordinator says that r1 was released, and nothing was booked here" in said


@pytest.mark.parametrize("party", ["site", "coordinator"])
def test_the_folder_of_another_party_is_refused_before_anybody_is_asked(party: str, hospitals: Hospitals) -> None:
    place = hospitals.places[1] if party == "site" else hospitals.coordinator
    for name in ("crt", "key"):
        (place / f"{party}.{name}").write_bytes((hospitals.places[0] / f"site.{name}").read_bytes())
    if party == "site":
        with pytest.raises(Refusal, match=r"site\.crt is not the certificate that the schema has for site 2, south"):
            dm.run_site(place / "site.toml")
        return
    (place / "coordinator.key").write_bytes((hospitals.places[2] / "site.key").read_bytes())
    with pytest.raises(Refusal, match=r"coordinator\.key is not the key of coordinator\.crt"):
        dm.run_coordinator(place / "consortium.toml")


@pytest.fixture
def as_on_the_command_line() -> Iterator[None]:
    """SIGPIPE ends the program, so that `| head` is quiet."""
    if not hasattr(signal, "SIGPIPE"):
        pytest.skip("this platform has no SIGPIPE")
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGPIPE, before)


@pytest.mark.parametrize("party", ["site", "coordinator", "page"])
def test_a_connection_that_the_other_side_closes_does_not_end_the_program(
    party: str, hospitals: Hospitals, monkeypatch: pytest.MonkeyPatch, as_on_the_command_line: None
) -> None:
    """A coordinator that is stopped in the middle of a request had ended a site without a word, by a signal."""
    handlers: list[Any] = []

    def look(*arguments: Any, **options: Any) -> Any:
        handlers.append(signal.getsignal(signal.SIGPIPE))

    if party == "site":
        started(hospitals, monkeypatch, look)
    elif party == "coordinator":

        def stopped(settings: Any, schema: Any, journal: Any, connection: Any, say: Any) -> Any:
            with connection:
                look()
            raise Away

        monkeypatch.setattr(coordinator, "_run", stopped)
        with pytest.raises(Away):
            dm.run_coordinator(hospitals.coordinator / "consortium.toml")
    else:
        monkeypatch.setattr(Serving, "server", lambda *arguments: SimpleNamespace(run=look))
        Serving.on().run(None)
    assert handlers == [signal.SIG_IGN]
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL
