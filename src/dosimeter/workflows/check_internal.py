"""Files that dosimeter writes for those who keep the data: recognised by what is in them, whatever they are called."""

from __future__ import annotations

import re
from pathlib import Path

from dosimeter.federated.history import Round
from dosimeter.results.ledger import KEEPERS
from dosimeter.results.result import Result

MOST_TEXT = 64 * 2**20
ENDS = 2**16
"""Bytes at both ends of a larger file: a header is at one, the names of a Parquet file's columns at the other."""
DOSES = "doses by person are internal"
LEDGER = "a ledger and its keys are internal: they hold every person's total"
PAGE = "an internal edition: its figures were computed without protection; send the external one"
STATE = "the state of an unfinished run is internal: it stays where it was written"
ROUNDS = "the rounds of a training are internal: what they count was not noised"

KINDS = {DOSES: "a dose file", LEDGER: "a ledger", PAGE: "an internal edition", STATE: "a checkpoint",
         ROUNDS: "a training's history"}  # fmt: skip
"""What a file is that must not leave for this reason."""
_SCHEMAS: tuple[tuple[bytes, str], ...] = (
    (b'"dosimeter.dose/', DOSES),
    (b'"dosimeter.ledger/', LEDGER),
    (b'"dosimeter.federated-state/', STATE),
    (b'"dosimeter.consortium-journal/', STATE),
)
"""The schema of a file in JSON or of arrays -> why it must not leave."""
_NOTES = re.compile("|".join(re.escape(note).replace(r"\ ", r"\s+") for note in (Result.internal_note, KEEPERS)))
"""What every internal edition says about itself; a terminal may have broken the line."""
_ETA = re.compile(rb"\beta_in_(standard_deviations|own_units)\b")
_ROUND = ",".join(name for name in Round._fields if name not in ("accuracy", "loss"))
_ENTRY = "entry,time,release,to,note,override,account,pseudonym,nano"
_VOTES = (b"votes.npy", b"seen.npy", b"digest.npy")
QUOTING = (".csv", ".tsv", ".txt", ".html", ".htm", ".md", ".ipynb", ".log", ".rst", ".tex", ".xml")
"""Files that hold what a program printed. Source code may quote the words of an internal edition."""


def internal_content(data: bytes, suffix: str) -> str:
    """Why this content must not leave: it is a file of dosimeter for those who keep the data; "" if it is none.

    >>> internal_content(b"person,eta_in_standard_deviations\\nann,0.5\\n", ".csv")
    'doses by person are internal'
    >>> internal_content(b"person,age\\nann,44\\n", ".csv")
    ''
    """
    start = data[:ENDS].removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith((b"{", b"PK")):
        for schema, reason in _SCHEMAS:
            if schema in data:
                return reason
    header = re.sub(r'["\s]', "", data[:ENDS].decode("utf-8", "replace").lstrip("\ufeff").partition("\n")[0])
    header = header.replace(";", ",").lower()
    if _ETA.search(header.encode()) or header in ("person,nats", "row,nats") or _is_parquet_of_doses(data):
        return DOSES
    if header == _ENTRY:
        return LEDGER
    if _ROUND in header.replace("accuracy,loss,", ""):
        return ROUNDS
    if data.startswith(b"PK") and all(name in data for name in _VOTES):
        return STATE
    # A result in JSON is judged field by field, whatever it says about itself.
    is_json = start.startswith(b"{") and suffix != ".ipynb"
    if suffix in QUOTING and not is_json and _NOTES.search(data.decode("utf-8", "replace")):
        return PAGE
    return ""


def _is_parquet_of_doses(data: bytes) -> bool:
    return data.startswith(b"PAR1") and _ETA.search(data[-ENDS:]) is not None


def internal_file(file: Path) -> str:
    """Why a file must not leave, as of `internal_content`; of a very large one both ends are read."""
    with file.open("rb") as handle:
        size = file.stat().st_size
        data = handle.read(ENDS if size > MOST_TEXT else -1)
        if size > MOST_TEXT:
            handle.seek(-ENDS, 2)
            data += handle.read()
    return internal_content(data, file.suffix.lower())
