"""`dosimeter serve`: a page over the ledger, on this machine alone."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from dosimeter.cli.options import START, Json, Keys, LedgerPlace, Quiet, check_outputs, json_path, opt


def serve(
    ledger: LedgerPlace = None,
    keys: Keys = None,
    port: Annotated[
        int, opt("--port", help="The port on 127.0.0.1; 0 takes a free one.", group=START, show_default=True)
    ] = 0,
    consortium: Annotated[
        Path | None,
        opt("--consortium", help="The state folder of a running consortium: its page too, or alone.", group=START),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> int:
    """Serve pages over the ledger: people by total, releases, budgets, and what stronger noise would have given.

    It only reads, and only this machine can reach it. Ctrl-C ends it.
    """
    from dosimeter.cli.output import console, write_json
    from dosimeter.core.errors import Refusal
    from dosimeter.core.text import safe_text
    from dosimeter.serve.server import Serving
    from dosimeter.workflows.booking import open_ledger

    check_outputs([json_path(json)], [])
    if consortium is not None and not consortium.is_dir():
        raise Refusal(f"--consortium {safe_text(consortium, 120)}: name the state folder of a coordinator or a site")
    alone = ledger is None and consortium is not None
    with nullcontext(None) if alone else open_ledger(ledger, keys, without_keys=True) as opened:
        serving = Serving.on(port)
        if json is not None:
            address = {
                "schema": "dosimeter.serve/1",
                "address": serving.address,
                "port": serving.port,
                "internal": True,
            }
            write_json(address, json)
        else:
            print(serving.address, flush=True)
        out = console(quiet, json="-")
        out.print("Open this address. It carries the token, so do not share it. Internal; it only reads.")
        out.print("Ctrl-C ends it.")
        serving.run(opened, consortium)
    return 0
