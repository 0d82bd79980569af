"""A client of a training in a process of its own: python client_process.py FOLDER. It prints what it says."""

from __future__ import annotations

import importlib
import json
import sys
import time
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

from dosimeter.core.errors import Refusal
from dosimeter.engines.protocol.message import Status, read_message
from dosimeter.models.client_desk import ClientDesk, client_rows
from dosimeter.tables.bounds_file import bounds_of
from tests.engines.clients import COLUMNS, HERE, agreed

MODULES = {"https": "dosimeter.engines.https_transport", "flower": "dosimeter.engines.flower"}

DROPPED = ("100 MB", "old round", "other ticket")
"""What the transport does not take as an answer: the question stays open."""


def main(folder: Path) -> int:
    facts = json.loads((folder / "client.json").read_text())
    job, study = agreed(facts["clients"], **facts["changed"])

    def say(text: str) -> None:
        print(text, flush=True)

    spoiled: set[int] = set()
    columns = bounds_of(COLUMNS).columns
    desk = ClientDesk(
        study, facts["number"], job, lambda: client_rows(folder / "rows.csv", columns, "ill"), folder, say
    )

    def answer(data: bytes) -> bytes:
        question = read_message(data)
        with (folder / "models.log").open("a") as log:  # what this client saw of the model, for the tests
            log.write(f"{question.operation} {question.round} {sha256(question.body).hexdigest()}\n")
        time.sleep(facts.get("slow", 0.0))
        if question.round in spoiled:  # what was dropped is not sent again and again
            (folder / f"asked again {question.round}").touch()
            time.sleep(0.5)
            return b""
        reply = desk.answer(data)
        sent = spoil(reply, facts.get("sends", ""))
        if facts.get("sends") in DROPPED and sent != reply:
            spoiled.add(question.round)
        return sent

    transport = importlib.import_module(MODULES[facts["transport"]])
    place = SimpleNamespace(
        host=HERE, port=facts["port"], coordinator=facts["coordinator"], authority=folder.parent / "ca.crt",
        certificate=folder / "site.crt", key=folder / "site.key", folder=folder,
    )  # fmt: skip
    try:
        transport.serve_site(
            place,
            answer,
            most=desk.most_question,
            stop=lambda: desk.finished is not None,
            patience=facts.get("patience", 60.0),
            say=say,
        )
    except Refusal as stop:
        say(str(stop))
        return 2
    return 0


def spoil(reply: bytes, kind: str) -> bytes:
    """What a hostile client sends instead of its answer."""
    import numpy as np

    message = read_message(reply)
    if message.operation != "train" or message.status is not Status.DONE or not kind:
        return reply
    update = np.frombuffer(message.body, dtype="<f4")
    bodies = {
        "nan": lambda: np.full_like(update, np.nan).tobytes(),
        "huge": lambda: np.full_like(update, 3e38).tobytes(),
        "1e300": lambda: np.full(update.size, 1e300, dtype="<f8").tobytes(),
        "wrong shape": lambda: update[:-1].tobytes(),
        "100 MB": lambda: bytes(100 << 20),
        "opposite": lambda: (-1000 * update).astype("<f4").tobytes(),
    }
    if kind == "old round":
        if message.round == 0:
            return reply  # there is none before it
        return type(message)(
            message.study, message.round - 1, message.site, message.ticket, message.operation, message.body, Status.DONE
        ).pack()
    if kind == "other ticket":
        return type(message)(
            message.study, message.round, message.site, bytes(16), message.operation, message.body, Status.DONE
        ).pack()
    return message.answer(Status.DONE, bodies[kind]()).pack()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
