"""Finished work of a long computation in a folder: what was summed so far, written whole or not at all.

A computation is a sequence of passes over the same parts, each with a function of a block. The state of a pass is one
file, named by a fingerprint of its function and arguments: how many parts are finished, and their sum. After a stop the
same computation runs again from its start; passes that are finished are read instead of computed, and the one that was
stopped goes on after its last finished part. Files hold arrays and JSON, no pickle: reading them runs nobody's code.
Every file ends with a digest of its content, so that a damaged one is refused and never read as other numbers. Files
are as private as the table: folder and files are created for their owner alone, unless others may write to the folder.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.engine import TERMS
from dosimeter.core.errors import Refusal, StorageFault
from dosimeter.core.face import option
from dosimeter.core.location import Location

TASK = "task.json"


@dataclass(frozen=True)
class PassState:
    """How far a pass is."""

    finished: int
    """Parts."""
    complete: bool
    value: Any


class Checkpoint:
    """A folder with the state of every pass of one task."""

    def __init__(self, folder: Path, task: str) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker = folder / TASK
        if not marker.exists():
            # A run that was killed while it wrote the marker leaves the beginning of it.
            if any(not path.name.startswith(f".{TASK}.") for path in folder.iterdir()):
                raise self._refusal("holds other files", "name an empty folder")
            write_whole(marker, json.dumps({"task": task}).encode())
        elif _task_of(marker) != task:
            raise self._refusal("belongs to another table or other options", "name an empty folder, or delete this one")

    def load(self, key: str) -> PassState:
        """The state of a pass; of one that has not begun, nothing finished."""
        path = self._path(key)
        if not path.exists():
            return PassState(0, False, None)
        content = read_sealed(path, self._refusal(f"is damaged ({path.name})", "delete it and start again"))
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            tree = json.loads(bytes(arrays["tree"]).decode())
            return PassState(tree["finished"], tree["complete"], decode(tree["value"], arrays))

    def save(self, key: str, state: PassState) -> None:
        """Replace the state of a pass."""
        arrays: dict[str, Any] = {}
        value = encode(state.value, arrays)
        tree = json.dumps({"finished": state.finished, "complete": state.complete, "value": value})
        arrays["tree"] = np.frombuffer(tree.encode(), dtype=np.uint8)
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        write_sealed(self._path(key), stream.getvalue())

    def _path(self, key: str) -> Path:
        return self.folder / f"pass-{key}.npz"

    def _refusal(self, fault: str, remedy: str) -> Refusal:
        return Location(f"{option('checkpoint')} {self.folder}").refusal(fault, remedy)


def _task_of(marker: Path) -> Any:
    try:
        return json.loads(marker.read_text()).get("task")
    except (ValueError, AttributeError):
        return None


def write_sealed(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """`write_whole` with a digest at the end, which `read_sealed` compares."""
    write_whole(path, content + _digest(content), lasting=lasting)


def read_sealed(path: Path, refusal: Refusal) -> bytes:
    """What `write_sealed` wrote; the refusal if the file cannot be read, or a byte of it is another one now."""
    try:
        sealed = path.read_bytes()
    except OSError:
        raise refusal from None
    content = sealed[:-_DIGEST_BYTES]
    if _digest(content) != sealed[-_DIGEST_BYTES:]:
        raise refusal
    return content


_DIGEST_BYTES = 16


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def write_whole(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a file whole or not at all, also if the process is killed. lasting: and if the computer stops."""
    with storage_faults(path.parent):
        beside = _written_beside(path, content, lasting)
        try:
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def write_first_sealed(path: Path, content: bytes) -> bool:
    """`write_sealed` unless the file is there already; whether it was written. Of several processes one succeeds."""
    with storage_faults(path.parent):
        beside = _written_beside(path, content + _digest(content), lasting=True)
        try:
            _link(beside, path)  # fails if the file exists, which os.replace does not
        except FileExistsError:
            return False
        finally:
            beside.unlink(missing_ok=True)
        return True


def _link(beside: Path, path: Path) -> None:
    try:
        os.link(beside, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without links: a kill may leave a part of the file, which is then refused as damaged
        with path.open("xb") as file:
            os.chmod(path, beside.stat().st_mode & 0o777)
            file.write(beside.read_bytes())
            file.flush()
            os.fsync(file.fileno())


def _written_beside(path: Path, content: bytes, lasting: bool) -> Path:
    """A new file with this content in the same folder. Threads of one process have different ones."""
    beside = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with os.fdopen(create_private(beside), "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return beside


@contextmanager
def storage_faults(folder: Path) -> Iterator[None]:
    """Errors of writing to a folder name it; that it is full is a refusal."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            todo = "free some space; with a checkpoint the same command then goes on"
            raise StorageFault(str(Location(str(folder)).refusal("the disk is full", todo))) from None
        error.filename = error.filename or str(folder)
        raise


def create_private(path: Path) -> int:
    """The descriptor of a new, empty file for its owner alone; in a folder that others may write to, also for them."""
    shared = path.parent.stat().st_mode & 0o022
    mode = 0o600 | (0o060 if shared & 0o020 else 0) | (0o006 if shared & 0o002 else 0)
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), mode)
    if shared and hasattr(os, "fchmod"):  # a usual umask would take the others' right to write again
        os.fchmod(number, mode)
    return number


def encode(value: Any, arrays: dict[str, Any]) -> Any:
    """A tree of JSON values; arrays go into `arrays` and are named in the tree."""
    if value is None or isinstance(value, bool | str):
        return {"is": "plain", "value": value}
    if isinstance(value, int | np.integer):
        return {"is": "plain", "value": int(value)}
    if isinstance(value, float | np.floating):  # infinities are no JSON
        return {"is": "float", "value": float(value).hex()}
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        name = f"a{len(arrays)}"
        arrays[name] = value
        return {"is": "array", "name": name}
    if isinstance(value, np.ndarray):
        return {"is": "texts", "items": [encode(item, arrays) for item in value.tolist()]}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"is": kind, "items": [encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"is": "dict", "items": [[encode(k, arrays), encode(v, arrays)] for k, v in value.items()]}
    name = type(value).__name__
    if is_dataclass(value) and TERMS.get(name) is type(value):
        return {"is": name, "fields": {f.name: encode(getattr(value, f.name), arrays) for f in fields(value)}}
    raise TypeError(f"a {name} cannot be kept in a checkpoint")


def decode(tree: Any, arrays: Any) -> Any:
    """The value of a tree; an unknown kind is a damaged file."""
    kind = tree["is"]
    if kind == "plain":
        return tree["value"]
    if kind == "float":
        return float.fromhex(tree["value"])
    if kind == "array":
        return arrays[tree["name"]]
    if kind == "texts":
        column = np.empty(len(tree["items"]), dtype=object)
        column[:] = [decode(item, arrays) for item in tree["items"]]
        return column
    if kind in ("tuple", "list"):
        items = [decode(item, arrays) for item in tree["items"]]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {decode(k, arrays): decode(v, arrays) for k, v in tree["items"]}
    return TERMS[kind](**{name: decode(field, arrays) for name, field in tree["fields"].items()})
