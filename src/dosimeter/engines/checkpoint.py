"""Finished work of a long computation in a folder: what was summed so far, written whole or not at all.

A computation is a sequence of passes over the same parts, each with a function of a block. The state of a pass is one
file, named by a fingerprint of its function and arguments: how many parts are finished, and their sum. After a stop the
same computation runs again from its start; passes that are finished are read instead of computed, and the one that was
stopped goes on after its last finished part. Files hold arrays and JSON, no pickle: reading them runs nobody's code.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.core.engine import TERMS
from dosimeter.core.errors import Refusal
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
        folder.mkdir(parents=True, exist_ok=True)
        marker = folder / TASK
        if not marker.exists():
            if any(folder.iterdir()):
                raise self._refusal("holds other files", "name an empty folder")
            write_whole(marker, json.dumps({"task": task}).encode())
        elif _task_of(marker) != task:
            raise self._refusal("belongs to another table or other options", "name an empty folder, or delete this one")

    def load(self, key: str) -> PassState:
        """The state of a pass; of one that has not begun, nothing finished."""
        path = self._path(key)
        if not path.exists():
            return PassState(0, False, None)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                tree = json.loads(bytes(arrays["tree"]).decode())
                return PassState(tree["finished"], tree["complete"], decode(tree["value"], arrays))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise self._refusal(f"is damaged ({path.name}: {error})", "delete it and start again") from None

    def save(self, key: str, state: PassState) -> None:
        """Replace the state of a pass."""
        arrays: dict[str, Any] = {}
        value = encode(state.value, arrays)
        tree = json.dumps({"finished": state.finished, "complete": state.complete, "value": value})
        arrays["tree"] = np.frombuffer(tree.encode(), dtype=np.uint8)
        stream = io.BytesIO()
        np.savez(stream, **arrays)
        write_whole(self._path(key), stream.getvalue())

    def _path(self, key: str) -> Path:
        return self.folder / f"pass-{key}.npz"

    def _refusal(self, fault: str, remedy: str) -> Refusal:
        return Location(f"{option('checkpoint')} {self.folder}").refusal(fault, remedy)


def _task_of(marker: Path) -> Any:
    try:
        return json.loads(marker.read_text()).get("task")
    except (ValueError, AttributeError):
        return None


def write_whole(path: Path, content: bytes, *, lasting: bool = True, private: bool = False) -> None:
    """Write a file whole or not at all, also if the process is killed. lasting: and if the computer stops.

    private: readable by its owner only.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0),
                               0o600 if private else 0o666), "wb") as file:  # fmt: skip
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


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
