"""A .skops file as it is stored: schema.json describes every object, arrays are members of the archive.

skops itself would build the objects; here the schema is only traversed, so no type needs to be trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.archive import Archive
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.json_arrays import keys_are_hidden, stack_lists
from dosimeter.scanner.npy import checked_arrays, file_array

_MOST_CELLS = 2**26
"""Of all sparse matrices of a file together, in dense form."""
_LARGEST_SCHEMA = 2**26
"""Bytes: a forest of a thousand trees has 43 million."""
_LAST_NUMBER = re.compile(r"\[\d+\]$")
_REMEDY = "write it with skops.io.dump"
_CONTAINERS = ("dict", "list", "tuple", "set", "ndarray", "str", "OrderedDict", "defaultdict", "Bunch")


def read_skops(archive: Archive, source: Location) -> Contents:
    """Every array, number and text under the names of the attributes that hold them."""
    if "schema.json" not in archive.sizes:
        raise source.refusal("not a skops file (it has no schema.json)", _REMEDY)
    if archive.sizes["schema.json"] > _LARGEST_SCHEMA:
        raise source.refusal(f"a schema of {archive.sizes['schema.json']} bytes", f"give at most {_LARGEST_SCHEMA}")
    try:
        schema = json.loads(archive.read("schema.json"))
    except (ValueError, RecursionError):
        raise source.refusal("its schema.json is not JSON, or nested too deeply", _REMEDY) from None
    if not isinstance(schema, dict) or "__loader__" not in schema:
        raise source.refusal("its schema.json does not describe a model", _REMEDY)
    walk = _SchemaWalk(archive)
    parts = (*stack_lists(walk.parts(schema)), *walk.rest())
    return Contents("skops", parts, tuple(walk.unread))


class _SchemaWalk:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.unread: list[tuple[str, str]] = []
        self.read_files: set[str] = set()
        self.cells_left = _MOST_CELLS

    def parts(self, schema: dict[str, Any]) -> Iterator[FileArray]:
        """Depth first, with its own stack: (node, place, holder, owner, name, whether it wraps attributes)."""
        stack: list[tuple[Any, str, str, str, str, bool]] = [(schema, "", "", "", "", False)]
        while stack:
            node, place, holder, owner, name, wraps_attributes = stack.pop()
            if not isinstance(node, dict):
                continue
            if isinstance(node.get("file"), str):
                yield from self.member(node["file"], place, holder, owner, name)
                continue
            attributes = wraps_attributes and _is_dict(node)
            array = None if attributes else _as_one_array(node)
            record = None if attributes else _record(node)
            if record is not None:
                yield FileArray(_row_place(place), holder, owner, name, record)
            if array is not None:
                yield (
                    file_array(_row_place(place) if array.ndim else place, holder, owner, name, array)
                    if isinstance(array, np.ndarray)
                    else FileArray(place, holder, owner, name, texts=array)
                )
                continue
            kind = str(node.get("__class__", ""))
            if "__loader__" in node and kind not in _CONTAINERS:
                holder, owner = place, kind
            # An object's attributes are a dict too, but a wrapped one; in any other dict the keys may be people.
            hidden = (
                bool(place) and not wraps_attributes and _is_dict(node) and keys_are_hidden(node.get("content", {}))
            )
            below = [
                (child, _place_below(place, ".*" if hidden else key), holder, owner, _name_below(key, name), key == "")
                for key, child in _children(node)
            ]
            stack.extend(reversed(below))

    def rest(self) -> Iterator[FileArray]:
        """Members that the schema does not name: nothing that opens the model reads them."""
        for name in sorted(set(self.archive.names) - self.read_files - {"schema.json"}):
            place = f"member {safe_text(name, 60)}"
            self.unread.append((place, "a member that no attribute of the model names"))
            data = self.archive.read(name)
            try:
                yield from checked_arrays(place, "", "", "", npy_array(data))
            except UnreadableArray:
                yield FileArray(place, "", "", "", np.frombuffer(data, dtype="V1"))

    def member(self, file: str, place: str, holder: str, owner: str, name: str) -> Iterator[FileArray]:
        """An array beside the schema; one that two attributes share is reported once."""
        if file in self.read_files:
            return
        self.read_files.add(file)
        try:
            if file not in self.archive.sizes:
                raise UnreadableArray("the archive has no such member")
            data = self.archive.read(file)
            array = npy_array(data) if not file.endswith(".npz") else _sparse(data, self.cells_left)
            self.cells_left -= array.size if file.endswith(".npz") else 0
            yield from checked_arrays(place, holder, owner, name, array)
        except UnreadableArray as why:
            self.unread.append((place, str(why)))


def _children(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The nodes below, each with the piece that it adds to the place ("" for a wrapper)."""
    for key_below in ("content", "attrs"):
        content = node.get(key_below)
        if isinstance(content, dict) and "__loader__" in content:
            yield "", content
        elif isinstance(content, dict):
            yield from ((f".{key}", child) for key, child in content.items())
        elif isinstance(content, list):
            # A step of a Pipeline is a pair of its name and itself: steps[1][1] is just steps[1].
            named = node.get("__loader__") == "TupleNode" and len(content) in (2, 3) and _is_object(content[1])
            yield from (("" if named and k == 1 else f"[{k}]", child) for k, child in enumerate(content))


def _place_below(place: str, key: str) -> str:
    return (place + key).removeprefix(".")


def _name_below(key: str, name: str) -> str:
    return key[1:] if key.startswith(".") else name


def _as_one_array(node: dict[str, Any]) -> NDArray[Any] | tuple[str, ...] | None:
    """A scalar, a list of scalars, or a dict from text to scalars (a vocabulary), as numbers or texts."""
    content = node.get("content")
    if node.get("__loader__") == "JsonNode":
        return _parse_all([content])
    if isinstance(content, list) and content and all(_is_json(child) for child in content):
        return _parse_all([child["content"] for child in content])
    if isinstance(content, dict) and len(content) > 1 and all(_is_json(child) for child in content.values()):
        numbers = _parse_all([child["content"] for child in content.values()])
        return tuple(map(str, content)) if isinstance(numbers, np.ndarray) and _is_dict(node) else None
    return None


def _record(node: dict[str, Any]) -> NDArray[Any] | None:
    """The numbers of a dict, one person's under the names of columns; None for the numbering of a vocabulary."""
    content = node.get("content")
    if not _is_dict(node) or not isinstance(content, dict):
        return None
    parsed = [_parse_all([child["content"]]) for child in content.values() if _is_json(child)]
    numbers = [value for value in parsed if isinstance(value, np.ndarray)]
    record = np.array(numbers, dtype=np.float64)
    return record if len(record) >= 2 and not np.array_equal(np.sort(record), np.arange(len(record))) else None


def _row_place(place: str) -> str:
    """Lists and dicts of numbers in one list are the rows of one table."""
    return _LAST_NUMBER.sub("[*]", place)


def _is_dict(node: dict[str, Any]) -> bool:
    return node.get("__loader__") in ("DictNode", "DefaultDictNode") and "key_types" in node


def _is_object(node: Any) -> bool:
    return isinstance(node, dict) and node.get("__loader__") == "ObjectNode"


def _is_json(node: Any) -> bool:
    return isinstance(node, dict) and node.get("__loader__") == "JsonNode"


def _parse_all(texts: list[Any]) -> NDArray[Any] | tuple[str, ...] | None:
    try:
        values = [json.loads(value) for value in texts]
    except (ValueError, TypeError, RecursionError):
        return None
    if all(isinstance(value, bool | int | float) for value in values):
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            return None
        return numbers if len(values) > 1 else numbers.reshape(())
    return tuple(values) if all(isinstance(value, str) for value in values) else None


def _sparse(data: bytes, cells_left: int) -> NDArray[Any]:
    """A scipy.sparse matrix as a dense array of at most `cells_left` cells. Its index arrays are checked first."""
    from scipy.sparse import csc_array, csr_array

    from dosimeter.core.errors import Refusal

    try:
        inner = Archive(data, cells_left * 8, Location("a sparse matrix"))
        pieces = {name.removesuffix(".npy"): npy_array(inner.read(name)) for name in inner.names}
        n, d = (int(size) for size in pieces["shape"])
        sparse_format = bytes(pieces["format"].item()).decode()
        if min(n, d) < 0 or n * d > cells_left or sparse_format not in ("csr", "csc"):
            raise UnreadableArray(
                f"a sparse matrix of {n} x {d} ({sparse_format}) is too large to make dense, or of an unknown format"
            )
        array_type = csr_array if sparse_format == "csr" else csc_array
        matrix = array_type((pieces["data"], pieces["indices"], pieces["indptr"]), shape=(n, d))
        matrix.check_format(full_check=True)
        return np.asarray(matrix.toarray())
    except (Refusal, KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError) as error:
        raise UnreadableArray(f"an inconsistent sparse matrix ({type(error).__name__})") from None
