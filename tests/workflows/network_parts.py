"""A consortium of real processes on the loopback: folders as `federate init` writes them, sites, a coordinator, faults.

Processes come from a fork server that has the package loaded, so that one costs milliseconds instead of seconds.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.ledger import Ledger
from dosimeter.tables.consortium_schema import ConsortiumSchema, read_schema
from dosimeter.tables.schema_text import schema_text
from dosimeter.workflows.consortium_init import create_consortium
from tests.deadlines import PATIENCE, deadlines_that_pass, wait_until
from tests.models.consortium import cut
from tests.ports import HERE, free_port

FAULT, RELEASED, SAID_NO = 2, 0, 1
UNCHECKED = "does not look at its own certificate"
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.workflows.network_parts", "dosimeter.workflows.coordinator",
                                "dosimeter.workflows.consortium_site"])  # fmt: skip


class Hospitals:
    """Three hospitals with their tables and ledgers, and a coordinator that is not running yet."""

    def __init__(self, folder: Path, schema: ConsortiumSchema, rows: dict[str, Any], budget: str = "fil=2") -> None:
        self.folder = folder / "consortium"
        self.rows, self.parts, self.port = rows, cut(rows), free_port()
        (folder / "schema.toml").write_text(schema_text(schema))
        create_consortium(folder / "schema.toml", host=HERE, port=self.port, out=self.folder, days=2)
        self.places = [next(self.folder.glob(f"site-{k}-*")) for k in (1, 2, 3)]
        self.coordinator = self.folder / "coordinator"
        self.schema = read_schema(self.coordinator / "schema.toml")
        for place, part in zip(self.places, self.parts, strict=True):
            with (place / "patients.csv").open("w", newline="") as file:
                sheet = csv.writer(file)
                sheet.writerow(part)
                sheet.writerows(zip(*part.values(), strict=True))
            if schema.clients is None:
                Ledger.create(place / "ledger.db", [budget]).close()
        self.set("coordinator", "deadline", str(PATIENCE))
        for k in (1, 2, 3):
            self.set(k, "patience", str(PATIENCE))

    def set(self, party: int | str, key: str, value: str) -> None:
        """Change a key of a config file."""
        own = party == "coordinator"
        path = self.coordinator / "consortium.toml" if own else self.places[int(party) - 1] / "site.toml"
        text = re.sub(rf"(?m)^{key} = .*\n", "", path.read_text())
        path.write_text(text + f"{key} = {value}\n")

    @contextmanager
    def sites(self, *numbers: int, spoil: str = "", of: int = 2, delay: float = 0.0) -> Iterator[list[Any]]:
        """Processes of some sites; one of them may spoil its answers or be slow."""
        running = []
        for k in numbers or (1, 2, 3):
            options = (spoil, delay) if k == of else ("", 0.0)
            for mark in ("ticket", "asked again"):
                (self.places[k - 1] / mark).unlink(missing_ok=True)
            process = CONTEXT.Process(target=run_one_site, args=(self.places[k - 1], *options), daemon=True)
            process.start()
            running.append(process)
        try:
            yield running
        finally:
            for process in running:
                process.join(timeout=0.0)
                process.kill()
                process.join(PATIENCE)

    def coordinate(self, kill_at: int = 0, timeout: float = 2 * PATIENCE) -> int:
        """Run the coordinator to its end, or until its kill_at-th moment; the exit code, negative for a signal."""
        process = CONTEXT.Process(target=run_one_coordinator, args=(self.coordinator, kill_at), daemon=True)
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join(PATIENCE)
            raise AssertionError("the coordinator did not end")
        return int(process.exitcode or 0)

    @contextmanager
    def coordinator_beside(self) -> Iterator[list[int]]:
        """A coordinator that runs beside the test to its end; then the list has its exit code."""
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(self.coordinate()))
        thread.start()
        yield codes
        thread.join(3 * PATIENCE)

    def deadlines_pass(self, *late: int) -> None:
        """The next coordinators wait for these sites no longer than for the others."""
        (self.coordinator / "late").write_text(json.dumps(late))

    def has_in_hand(self, site: int, operation: str = "") -> bool:
        """Whether a site has a question in hand, of this operation."""
        ticket = self.places[site - 1] / "ticket"
        return ticket.exists() and _message(ticket.read_bytes()).operation.startswith(operation)

    def said(self, party: int | str) -> str:
        """What a party said."""
        place = self.coordinator if party == "coordinator" else self.places[int(party) - 1]
        log = place / "log"
        return log.read_text() if log.exists() else ""

    def booked(self) -> list[list[Any]]:
        """The releases in each ledger."""
        entries = []
        for place in self.places:
            with Ledger.open(place / "ledger.db") as ledger:
                entries.append(list(ledger.releases()))
        return entries

    def people_booked_are_the_own_ones(self) -> bool:
        """Whether each ledger holds exactly its own patients, once."""
        for place, part in zip(self.places, self.parts, strict=True):
            with Ledger.open(place / "ledger.db") as ledger:
                entries = ledger.releases()
                own = set(map(str, part["id"]))
                if [entry.people for entry in entries] != [len(own)]:
                    return False
                if not all(ledger.person(person).totals for person in own):
                    return False
                others = set(map(str, self.rows["id"])) - own
                if any(ledger.person(person).totals for person in others):
                    return False
        return True

    @property
    def release(self) -> Path:
        return self.coordinator / "model.skops"


def logger(place: Path) -> Callable[[str], None]:
    def say(text: str) -> None:
        with (place / "log").open("a") as file:
            file.write(text + "\n")

    return say


def replace_ticket(place: Path, data: bytes) -> None:
    """Write the question that a site has in hand; whoever reads the file meanwhile finds a whole one."""
    (place / "ticket.new").write_bytes(data)
    (place / "ticket.new").replace(place / "ticket")


def run_one_site(place: Path, spoil: str, delay: float) -> None:
    """A site in a process of its own."""
    from dosimeter.models import site_desk
    from dosimeter.workflows import consortium_site
    from dosimeter.workflows.consortium_site import run_site

    honest = site_desk.SiteDesk.answer

    asked: set[bytes] = set()

    def answer(self: Any, data: bytes) -> bytes:
        if spoil and data in asked:  # what it sent was not taken
            (place / "asked again").touch()
        asked.add(data)
        replace_ticket(place, data)
        time.sleep(delay)
        return SPOILED[spoil](place, honest(self, data)) if spoil else honest(self, data)

    if spoil == UNCHECKED:
        spoil = ""
        consortium_site.check_identity = lambda *arguments: None
    site_desk.SiteDesk.answer = answer  # type: ignore[method-assign]
    ended = run_with(lambda: run_site(place / "site.toml", say=logger(place)), place)
    os._exit(ended)


def run_one_coordinator(place: Path, kill_at: int) -> None:
    """A coordinator in a process of its own, which kills itself at a moment."""
    from dosimeter.engines import https_transport
    from dosimeter.workflows import coordinator
    from dosimeter.workflows.coordinator import run_coordinator

    coordinator.AGAIN = 1.0  # the sites of a second run have ended
    open_exchange = https_transport.open_exchange

    @contextmanager
    def opened(*arguments: Any) -> Iterator[Any]:
        from dosimeter.engines import https_server

        def over(missing: Collection[int], question: bytes) -> bool:
            return deadline_is_over(place, missing, question)

        with open_exchange(*arguments) as exchange, deadlines_that_pass(exchange, [https_server], over):
            yield exchange

    https_transport.open_exchange = opened  # type: ignore[assignment]
    if kill_at:
        kill_at_moment(kill_at)

    def run() -> int:
        return RELEASED if run_coordinator(place / "consortium.toml", say=logger(place)).artefact else SAID_NO

    os._exit(run_with(run, place))


def deadline_is_over(coordinator: Path, missing: Collection[int], question: bytes) -> bool:
    """Whether only sites are missing that a test has named as late, or whose answer was sent and not taken."""
    late = coordinator / "late"
    named = json.loads(late.read_text()) if late.exists() else []
    refused = (any(coordinator.parent.glob(f"site-{k}-*/asked again")) for k in missing)
    return bool(missing) and all(k in named or again for k, again in zip(missing, refused, strict=True))


def run_with(run: Callable[[], Any], place: Path) -> int:
    """The exit code, as the command line has it."""
    try:
        outcome = run()
        return outcome if isinstance(outcome, int) else 0
    except Refusal as stop:
        logger(place)(f"error: {stop}")
        return FAULT


def kill_at_moment(count: int) -> None:
    """Kill this process before or after the count-th of: asking the sites, writing a file.

    What a page shows is written from time to time: it does not count, so the same count is the same moment everywhere.
    """
    from dosimeter.engines.protocol import assembly
    from dosimeter.files import consortium_journal, federated_checkpoint
    from dosimeter.workflows import coordinator

    moments = [0]

    def moment() -> None:
        moments[0] += 1
        if moments[0] == count:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(function: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if getattr(arguments[0], "name", "") == consortium_journal.STATUS:
                return function(*arguments, **options)
            moment()
            outcome = function(*arguments, **options)
            moment()
            return outcome

        return wrapped

    assembly.Assembly._replies = around(assembly.Assembly._replies)  # type: ignore[method-assign]
    for module in (consortium_journal, federated_checkpoint, coordinator):
        module.write_bytes = around(module.write_bytes)  # type: ignore[attr-defined]


# --- what a bad site sends ---


def _message(data: bytes) -> Any:
    from dosimeter.engines.protocol.message import read_message

    return read_message(data)


def _body(change: Callable[[bytes], bytes]) -> Callable[[Path, bytes], bytes]:
    def spoiled(place: Path, data: bytes) -> bytes:
        reply = _message(data)
        if reply.operation != "newton":
            return data
        return bytes(type(reply)(*reply.names_same_question, change(reply.body), reply.status).pack())

    return spoiled


def _first(number: float) -> Callable[[bytes], bytes]:
    return lambda body: np.float64(number).tobytes() + body[8:]


def _named(**fields: Any) -> Callable[[Path, bytes], bytes]:
    from dataclasses import replace

    def spoiled(place: Path, data: bytes) -> bytes:
        reply = _message(data)
        if reply.operation != "newton":
            return data
        return bytes(replace(reply, **{name: change(place, reply) for name, change in fields.items()}).pack())

    return spoiled


def _ticket_of_the_first_site(place: Path, reply: Any) -> bytes:
    """The ticket of the question that the first site has in hand."""
    (first,) = place.parent.glob("site-1-*")
    ticket = first / "ticket"
    assert wait_until(lambda: ticket.exists() and _message(ticket.read_bytes()).round == reply.round)
    return bytes(_message(ticket.read_bytes()).ticket)


SPOILED: dict[str, Callable[[Path, bytes], bytes]] = {
    "nan": _body(_first(np.nan)),
    "1e300": _body(_first(1e300)),
    "wrong shape": _body(lambda body: body[:-8]),
    "100 MB": _body(lambda body: body + bytes(100 << 20)),
    "old round": _named(round=lambda place, reply: reply.round - 1),
    "another site's ticket": _named(ticket=_ticket_of_the_first_site),
}
