"""A federated training kept on disk after every step: one .npz of plain arrays and a JSON text, sealed. No pickle.

The file holds who was asked in an open round, so it is internal and readable by its owner only. A step is written whole
or not at all, and only over the step before it: of two runs that go on from one file, one is refused. An older copy put
in its place cannot be told from the file itself: its rounds would be drawn and paid for a second time, in secret.
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
from dosimeter.federated.history import WHOLE, Round
from dosimeter.federated.state import State
from dosimeter.files.archive import Archive
from dosimeter.files.atomic import AnyPath, write_bytes
from dosimeter.files.file_checks import GIBIBYTE, regular_file
from dosimeter.files.pate_checkpoint import array_of, bytes_of

_ARRAYS = ("history", "model", "participants", "rounds", "spent", "velocity")
_SCALARS = ("clip", "cohort", "is_open", "simulation", "version")
_SCHEMA = "dosimeter.federated-state/2"
_REMEDY = "give the file that this training wrote, or start anew under another name"


def digest_of(recipe: Mapping[str, Any], arrays: Sequence[Any]) -> str:
    """What names a training: its recipe and the data of its clients. A state is taken back only under the same name.

    >>> digest_of({"seed": 1}, [np.zeros(2)]) == digest_of({"seed": 1}, [np.zeros(2)])
    True
    >>> digest_of({"seed": 1}, [np.zeros(2)]) == digest_of({"seed": 2}, [np.zeros(2)])
    False
    """
    made = hashlib.sha256(json.dumps(recipe, sort_keys=True, default=repr).encode())
    for array in arrays:
        values = np.ascontiguousarray(array)
        made.update(f"{values.dtype.str}{values.shape}".encode())
        made.update(values.data)
    return made.hexdigest()


class SavedTraining(NamedTuple):
    """What stands in a file."""

    state: State
    rounds: tuple[Round, ...]
    """What happened in each round that is over, as far as whoever wrote the file had told it. Internal."""


def write_state(
    path: AnyPath, state: State, digest: str, *, rounds: Sequence[Round] = (), inputs: Sequence[AnyPath] = ()
) -> None:
    """The state, and its rounds if they are told, as one .npz file, whole or not at all."""
    if Path(path).suffix.lower() != ".npz":
        raise Refusal(f"{safe_text(os.fspath(path), 120)}: the state of a training is a .npz file: name it so")
    plain = state.plain()
    facts = {"schema": _SCHEMA, "digest": digest, "serial": state.serial, **{name: plain[name] for name in _SCALARS}}
    told = np.array(rounds, dtype=np.float64).reshape(-1, len(Round._fields))
    arrays: dict[str, Any] = {name: told if name == "rounds" else plain[name] for name in _ARRAYS}
    facts["seal"] = _seal(facts, arrays)
    made = io.BytesIO()
    np.savez(made, facts=np.frombuffer(json.dumps(facts).encode("ascii"), dtype=np.uint8), **arrays)
    write_bytes(path, made.getvalue(), inputs=inputs)


def read_state(path: AnyPath, digest: str, *, limit: int = GIBIBYTE) -> State:
    """The state in a file that `write_state` wrote for the same training; anything else is refused."""
    return read_kept(path, digest, limit=limit).state


def read_kept(path: AnyPath, digest: str, *, limit: int = GIBIBYTE) -> SavedTraining:
    """The state and its rounds."""
    source, named, kept = _read(path, limit)
    if named != digest:
        raise source.refusal("it belongs to another training (other data, recipe or seed)", _REMEDY)
    return kept


def check_whole(path: AnyPath, *, limit: int = GIBIBYTE) -> None:
    """Refuse a file that holds no state, whatever training it is of. Ask before the work begins."""
    _read(path, limit)


def _read(path: AnyPath, limit: int) -> tuple[Location, str, SavedTraining]:
    """The file, the digest of the training that it names, and what it holds."""
    file, source = regular_file(path, limit)
    facts, arrays = _parts(bytes_of(file, source), source, limit)
    if facts["seal"] != _seal({k: v for k, v in facts.items() if k != "seal"}, arrays):
        raise source.refusal("its seal does not fit what it holds: it was altered or damaged", _REMEDY)
    told = arrays.pop("rounds").tolist()
    try:
        state = State.from_plain({**arrays, **{name: facts[name] for name in _SCALARS}})
        rounds = tuple(_round(row) for row in told)
    except Refusal as error:
        raise source.refusal(str(error), _REMEDY) from None
    except (ValueError, TypeError, OverflowError):  # a count that is no number, a row of another length
        raise source.refusal("its numbers are not those of a state: it was altered", _REMEDY) from None
    if told and [row[0] for row in told] != list(range(state.round)):
        raise source.refusal("its rounds are not those of its state", _REMEDY)
    return source, str(facts["digest"]), SavedTraining(state, rounds)


def _round(row: list[float]) -> Round:
    values: dict[str, Any] = dict(zip(Round._fields, row, strict=True))
    return Round(**{**values, **{name: int(values[name]) for name in WHOLE}})


@dataclass
class CheckpointWriter:
    """Writes each new state over the one before it; pass `keep` to `federated.simulate`."""

    path: Path
    digest: str
    serial: int = 0
    """Of the state that stands in the file; 0 where there is none yet."""
    inputs: Sequence[AnyPath] = ()
    earlier: Sequence[Round] = ()
    """Rounds before this run, from the file it goes on from."""

    def keep(self, state: State, rounds: Sequence[Round] = ()) -> None:
        """Refused where the file is not the step before: somebody else goes on from it, or took it away."""
        found = serial_in(self.path)
        if found != self.serial or state.serial != found + 1:
            what = f"it stands at step {found}, this training at {state.serial}: another run writes it, or it was moved"
            raise Location(os.fspath(self.path)).refusal(what, "let one run alone go on")
        write_state(self.path, state, self.digest, rounds=(*self.earlier, *rounds), inputs=self.inputs)
        self.serial = state.serial


def serial_in(path: Path) -> int:
    """The step that stands in the file, 0 without one."""
    if not path.exists():
        return 0
    file, source = regular_file(path, GIBIBYTE)
    return int(_parts(bytes_of(file, source), source, GIBIBYTE)[0]["serial"])


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Nobody else goes on from this file meanwhile; a second run is refused. The lock dies with its process."""
    source = Location(os.fspath(path))
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise source.refusal(f"cannot be locked ({error.strerror})", "choose another folder") from None
    try:
        if not _locked(handle):
            raise source.refusal("another run goes on from it", "let that one end first")
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
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
    return digest_of(facts, [arrays[name] for name in _ARRAYS])


def _parts(data: bytes, source: Location, limit: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON text and the arrays, each of the kind it should be."""
    wanted = sorted(f"{name}.npy" for name in ("facts", *_ARRAYS))
    archive = Archive(data, limit, source, _REMEDY)
    if sorted(archive.names) != wanted:
        raise source.refusal("not a state of federated training", _REMEDY)
    read = {name: array_of(archive.read(f"{name}.npy"), source, _REMEDY) for name in ("facts", *_ARRAYS)}
    return _facts(read.pop("facts"), source), _checked(read, source)


def _facts(text: Any, source: Location) -> dict[str, Any]:
    try:
        found = json.loads(text.tobytes().decode("ascii")) if text.dtype == np.uint8 else None
    except (ValueError, RecursionError):
        found = None
    wanted = {"schema", "digest", "serial", "seal", *_SCALARS}
    if not isinstance(found, dict) or set(found) != wanted or found["schema"] != _SCHEMA:
        raise source.refusal("not a state of federated training, or of another version", _REMEDY)
    if type(found["serial"]) is not int or type(found["clip"]) is not float:
        raise source.refusal("its step or its clip is no number", _REMEDY)
    return found


def _checked(arrays: dict[str, Any], source: Location) -> dict[str, Any]:
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
            raise source.refusal(f"its {name} is not of the form that a state has", _REMEDY)
    if arrays["rounds"].shape[1] != len(Round._fields):
        raise source.refusal("its rounds are not of the form that rounds have", _REMEDY)
    return arrays
