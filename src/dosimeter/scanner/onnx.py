"""ONNX by its wire format: initialisers, attributes of every node, subgraphs, functions and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.location import Location
from dosimeter.scanner.contents import Contents, FileArray
from dosimeter.scanner.protobuf import ProtobufError, Value, fields_by_number, floats, integer, integers, message, text

_DEEPEST = 50
_KINDS: dict[int, str] = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8", 16: "<u2",
}  # fmt: skip
_TEXTS, _BFLOAT16, _EXTERNAL = 8, 16, 1


def read_onnx(data: bytes, source: Location) -> Contents:
    """Every tensor and every list of numbers or text in the model."""
    walk = _ModelWalk()
    try:
        model = fields_by_number(memoryview(data))
        if not model[7]:
            raise ProtobufError("no graph")
        parts = list(walk.model(model))
    except (ProtobufError, ValueError, OverflowError) as error:
        raise source.refusal(f"not an ONNX model ({error})", "it may be damaged; convert the model again") from None
    if not parts and not walk.nodes:
        raise source.refusal("not an ONNX model (an empty graph)", "convert the model again")
    return Contents("ONNX", tuple(parts), tuple(walk.unread))


class _ModelWalk:
    def __init__(self) -> None:
        self.unread: list[tuple[str, str]] = []
        self.nodes = 0

    def model(self, model: dict[int, list[Value]]) -> Iterator[FileArray]:
        """ModelProto: doc string 6, graph 7, metadata 14, training 20, functions 25."""
        yield from self.graph(message(model[7][-1]), "graph", 0)
        yield from _annotations(model, 6, 14, "")
        for k, value in enumerate(model[20]):
            for field, graph in sorted(fields_by_number(message(value)).items()):
                for data in graph if field in (1, 2) else ():
                    yield from self.graph(message(data), f"training[{k}]", 0)
        for value in model[25]:
            function = fields_by_number(message(value))
            yield from self.nodes_of(function[7], text(function[1]) or "function", 0)

    def graph(self, data: memoryview, place: str, depth: int) -> Iterator[FileArray]:
        """GraphProto: nodes 1, initialisers 5, doc string 10, sparse ones 15, metadata 16."""
        if depth > _DEEPEST:
            raise ProtobufError("subgraphs nested too deeply")
        graph = fields_by_number(data)
        for k, value in enumerate(graph[5]):
            tensor = fields_by_number(message(value))
            name = text(tensor[8]) or str(k)
            yield from self.tensor(tensor, name if depth == 0 else f"{place}.{name}", place, "", name)
        for k, value in enumerate(graph[15]):
            yield from self.sparse(message(value), f"{place}.sparse[{k}]", place)
        yield from _annotations(graph, 10, 16, f"{place}.")
        yield from self.nodes_of(graph[1], place, depth)

    def nodes_of(self, nodes: list[Value], place: str, depth: int) -> Iterator[FileArray]:
        """NodeProto: name 3, operator 4, attributes 5, doc string 6, metadata 9."""
        for k, value in enumerate(nodes):
            self.nodes += 1
            node = fields_by_number(message(value))
            kind = text(node[4])
            here = text(node[3]) or f"{kind}[{k}]"
            yield from self.attributes(node[5], here if depth == 0 else f"{place}.{here}", kind, depth)
            yield from _annotations(node, 6, 9, f"{here}.")

    def attributes(self, values: list[Value], node: str, kind: str, depth: int) -> Iterator[FileArray]:
        """AttributeProto: name 1, text 4, tensor 5, graph 6, floats 7, ints 8, texts 9; many 10, 11; sparse 22, 23."""
        for value in values:
            attribute = fields_by_number(message(value))
            name = text(attribute[1])
            place = f"{node}.{name}"
            if attribute[7] or attribute[8]:
                numbers: NDArray[Any] = floats(attribute[7]) if attribute[7] else integers(attribute[8])
                yield FileArray(place, node, kind, name, numbers)
            if attribute[4] or attribute[9]:
                yield FileArray(place, node, kind, name, texts=_texts([*attribute[4], *attribute[9]]))
            for k, item in enumerate([*attribute[5], *attribute[10]]):
                item_place = place if not attribute[10] else f"{place}[{k}]"
                yield from self.tensor(fields_by_number(message(item)), item_place, node, kind, name)
            for item in [*attribute[22], *attribute[23]]:
                yield from self.sparse(message(item), place, node)
            for item in [*attribute[6], *attribute[11]]:
                yield from self.graph(message(item), place, depth + 1)

    def sparse(self, data: memoryview, place: str, holder: str) -> Iterator[FileArray]:
        """SparseTensorProto: values 1, indices 2. Only the values are read, without their positions."""
        for value in fields_by_number(data)[1]:
            yield from self.tensor(fields_by_number(message(value)), f"{place}.values", holder, "", "values")

    def tensor(
        self, tensor: dict[int, list[Value]], place: str, holder: str, owner: str, name: str
    ) -> Iterator[FileArray]:
        """TensorProto: dims 1, type 2, numbers 4, 5, 7, 10, 11, text 6, raw 9, external 13 and 14."""
        kind = integer(tensor[2])
        if integer(tensor[14]) == _EXTERNAL:
            self.unread.append((place, "its numbers are in another file, which is not followed"))
        elif kind == _TEXTS:
            yield FileArray(place, holder, owner, name, texts=_texts(tensor[6]))
        elif kind not in _KINDS:
            self.unread.append((place, "numbers of an unknown type"))
        else:
            yield FileArray(place, holder, owner, name, _shaped(_tensor(tensor, kind), integers(tensor[1])))


def _annotations(fields: dict[int, list[Value]], doc_string: int, metadata: int, place: str) -> Iterator[FileArray]:
    """Text beside the numbers: a doc string in field `doc_string`, pairs of key and text in field `metadata`."""
    if fields[doc_string]:
        yield FileArray(f"{place}doc_string", place, "", "doc_string", texts=_texts(fields[doc_string]))
    for value in fields[metadata]:
        entry = fields_by_number(message(value))
        key = text(entry[1])
        yield FileArray(f"{place}metadata.{key}", f"{place}metadata", "", key, texts=(text(entry[2]),))


def _texts(values: list[Value]) -> tuple[str, ...]:
    return tuple(bytes(message(value)).decode("utf-8", "replace") for value in values)


def _tensor(tensor: dict[int, list[Value]], kind: int) -> NDArray[Any]:
    dtype = np.dtype(_KINDS[kind])
    if tensor[9]:
        raw = bytes(message(tensor[9][-1]))
        if len(raw) % dtype.itemsize:
            raise ProtobufError("a number is cut off")
        flat: NDArray[Any] = np.frombuffer(raw, dtype=dtype) if raw else np.empty(0, dtype=dtype)
    elif tensor[4]:
        flat = floats(tensor[4])
    elif tensor[10]:
        flat = floats(tensor[10], "<f8")
    elif tensor[5] and dtype.itemsize == 2 and kind in (10, _BFLOAT16):  # half floats as bit patterns in int32
        flat = integers(tensor[5]).astype(np.uint16).view(dtype)
    else:
        flat = integers([*tensor[5], *tensor[7], *tensor[11]]).astype(dtype)
    return (flat.astype(np.uint32) << 16).view(np.float32) if kind == _BFLOAT16 else flat


def _shaped(flat: NDArray[Any], dims: NDArray[np.int64]) -> NDArray[Any]:
    shape = tuple(int(size) for size in dims)
    if any(size < 0 for size in shape) or int(np.prod(shape, dtype=object)) != flat.size:
        raise ProtobufError("the numbers of a tensor do not fill its shape")
    return flat.reshape(shape)
