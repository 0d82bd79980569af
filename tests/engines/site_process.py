"""A site in a process of its own: python site_process.py FOLDER. It prints what it says."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dosimeter.core.errors import Refusal
from dosimeter.engines.protocol.operations import largest_question
from dosimeter.engines.transports import SitePlace, transport_named
from dosimeter.ledger import Ledger
from dosimeter.models.site_desk import SiteDesk
from dosimeter.models.site_table import read_site_table
from dosimeter.tables.consortium_schema import schema_of


def main(folder: Path) -> int:
    facts = json.loads((folder / "site.json").read_text())
    schema = schema_of(json.loads((folder.parent / "schema.json").read_text()))

    def say(text: str) -> None:
        print(text, flush=True)

    desk = SiteDesk(
        schema,
        facts["number"],
        lambda: read_site_table(folder / "patients.csv", schema),
        lambda: Ledger.open(folder / "ledger.db"),
        folder,
        say,
    )

    def answer(data: bytes) -> bytes:
        (folder / "in hand").touch()
        time.sleep(facts.get("slow", 0.0))
        return desk.answer(data)

    place = SitePlace(
        "127.0.0.1", facts["port"], facts["coordinator"], folder / "ca.crt", folder / "site.crt", folder / "site.key",
        folder,
    )  # fmt: skip
    try:
        transport_named(facts.get("transport", "https")).serve_site(
            place,
            answer,
            most=largest_question(schema.sizes),
            stop=lambda: desk.finished is not None,
            patience=facts.get("patience", 20.0),
            say=say,
        )
    except Refusal as stop:
        say(str(stop))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
