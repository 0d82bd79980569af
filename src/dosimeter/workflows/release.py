"""`dm.release`: book a noised artefact that was made without a ledger, or refuse it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dosimeter.core.accounts import MOST_BYTES
from dosimeter.core.errors import Refusal
from dosimeter.core.text import safe_text
from dosimeter.files.dose_file import read_doses
from dosimeter.files.file_checks import os_error_refusal, regular_file
from dosimeter.results.ledger import BookedRelease
from dosimeter.workflows.booking import BookingOptions, BookingOutcome, ReleaseSession, open_session
from dosimeter.workflows.released import Released


def release(
    model: str | Path,
    *,
    dose_file: str | Path,
    ledger: str | Path,
    keys: str | Path | None = None,
    name: str,
    to: str | None = None,
    note: str | None = None,
    override: str | None = None,
    out: str | Path | None = None,
) -> BookedRelease:
    """Book a release for everyone in it, from the file and its dose file.

    Parameters
    ----------
    model
        The file that is to be sent, as a verb wrote it.
    dose_file
        Its dose file, written by `write_doses` of what fix, components, label or federate return.
    ledger, keys
        The ledger, a path or the URL of a database, and its key file.
    name, to, note, override
        What the entry says: its name, the receiver, a note, and why it may exceed a budget.
    out
        Write the booked bytes here, to be sent.

    Returns
    -------
    BookedRelease
        The entry; or, in `refused`, the limits that someone would exceed. Nothing was booked or written then.

    Raises
    ------
    Refusal
        The dose file belongs to another file, or the name is booked with other bytes.

    Examples
    --------
    >>> import numpy as np, dosimeter as dm
    >>> rng = np.random.default_rng(0)
    >>> table = {"id": [f"p{k}" for k in range(60)], "x": rng.normal(size=60), "y": rng.normal(size=60)}
    >>> from tempfile import TemporaryDirectory
    >>> released = dm.fix(table, "y", person="id", max_dose=1.0, even_if_useless=True)
    >>> with TemporaryDirectory() as folder:
    ...     dm.Ledger.create(f"{folder}/ledger.db", ["fil=2"]).close()
    ...     released.write(f"{folder}/model.skops")
    ...     released.write_doses(f"{folder}/doses.json")
    ...     entry = dm.release(
    ...         f"{folder}/model.skops", dose_file=f"{folder}/doses.json", ledger=f"{folder}/ledger.db", name="june"
    ...     )
    >>> entry.verb, entry.refused
    ('fix', [])
    """
    options = BookingOptions(
        str(ledger), None if keys is None else Path(keys), name=name, to=to, note=note, override=override
    )
    session = open_session(options)
    try:
        return book_file(session, Path(model), Path(dose_file), None if out is None else Path(out))[0]
    finally:
        session.close()


def book_file(
    session: ReleaseSession, model: Path, dose_file: Path, out: Path | None
) -> tuple[BookedRelease, BookingOutcome]:
    """Book the file, then write the booked bytes to `out`; or neither."""
    from dosimeter.files.atomic import write_bytes

    released = _read(model, dose_file)
    outcome = session.book(released, again=released.verb)
    if not outcome.refused and outcome.artefact != released.artefact:
        raise Refusal(
            f"{session.name} is booked already with other bytes (the same recipe and doses, another draw): give this "
            "one a name of its own, or take the stored bytes with `dosimeter ledger artefact`"
        )
    written = out is not None and not outcome.refused
    if out is not None and written:
        with outcome.spent(out):
            write_bytes(out, outcome.artefact, inputs=[model, dose_file, *session.files])
    result = BookedRelease.of(released.verb, released.recipe, outcome.fields, str(out) if written else "")
    return result, outcome


def _read(model: Path, dose_file: Path) -> Released[BookedRelease]:
    """The bytes that are to be sent and everyone's doses; a digest ties the dose file to its file."""
    doses = read_doses(dose_file)
    file, source = regular_file(model, MOST_BYTES)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    if hashlib.sha256(data).hexdigest() != doses.artefact:
        raise Refusal(
            f"{safe_text(dose_file.name)} is the dose of another file: {safe_text(model.name)} has other bytes than "
            "those it was written for"
        )
    pending = BookedRelease.of(doses.verb, doses.recipe, {"booked": False})
    return Released(doses.verb, pending, data, doses.recipe, doses.doses, bytes.fromhex(doses.noise_fingerprint))
