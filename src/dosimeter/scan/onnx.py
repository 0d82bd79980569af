"""ONNX by its wire format: initialisers, attributes of every node, subgraphs, functions and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.scan.contents import Contents, FileArray
from dosimeter.scan.protobuf import ProtobufError, Value, floats, gathered, integer, integers, message, text

_DEEPEST = 50
_KINDS: dict[int, str] = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8", 16: "<u2",
}  # fmt: skip
_TEXTS, _BFLOAT16, _EXTERNAL = 8, 16, 1


def read_onnx(data: bytes, source: Location) -> Contents:
    """Every tensor and every list of numbers or text in the model."""
    walk = _Walk()
    try:
        model = gathered(memoryview(data))
        if not model[7]:
            raise ProtobufError("no graph")
        parts = list(walk.model(model))
    except (ProtobufError, ValueError, OverflowError) as error:
        raise source.refusal(f"not an ONNX model ({error})", "it may be damaged; convert the model again") from None
    if not parts and not walk.nodes:
        raise source.refusal("not an ONNX model (an empty graph)", "convert the model again")
    return Contents("ONNX", tuple(parts), tuple(walk.unread))


class _Walk:
    def __init__(self) -> None:
        self.unread: list[tuple[str, str]] = []
        self.nodes = 0

    def model(self, model: dict[int, list[Value]]) -> Iterator[FileArray]:
        """ModelProto: words 6, graph 7, metadata 14, training 20, functions 25."""
        yield from self.graph(message(model[7][-1]), "graph", 0)
        yield from _said(model, 6, 14, "")
        for k, value in enumerate(model[20]):
            for at, graph in sorted(gathered(message(value)).items()):
                for one in graph if at in (1, 2) else ():
                    yield from self.graph(message(one), f"training[{k}]", 0)
        for value in model[25]:
            function = gathered(message(value))
            yield from self.all_nodes(function[7], text(function[1]) or "function", 0)

    def graph(self, data: memoryview, place: str, depth: int) -> Iterator[FileArray]:
        """GraphProto: nodes 1, initialisers 5, words 10, sparse ones 15, metadata 16."""
        if depth > _DEEPEST:
            raise ProtobufError("subgraphs nested too deeply")
        found = gathered(data)
        for k, value in enumerate(found[5]):
            tensor = gathered(message(value))
            name = text(tensor[8]) or str(k)
            yield from self.tensor(tensor, name if depth == 0 else f"{place}.{name}", place, "", name)
        for k, value in enumerate(found[15]):
            yield from self.sparse(message(value), f"{place}.sparse[{k}]", place)
        yield from _said(found, 10, 16, f"{place}.")
        yield from self.all_nodes(found[1], place, depth)

    def all_nodes(self, nodes: list[Value], place: str, depth: int) -> Iterator[FileArray]:
        """NodeProto: name 3, operator 4, attributes 5, words 6, metadata 9."""
        for k, value in enumerate(nodes):
            self.nodes += 1
            node = gathered(message(value))
            kind = text(node[4])
            here = text(node[3]) or f"{kind}[{k}]"
            yield from self.attributes(node[5], here if depth == 0 else f"{place}.{here}", kind, depth)
            yield from _said(node, 6, 9, f"{here}.")

    def attributes(self, values: list[Value], node: str, kind: str, depth: int) -> Iterator[FileArray]:
        """AttributeProto: name 1, text 4, tensor 5, graph 6, floats 7, ints 8, texts 9; many 10, 11; sparse 22, 23."""
        for value in values:
            found = gathered(message(value))
            name = text(found[1])
            place = f"{node}.{name}"
            if found[7] or found[8]:
                numbers: NDArray[Any] = floats(found[7]) if found[7] else integers(found[8])
                yield FileArray(place, node, kind, name, numbers)
            if found[4] or found[9]:
                yield FileArray(place, node, kind, name, texts=_texts([*found[4], *found[9]]))
            for k, one in enumerate([*found[5], *found[10]]):
                at = place if not found[10] else f"{place}[{k}]"
                yield from self.tensor(gathered(message(one)), at, node, kind, name)
            for one in [*found[22], *found[23]]:
                yield from self.sparse(message(one), place, node)
            for one in [*found[6], *found[11]]:
                yield from self.graph(message(one), place, depth + 1)

    def sparse(self, data: memoryview, place: str, holder: str) -> Iterator[FileArray]:
        """SparseTensorProto: values 1, indices 2. The values alone; where they stand is not spread out."""
        for value in gathered(data)[1]:
            yield from self.tensor(gathered(message(value)), f"{place}.values", holder, "", "values")

    def tensor(
        self, found: dict[int, list[Value]], place: str, holder: str, owner: str, name: str
    ) -> Iterator[FileArray]:
        """TensorProto: dims 1, type 2, numbers 4, 5, 7, 10, 11, text 6, raw 9, elsewhere 13 and 14."""
        kind = integer(found[2])
        if integer(found[14]) == _EXTERNAL:
            self.unread.append((place, "its numbers lie in another file, which is not followed"))
        elif kind == _TEXTS:
            yield FileArray(place, holder, owner, name, texts=_texts(found[6]))
        elif kind not in _KINDS:
            self.unread.append((place, "numbers of a kind that is not known"))
        else:
            yield FileArray(place, holder, owner, name, _shaped(_tensor(found, kind), integers(found[1])))


def _said(found: dict[int, list[Value]], words: int, metadata: int, place: str) -> Iterator[FileArray]:
    """What somebody wrote beside the numbers: a text at `words`, pairs of a key and a text at `metadata`."""
    if found[words]:
        yield FileArray(f"{place}doc_string", place, "", "doc_string", texts=_texts(found[words]))
    for value in found[metadata]:
        entry = gathered(message(value))
        key = text(entry[1])
        yield FileArray(f"{place}metadata.{key}", f"{place}metadata", "", key, texts=(text(entry[2]),))


def _texts(values: list[Value]) -> tuple[str, ...]:
    return tuple(bytes(message(one)).decode("utf-8", "replace") for one in values)


def _tensor(found: dict[int, list[Value]], kind: int) -> NDArray[Any]:
    dtype = np.dtype(_KINDS[kind])
    if found[9]:
        raw = bytes(message(found[9][-1]))
        if len(raw) % dtype.itemsize:
            raise ProtobufError("half a number")
        flat: NDArray[Any] = np.frombuffer(raw, dtype=dtype) if raw else np.empty(0, dtype=dtype)
    elif found[4]:
        flat = floats(found[4])
    elif found[10]:
        flat = floats(found[10], "<f8")
    elif found[5] and dtype.itemsize == 2 and kind in (10, _BFLOAT16):  # half floats as bit patterns in int32
        flat = integers(found[5]).astype(np.uint16).view(dtype)
    else:
        flat = integers([*found[5], *found[7], *found[11]]).astype(dtype)
    return (flat.astype(np.uint32) << 16).view(np.float32) if kind == _BFLOAT16 else flat


def _shaped(flat: NDArray[Any], dims: NDArray[np.int64]) -> NDArray[Any]:
    shape = tuple(int(size) for size in dims)
    if any(size < 0 for size in shape) or int(np.prod(shape, dtype=object)) != flat.size:
        raise ProtobufError("a tensor whose numbers do not fill its shape")
    return flat.reshape(shape)
