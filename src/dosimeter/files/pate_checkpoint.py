"""Imported votes (.npy) and interrupted PATE training (.npz).

An array of objects would be a pickle: it is refused by its header, before its bytes are read.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.files.archive import Archive
from dosimeter.files.atomic import AnyPath, write_bytes
from dosimeter.files.file_checks import GIBIBYTE, read_bytes, regular_file
from dosimeter.files.npy import npy_array_of, npy_map
from dosimeter.pate.ensemble import Progress, public_votes

_MEMBERS = ("votes", "seen", "n_classes", "digest")
_SAVE = "save whole numbers with numpy.save, one row per teacher and one column per query"


def read_votes(path: AnyPath) -> NDArray[Any]:
    """(teachers, queries) of a .npy file, left on disk: a read-only memory map. `pate.Votes` checks the values."""
    file, source = regular_file(path, sys.maxsize)
    if Path(path).suffix.lower() != ".npy":
        raise source.refusal("votes must be a .npy file", _SAVE)
    return npy_map(file, source, _SAVE)


def write_progress(path: AnyPath, state: Progress, *, inputs: tuple[AnyPath, ...] = ()) -> None:
    """Write the state of training as one .npz file, atomically, readable by its owner only: votes are private."""
    if Path(path).suffix.lower() != ".npz":
        raise Refusal(f"{os.fspath(path)}: the state of training is a .npz file: use that suffix")
    buffer = io.BytesIO()
    digest = np.frombuffer(state.digest.encode("ascii"), dtype=np.uint8)
    np.savez(buffer, votes=state.votes, seen=state.class_counts, n_classes=np.int64(state.n_classes), digest=digest)
    write_bytes(path, buffer.getvalue(), inputs=inputs)


def read_progress(path: AnyPath, *, limit: int = GIBIBYTE) -> Progress:
    """Read what `write_progress` wrote. `TeacherTraining.check` decides whether it belongs to this training."""
    file, source = regular_file(path, limit)
    remedy = "remove it and start again"
    archive = Archive(read_bytes(file, source), limit, source, remedy)
    if sorted(archive.names) != sorted(f"{name}.npy" for name in _MEMBERS):
        raise source.refusal("not a state of training", remedy)
    arrays = {name: npy_array_of(archive.read(f"{name}.npy"), source, remedy) for name in _MEMBERS}
    return _state(arrays, source, remedy)


def _state(arrays: dict[str, NDArray[Any]], source: Location, remedy: str) -> Progress:
    votes, classes_seen, digest, n_classes = (arrays[name] for name in ("votes", "seen", "digest", "n_classes"))
    shapes = votes.ndim == 2 and classes_seen.shape == votes.shape[:1] and n_classes.shape == () and digest.ndim == 1
    kinds = votes.dtype == classes_seen.dtype == np.int32 and digest.dtype == np.uint8 and n_classes.dtype.kind == "i"
    if not (shapes and kinds):
        raise source.refusal("not a state of training", remedy)
    m, open_rows = int(n_classes), (votes == -1).all(axis=1)
    cast, counts = votes[~open_rows], classes_seen
    if (counts < 0).any() or (counts > m).any() or counts[open_rows].any() or (cast < 0).any() or (cast >= m).any():
        raise source.refusal("its votes do not match its classes", remedy)
    # Teachers without rows have seen no class and vote by a public rule.
    without_rows = np.flatnonzero(~open_rows & (classes_seen == 0)).tolist()
    if any((votes[t] != public_votes(t, votes.shape[1], m)).any() for t in without_rows):
        raise source.refusal("its votes do not match its classes", remedy)
    return Progress(votes, classes_seen, m, digest.tobytes().decode("ascii", "replace"))
