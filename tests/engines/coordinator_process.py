"""The coordinator of a training in a process of its own: python coordinator_process.py FOLDER."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

from dosimeter.core.errors import Refusal
from dosimeter.models.client_training import end_training, train_over_network
from tests.engines.client_process import MODULES
from tests.engines.clients import HERE, agreed


def main(folder: Path) -> int:
    facts = json.loads((folder / "coordinator.json").read_text())
    job, study = agreed(facts["clients"], **facts["changed"])
    transport = importlib.import_module(MODULES[facts["transport"]])
    place = SimpleNamespace(
        listen=HERE, port=facts["port"], authority=folder / "ca.crt", certificate=folder / "own.crt",
        key=folder / "own.key", folder=folder,
    )  # fmt: skip
    try:
        with transport.open_exchange(place, facts["roster"]) as exchange:
            history = train_over_network(
                job,
                exchange,
                study=study,
                checkpoint=folder / "state.npz",
                deadline=facts["deadline"],
                progress=lambda entry: print(f"round {entry.round}: {entry.accepted} accepted", flush=True),
            )
            end_training(job, exchange, history, study=study, released=True)
    except Refusal as stop:
        print(stop, flush=True)
        return 2
    print(f"done: {history.stop_reason}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
