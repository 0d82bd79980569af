"""A .skops file as it lies: schema.json names every object, arrays are members beside it. Nothing is constructed.

skops itself would build the objects; here the schema is only walked, so that no type needs to be trusted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.files.archive import Archive
from dosimeter.files.npy import UnreadableArray, npy_array
from dosimeter.scan.contents import Contents, FileArray
from dosimeter.scan.json_arrays import many, stacked
from dosimeter.scan.npy import part_of

_MOST_CELLS = 2**26
"""Of all sparse matrices of a file together, spread out."""
_LARGEST_SCHEMA = 2**26
"""Bytes: a forest of a thousand trees has 43 million."""
_REMEDY = "write it with skops.io.dump"
_PLAIN = ("dict", "list", "tuple", "set", "ndarray", "str", "OrderedDict", "defaultdict", "Bunch")


def read_skops(archive: Archive, source: Location) -> Contents:
    """Every array, number and text under the names of the attributes that hold them."""
    if "schema.json" not in archive.sizes:
        raise source.refusal("not a skops file (it has no schema.json)", _REMEDY)
    if archive.sizes["schema.json"] > _LARGEST_SCHEMA:
        raise source.refusal(f"a schema of {archive.sizes['schema.json']} bytes", f"give at most {_LARGEST_SCHEMA}")
    try:
        schema = json.loads(archive.read("schema.json"))
    except (ValueError, RecursionError):
        raise source.refusal("its schema.json is no JSON, or nested too deeply", _REMEDY) from None
    if not isinstance(schema, dict) or "__loader__" not in schema:
        raise source.refusal("its schema.json does not describe a model", _REMEDY)
    walk = _Walk(archive)
    parts = tuple(stacked(walk.parts(schema)))
    return Contents("skops", parts, tuple(walk.unread))


class _Walk:
    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self.unread: list[tuple[str, str]] = []
        self.seen: set[str] = set()
        self.room = _MOST_CELLS

    def parts(self, schema: dict[str, Any]) -> Iterator[FileArray]:
        """Depth first, with a stack of its own: (node, place, holder, owner, name, whether it wraps attributes)."""
        stack: list[tuple[Any, str, str, str, str, bool]] = [(schema, "", "", "", "", False)]
        while stack:
            node, place, holder, owner, name, own = stack.pop()
            if not isinstance(node, dict):
                continue
            if isinstance(node.get("file"), str):
                yield from self.member(node["file"], place, holder, owner, name)
                continue
            whole = _whole(node)
            if whole is not None:
                yield (
                    part_of(place, holder, owner, name, whole)
                    if isinstance(whole, np.ndarray)
                    else FileArray(place, holder, owner, name, texts=whole)
                )
                continue
            kind = str(node.get("__class__", ""))
            if "__loader__" in node and kind not in _PLAIN:
                holder, owner = place, kind
            # An object's attributes are a dict too, but a wrapped one; in any other dict keys may be people.
            hidden = bool(place) and not own and _is_dict(node) and many(node.get("content", {}))
            below = [
                (one, _under(place, ".*" if hidden else key), holder, owner, _last(key, name), key == "")
                for key, one in _children(node)
            ]
            stack.extend(reversed(below))

    def member(self, file: str, place: str, holder: str, owner: str, name: str) -> Iterator[FileArray]:
        """An array beside the schema; one that two attributes share is told once."""
        if file in self.seen:
            return
        self.seen.add(file)
        try:
            if file not in self.archive.sizes:
                raise UnreadableArray("the archive has no such member")
            data = self.archive.read(file)
            array = npy_array(data) if not file.endswith(".npz") else _sparse(data, self.room)
            self.room -= array.size if file.endswith(".npz") else 0
            yield part_of(place, holder, owner, name, array)
        except UnreadableArray as why:
            self.unread.append((place, str(why)))


def _children(node: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The nodes below, each with the piece that it adds to the place ("" for a mere wrapper)."""
    for under in ("content", "attrs"):
        content = node.get(under)
        if isinstance(content, dict) and "__loader__" in content:
            yield "", content
        elif isinstance(content, dict):
            yield from ((f".{key}", one) for key, one in content.items())
        elif isinstance(content, list):
            # A step of a Pipeline is a pair of its name and itself: steps[1][1] is simply steps[1].
            named = node.get("__loader__") == "TupleNode" and len(content) in (2, 3) and _is_object(content[1])
            yield from (("" if named and k == 1 else f"[{k}]", one) for k, one in enumerate(content))


def _under(place: str, key: str) -> str:
    return (place + key).removeprefix(".")


def _last(key: str, name: str) -> str:
    return key[1:] if key.startswith(".") else name


def _whole(node: dict[str, Any]) -> NDArray[Any] | tuple[str, ...] | None:
    """A scalar, a list of scalars, or a dict from text to scalars (a vocabulary), as numbers or texts."""
    content = node.get("content")
    if node.get("__loader__") == "JsonNode":
        return _together([content])
    if isinstance(content, list) and content and all(_is_json(one) for one in content):
        return _together([one["content"] for one in content])
    if isinstance(content, dict) and len(content) > 1 and all(_is_json(one) for one in content.values()):
        numbers = _together([one["content"] for one in content.values()])
        return tuple(map(str, content)) if isinstance(numbers, np.ndarray) and _is_dict(node) else None
    return None


def _is_dict(node: dict[str, Any]) -> bool:
    return node.get("__loader__") in ("DictNode", "DefaultDictNode") and "key_types" in node


def _is_object(node: Any) -> bool:
    return isinstance(node, dict) and node.get("__loader__") == "ObjectNode"


def _is_json(node: Any) -> bool:
    return isinstance(node, dict) and node.get("__loader__") == "JsonNode"


def _together(written: list[Any]) -> NDArray[Any] | tuple[str, ...] | None:
    try:
        values = [json.loads(one) for one in written]
    except (ValueError, TypeError, RecursionError):
        return None
    if all(isinstance(one, bool | int | float) for one in values):
        try:
            made = np.array(values, dtype=np.float64)
        except OverflowError:
            return None
        return made if len(values) > 1 else made.reshape(())
    return tuple(values) if all(isinstance(one, str) for one in values) else None


def _sparse(data: bytes, room: int) -> NDArray[Any]:
    """A scipy.sparse matrix spread out into at most `room` cells. Its index arrays are held against its shape first."""
    from scipy.sparse import csc_array, csr_array

    from dosimeter.core.errors import Refusal

    try:
        inner = Archive(data, room * 8, Location("a sparse matrix"))
        pieces = {name.removesuffix(".npy"): npy_array(inner.read(name)) for name in inner.names}
        n, d = (int(size) for size in pieces["shape"])
        form = bytes(pieces["format"].item()).decode()
        if min(n, d) < 0 or n * d > room or form not in ("csr", "csc"):
            raise UnreadableArray(
                f"a sparse matrix of {n} x {d} ({form}) is too large to spread out, or of another kind"
            )
        made = csr_array if form == "csr" else csc_array
        matrix = made((pieces["data"], pieces["indices"], pieces["indptr"]), shape=(n, d))
        matrix.check_format(full_check=True)
        return np.asarray(matrix.toarray())
    except (Refusal, KeyError, ValueError, TypeError, AttributeError, OverflowError, IndexError) as error:
        raise UnreadableArray(f"a sparse matrix that does not hold together ({type(error).__name__})") from None
