"""Votes from elsewhere, and training that was stopped, as numpy's own files. An array of objects would be a pickle: it
is refused by its header, before its bytes are read."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.files.archive import Archive
from dosimeter.files.atomic import AnyPath, write_bytes
from dosimeter.files.file_checks import GIBIBYTE, cannot, regular_file
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.pate.ensemble import Progress, public_votes

_MEMBERS = ("votes", "seen", "n_classes", "digest")
_SAVE = "save whole numbers with numpy.save, one row a teacher and one column a query"


def read_votes(path: AnyPath, *, limit: int = GIBIBYTE) -> NDArray[Any]:
    """(teachers, queries) as they stand in a .npy file; `pate.Votes` checks what they say."""
    file, source = regular_file(path, limit)
    if Path(path).suffix.lower() != ".npy":
        raise source.refusal("votes are a .npy file", _SAVE)
    return array_of(bytes_of(file, source), source, _SAVE)


def write_progress(path: AnyPath, state: Progress, *, inputs: tuple[AnyPath, ...] = ()) -> None:
    """The state of training as one .npz file, whole or not at all, readable by its owner only: votes are private."""
    if Path(path).suffix.lower() != ".npz":
        raise Refusal(f"{os.fspath(path)}: the state of training is a .npz file: name it so")
    made = io.BytesIO()
    digest = np.frombuffer(state.digest.encode("ascii"), dtype=np.uint8)
    np.savez(made, votes=state.votes, seen=state.seen, n_classes=np.int64(state.n_classes), digest=digest)
    write_bytes(path, made.getvalue(), inputs=inputs)


def read_progress(path: AnyPath, *, limit: int = GIBIBYTE) -> Progress:
    """What `write_progress` wrote. Whether it belongs to the work at hand is for `Training.checked` to say."""
    file, source = regular_file(path, limit)
    todo = "remove it and start anew"
    archive = Archive(bytes_of(file, source), limit, source, todo)
    if sorted(archive.names) != sorted(f"{name}.npy" for name in _MEMBERS):
        raise source.refusal("not a state of training", todo)
    read = {name: array_of(archive.read(f"{name}.npy"), source, todo) for name in _MEMBERS}
    return _state(read, source, todo)


def _state(read: dict[str, NDArray[Any]], source: Location, todo: str) -> Progress:
    votes, seen, digest = read["votes"], read["seen"], read["digest"]
    shapes = votes.ndim == 2 and seen.shape == votes.shape[:1] and read["n_classes"].shape == () and digest.ndim == 1
    kinds = votes.dtype == seen.dtype == np.int32 and digest.dtype == np.uint8 and read["n_classes"].dtype.kind == "i"
    if not (shapes and kinds):
        raise source.refusal("not a state of training", todo)
    m, open_rows = int(read["n_classes"]), (votes == -1).all(axis=1)
    cast = votes[~open_rows]
    if (seen < 0).any() or (seen > m).any() or seen[open_rows].any() or (cast < 0).any() or (cast >= m).any():
        raise source.refusal("the votes in it are not those of its classes", todo)
    # Without rows, and so without a class: such teachers vote by a public rule.
    alone = np.flatnonzero(~open_rows & (seen == 0)).tolist()
    if any((votes[t] != public_votes(t, votes.shape[1], m)).any() for t in alone):
        raise source.refusal("the votes in it are not those of its classes", todo)
    return Progress(votes, seen, m, digest.tobytes().decode("ascii", "replace"))


def array_of(data: bytes, source: Location, todo: str) -> NDArray[Any]:
    """A .npy file's array: no objects, and as many bytes as its header says."""
    try:
        return npy_array(data)
    except UnreadableArray as why:
        raise source.refusal(str(why), todo) from None


def bytes_of(file: Path, source: Location) -> bytes:
    """The whole file."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise cannot(error, source, "read") from None
