"""Checkpoints of a federated training, written after every step: one .npz of arrays and a JSON text, with a seal.

The file lists the clients sampled in an open round, so it is internal and readable by its owner only. A step is written
atomically, and only over the step before it: if two runs continue from one file, one of them is refused. A rollback to
an older copy cannot be detected from the file: rounds would be drawn a second time without any record.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.federated.history import INTEGER_COLUMNS, Round
from dosimeter.federated.state import State
from dosimeter.files.archive import Archive
from dosimeter.files.atomic import AnyPath, write_bytes
from dosimeter.files.file_checks import GIBIBYTE, read_bytes, regular_file
from dosimeter.files.npy import npy_array_of

_ARRAYS = ("history", "model", "participants", "rounds", "spent", "velocity")
_SCALARS = ("clip", "cohort", "is_open", "simulation", "version")
_SCHEMA = "dosimeter.federated-state/2"
_REMEDY = "use the file that this training wrote, or start again under another name"


def training_digest(recipe: Mapping[str, Any], arrays: Sequence[Any]) -> str:
    """A digest of a training's recipe and its clients' data. A state is resumed only by the training with its digest.

    >>> training_digest({"seed": 1}, [np.zeros(2)]) == training_digest({"seed": 1}, [np.zeros(2)])
    True
    >>> training_digest({"seed": 1}, [np.zeros(2)]) == training_digest({"seed": 2}, [np.zeros(2)])
    False
    """
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True, default=repr).encode())
    for array in arrays:
        values = np.ascontiguousarray(array)
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        digest.update(values.data)
    return digest.hexdigest()


class SavedTraining(NamedTuple):
    """The content of a checkpoint."""

    state: State
    rounds: tuple[Round, ...]
    """The record of each completed round, if the writer stored it. Internal."""


def write_state(
    path: AnyPath, state: State, digest: str, *, rounds: Sequence[Round] = (), inputs: Sequence[AnyPath] = ()
) -> None:
    """Write the state, and the records of its rounds if any, as one .npz file, atomically."""
    if Path(path).suffix.lower() != ".npz":
        raise Refusal(f"{safe_text(os.fspath(path), 120)}: the state of a training is a .npz file: use that suffix")
    fields = state.to_dict()
    facts = {"schema": _SCHEMA, "digest": digest, "serial": state.serial, **{name: fields[name] for name in _SCALARS}}
    records = np.array(rounds, dtype=np.float64).reshape(-1, len(Round._fields))
    arrays: dict[str, Any] = {name: records if name == "rounds" else fields[name] for name in _ARRAYS}
    facts["seal"] = _seal(facts, arrays)
    buffer = io.BytesIO()
    np.savez(buffer, facts=np.frombuffer(json.dumps(facts).encode("ascii"), dtype=np.uint8), **arrays)
    write_bytes(path, buffer.getvalue(), inputs=inputs)


def read_state(path: AnyPath, digest: str, *, limit: int = GIBIBYTE) -> State:
    """The state that `write_state` wrote for the same training; anything else is refused."""
    return read_checkpoint(path, digest, limit=limit).state


def read_checkpoint(path: AnyPath, digest: str, *, limit: int = GIBIBYTE) -> SavedTraining:
    """The state and the records of its rounds; refused unless `write_state` wrote them for the same training."""
    source, stored_digest, training = _read(path, limit)
    if stored_digest != digest:
        raise source.refusal("it belongs to another training (other data, recipe or seed)", _REMEDY)
    return training


def check_checkpoint(path: AnyPath, *, limit: int = GIBIBYTE) -> None:
    """Refuse a file that is not a checkpoint, of whichever training. Call it before the work begins."""
    _read(path, limit)


def _read(path: AnyPath, limit: int) -> tuple[Location, str, SavedTraining]:
    """The location of the file, the digest of its training, and its content."""
    file, source = regular_file(path, limit)
    facts, arrays = _parts(read_bytes(file, source), source, limit)
    if facts["seal"] != _seal({k: v for k, v in facts.items() if k != "seal"}, arrays):
        raise source.refusal("its seal does not match its content: it was altered or damaged", _REMEDY)
    records = arrays.pop("rounds").tolist()
    try:
        state = State.from_dict({**arrays, **{name: facts[name] for name in _SCALARS}})
        rounds = tuple(_round(row) for row in records)
    except Refusal as error:
        raise source.refusal(str(error), _REMEDY) from None
    except (ValueError, TypeError, OverflowError):  # a count that is not a number, a row of another length
        raise source.refusal("its numbers are not those of a state: it was altered", _REMEDY) from None
    if records and [row[0] for row in records] != list(range(state.round)):
        raise source.refusal("its rounds are not those of its state", _REMEDY)
    return source, str(facts["digest"]), SavedTraining(state, rounds)


def _round(row: list[float]) -> Round:
    values: dict[str, Any] = dict(zip(Round._fields, row, strict=True))
    return Round(**{**values, **{name: int(values[name]) for name in INTEGER_COLUMNS}})


@dataclass
class CheckpointWriter:
    """Writes each new state over the one before it; pass `keep` as `save_state` to `federated.simulate`."""

    path: Path
    digest: str
    serial: int = 0
    """The serial of the state in the file; 0 if there is none yet."""
    inputs: Sequence[AnyPath] = ()
    earlier: Sequence[Round] = ()
    """Records of the rounds before this run."""

    def keep(self, state: State, rounds: Sequence[Round] = ()) -> None:
        """Write the state; refused if the file is not one step behind, because another run wrote or moved it."""
        stored = stored_serial(self.path)
        if stored != self.serial or state.serial != stored + 1:
            problem = f"it is at step {stored}, this training at {state.serial}: another run wrote it, or it was moved"
            raise Location(os.fspath(self.path)).refusal(problem, "let only one run continue")
        write_state(self.path, state, self.digest, rounds=(*self.earlier, *rounds), inputs=self.inputs)
        self.serial = state.serial


def stored_serial(path: Path) -> int:
    """The serial of the state in the file, 0 without a file."""
    if not path.exists():
        return 0
    file, source = regular_file(path, GIBIBYTE)
    return int(_parts(read_bytes(file, source), source, GIBIBYTE)[0]["serial"])


@contextmanager
def checkpoint_lock(path: Path) -> Iterator[None]:
    """Hold a lock on the checkpoint: a second run is refused meanwhile. The lock ends with its process."""
    source = Location(os.fspath(path))
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise source.refusal(f"cannot be locked ({error.strerror})", "choose another folder") from None
    try:
        if not _try_lock(handle):
            raise source.refusal("another run is using it", "wait until that run ends")
        yield
    finally:
        os.close(handle)


def lock_is_held(path: Path) -> bool:
    """Whether a run holds the lock of this checkpoint now."""
    lock = path.with_name(path.name + ".lock")
    if not lock.exists():
        return False
    handle = os.open(lock, os.O_RDWR)
    try:
        return not _try_lock(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        with suppress(OSError):
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            return True
        return False
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _seal(facts: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    return training_digest(facts, [arrays[name] for name in _ARRAYS])


def _parts(data: bytes, source: Location, limit: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON object and the arrays, each checked for its type."""
    expected = sorted(f"{name}.npy" for name in ("facts", *_ARRAYS))
    archive = Archive(data, limit, source, _REMEDY)
    if sorted(archive.names) != expected:
        raise source.refusal("not a state of federated training", _REMEDY)
    arrays = {name: npy_array_of(archive.read(f"{name}.npy"), source, _REMEDY) for name in ("facts", *_ARRAYS)}
    return _facts(arrays.pop("facts"), source), _check_arrays(arrays, source)


def _facts(text: Any, source: Location) -> dict[str, Any]:
    try:
        facts = json.loads(text.tobytes().decode("ascii")) if text.dtype == np.uint8 else None
    except (ValueError, RecursionError):
        facts = None
    expected = {"schema", "digest", "serial", "seal", *_SCALARS}
    if not isinstance(facts, dict) or set(facts) != expected or facts["schema"] != _SCHEMA:
        raise source.refusal("not a state of federated training, or of another version", _REMEDY)
    if type(facts["serial"]) is not int or type(facts["clip"]) is not float:
        raise source.refusal("its step or its clip is not a number", _REMEDY)
    return facts


def _check_arrays(arrays: dict[str, Any], source: Location) -> dict[str, Any]:
    kinds = {
        "history": ("f8", 2),
        "model": ("f8", 1),
        "participants": ("i8", 1),
        "rounds": ("f8", 2),
        "spent": ("f8", 2),
        "velocity": ("f8", 1),
    }
    for name, (kind, ndim) in kinds.items():
        if arrays[name].dtype != np.dtype(kind) or arrays[name].ndim != ndim:
            raise source.refusal(f"its {name} does not have the type or shape of a state", _REMEDY)
    if arrays["rounds"].shape[1] != len(Round._fields):
        raise source.refusal("its rounds do not have the columns of rounds", _REMEDY)
    return arrays
