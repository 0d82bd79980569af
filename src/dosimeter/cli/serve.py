"""`dosimeter serve`: a page over the ledger, on this machine alone."""

from __future__ import annotations

from typing import Annotated

import typer

from dosimeter.cli.output import console, write_json
from dosimeter.workflows.booking import Keys, LedgerAt


def serve(
    ledger: LedgerAt = None,
    keys: Keys = None,
    port: Annotated[int, typer.Option("--port", help="The port on 127.0.0.1; 0 takes a free one.")] = 0,
    json: Annotated[str | None, typer.Option("--json", help="Write the address as JSON here; - for stdout.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No words but the address.")] = False,
) -> int:
    """People by total, releases, budgets, and what stronger noise would have given. It only reads. Ctrl-C ends it."""
    from dosimeter.cli.ledger import check
    from dosimeter.serve.server import Serving
    from dosimeter.workflows.booking import open_ledger

    check(json)
    with open_ledger(ledger, keys, without_keys=True) as book:
        serving = Serving.on(port)
        if json is not None:
            facts = {"schema": "dosimeter.serve/1", "address": serving.address, "port": serving.port, "internal": True}
            write_json(facts, json)
        else:
            print(serving.address, flush=True)
        words = console(quiet, json="-")
        words.print("Open this address: it carries the token, so keep it to yourself. Internal; it only reads.")
        words.print("Ctrl-C ends it.")
        serving.run(book)
    return 0
