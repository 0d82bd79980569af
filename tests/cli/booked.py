"""Each verb that books, with a small table of its own: what to run, and who must stand in the ledger afterwards."""

from __future__ import annotations

import json
import sqlite3

from dosimeter.cli.main import run

from . import test_pate, test_pca
from .test_bad_input import PEOPLE, csv

SITES = [f"h{k // 4:02d}" for k in range(48)]
HOSPITALS = {
    "hospital_id": SITES,
    "age": [40.0 + (7 * k) % 31 for k in range(48)],
    "ill": ["yes" if (7 * k) % 31 > 15 else "no" for k in range(48)],
}
VERBS = ("fix", "pca", "pate", "federate")
WHO = {
    "fix": set(PEOPLE["id"]),
    "pca": set(test_pca.PEOPLE["id"]),
    "pate": set(test_pate.PRIVATE["id"]),
    "federate": set(SITES),
}
ACCOUNTS = {
    "fix": {"fil|person|standard deviations"},
    "pca": {"eps|person|replace-one", "fil|person|half ranges", "mu|person|presence against absence, N fixed"},
    "pate": {"leakage|person|own units"},
    "federate": {"eps|client|add-or-remove-one"},
}
ENDING = {"fix": "skops", "pca": "skops", "pate": "csv", "federate": "safetensors"}


def command(verb, folder, out):
    """The words of a command that releases something; its tables are written into the folder first."""
    table = folder / f"{verb}.csv"
    if verb == "fix":
        table.write_text(csv(PEOPLE))
        options = "--target dose --person id --max-dose 2"
    elif verb == "pca":
        table.write_text(csv(test_pca.PEOPLE))
        (folder / "bounds.toml").write_text(test_pca.BOUNDS)
        options = f"--epsilon 1 --person id --components 2 --bounds {folder / 'bounds.toml'}"
    elif verb == "pate":
        table.write_text(csv(test_pate.PRIVATE))
        public = folder / "public.csv"
        public.write_text(csv({k: v for k, v in test_pate.PUBLIC.items() if k != "ill"}))
        options = f"--target ill --person id --teachers 10 --queries 8 --public {public} --budget 4nats"
    else:
        table.write_text(csv(HOSPITALS))
        options = (
            "--target ill --client hospital_id --epsilon 8 --delta 1e-3 --rounds 2 --noise-multiplier 3 --epochs 1"
        )
        options += f" --clients 12 --classes no,yes --table {table}"
    start = [verb] if verb == "federate" else [verb, str(table)]
    return [*start, *options.split(), "--out", str(out)]


def released(verb, folder, capsys, name, *more, out=None, code=0):
    """Run it under a name; the facts, and where the artefact went."""
    out = folder / f"{name}.{ENDING[verb]}" if out is None else out
    assert run([*command(verb, folder, out), "--name", name, "--json", "-", "-q", *map(str, more)]) == code
    return json.loads(capsys.readouterr().out), out


def asked(capsys, *arguments, code=0):
    """What `dosimeter ledger ...` answers, as facts."""
    assert run(["ledger", *map(str, arguments), "--json", "-", "-q"]) == code
    return json.loads(capsys.readouterr().out)


def contents(path):
    """Every row of every table of an SQLite file: the same only if nothing was written."""
    connection = sqlite3.connect(path)
    try:
        tables = [row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")]
        return {name: connection.execute(f"select * from {name} order by 1, 2").fetchall() for name in sorted(tables)}
    finally:
        connection.close()


def everything(path):
    """The ledger and its key file, row by row."""
    return contents(path), contents(f"{path}.keys")
