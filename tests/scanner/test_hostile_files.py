"""Sixty files made to harm: bombs, false headers, cut or deeply nested ones, links. Each is one line at little cost."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import resource
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from dosimeter.core.errors import Refusal
from dosimeter.scanner import scan
from tests.scanner.people import X, table

BIG = 2**26 + 2**20


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def _npy(header: str, body: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def _nested(pack, depth: int) -> bytes:
    data = X[:5].tobytes()
    for _ in range(depth):
        data = pack(data)
    return data


def _tar(*entries: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(bytes(entry.size)))
    return buffer.getvalue()


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size
    return entry


def _skops(schema: object, members: dict[str, bytes] | None = None) -> bytes:
    return _zip({"schema.json": json.dumps(schema).encode(), **(members or {})})


def _r(*items: int) -> bytes:
    return b"X\n" + struct.pack(f">{3 + len(items)}i", 2, 0, 0, *items)


ARRAY = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }"
PICKLE = pickle.dumps({"rows": np.random.default_rng(0).normal(size=(20, 30)), "names": ["ann", "bob"]})
RDS = _r(19, 1)
TENSORS = save({"a": X[:9].astype(np.float32)})
NODE = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode", "type": "numpy", "file": "a.npy"}
MODEL = {"__class__": "M", "__module__": "m", "__loader__": "ObjectNode", "content": NODE}

FILES: dict[str, object] = {
    "gzip bomb.pkl": lambda: gzip.compress(bytes(BIG), mtime=0),
    "bzip2 bomb.pkl": lambda: bz2.compress(bytes(BIG)),
    "xz bomb.rds": lambda: lzma.compress(bytes(BIG), preset=0),
    "zlib bomb.joblib": lambda: zlib.compress(bytes(BIG)),
    "zip bomb.pt": lambda: _zip({"data.pkl": bytes(BIG)}),
    "zip bomb.npz": lambda: _zip({"a.npy": _npy(ARRAY % f"{BIG // 8},") + bytes(BIG)}),
    "bomb in a bomb.pkl": lambda: gzip.compress(gzip.compress(bytes(BIG), mtime=0), mtime=0),
    "tar bomb.tar.gz": lambda: gzip.compress(_tar(_entry("a", size=BIG)), mtime=0),
    "zip of zips.pt": lambda: _nested(lambda data: _zip({"a": data}), 30),
    "nested gzip.pkl": lambda: _nested(lambda data: gzip.compress(data, mtime=0), 1000),
    "nested zlib.pkl": lambda: _nested(zlib.compress, 1000),
    "nested json.json": lambda: b"[" * 100_000,
    "nested objects.json": lambda: b'{"a":' * 100_000,
    "nested skops.skops": lambda: _zip({"schema.json": b'{"content":' * 100_000}),
    "nested pickle.pkl": lambda: b"\x80\x04" + b"]" * 1000 + b"a" * 999 + b".",
    "nested tuples.pkl": lambda: b"\x80\x04)" + b"\x85" * 200_000 + b".",
    "nested r.rds": lambda: _r(*(19, 1) * 1000),
    "nested r calls.rds": lambda: _r(*[6] * 5000),
    "cut pickle.pkl": lambda: PICKLE[:-40],
    "cut gzip.pkl": lambda: gzip.compress(PICKLE)[:-40],
    "cut xz.rds": lambda: lzma.compress(RDS * 99)[:-20],
    "cut bzip2.rds": lambda: bz2.compress(X.tobytes())[:-500],
    "cut zip.skops": lambda: _skops(MODEL, {"a.npy": bytes(99)})[:-50],
    "cut tensors.safetensors": lambda: TENSORS[:-8],
    "cut array.npy": lambda: _npy(ARRAY % "9, 9"),
    "cut r.rds": lambda: _r(14, 1000),
    "cut tar.tar": lambda: _tar(_entry("a", size=5000))[:3000],
    "cut json.json": lambda: b'{"a": [1, 2',
    "cut onnx.onnx": lambda: b"\x08\x07\x3a\xff\xff\x03" + bytes(10),
    "array of an exabyte.npy": lambda: _npy(ARRAY % "2**60,"),
    "array of 2**60.npy": lambda: _npy(ARRAY % "1152921504606846976,"),
    "array of minus one.npy": lambda: _npy(ARRAY % "-1,"),
    "array of objects.npy": lambda: _npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", PICKLE),
    "array of code.npy": lambda: _npy("__import__('os').abort()"),
    "tensor of an exabyte.safetensors": lambda: _tensors({"a": ("F64", [2**40, 2**20], [0, 8])}),
    "tensor beyond the end.safetensors": lambda: _tensors({"a": ("F64", [10], [0, 80])}),
    "tensors over each other.safetensors": lambda: _tensors({f"t{k}": ("U8", [8], [0, 8]) for k in range(5000)}),
    "header of an exabyte.safetensors": lambda: struct.pack("<Q", 2**62) + b"{}",
    "pickle array of an exabyte.pkl": lambda: pickle.dumps(np.zeros(3), protocol=2).replace(
        b"K\x03\x85", b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f\x85"
    ),
    "text of an exabyte.pkl": lambda: b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b"x.",
    "bytes of an exabyte.pkl": lambda: b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"x.",
    "number of many digits.pkl": lambda: b"L" + b"9" * 1_000_000 + b"L\n.",
    "long of a megabyte.pkl": lambda: b"\x80\x02\x8b" + struct.pack("<i", 10**6) + b"\x7f" * 10**6 + b".",
    "a million marks.pkl": lambda: b"\x80\x04" + b"(" * 1_000_000 + b".",
    "a million dicts.pkl": lambda: b"\x80\x04" + b"}" * 999_000 + b".",
    "no mark.pkl": lambda: b"\x80\x04t.",
    "unknown memo.pkl": lambda: b"\x80\x04h\x07.",
    "unknown instruction.pkl": lambda: b"\x80\x04\xff.",
    "shared lists.pkl": lambda: pickle.dumps(_shared(40)),
    "vector of 2**31.rds": lambda: _r(14, 2**31 - 1),
    "list of 2**31.rds": lambda: _r(19, 2**31 - 1),
    "text of minus five.rds": lambda: _r(16, 1, 9, -5),
    "reference to nothing.rds": lambda: _r(255 | 900 << 8),
    "two members of one name.skops": lambda: _twice("schema.json"),
    "member that is missing.skops": lambda: _skops(MODEL),
    "member outside.skops": lambda: _skops({**MODEL, "content": {**NODE, "file": "../../etc/passwd"}}),
    "link out.tar": lambda: _tar(_entry("model.npy", tarfile.SYMTYPE, "/etc/passwd")),
    "hard link out.tar": lambda: _tar(_entry("model.npy", tarfile.LNKTYPE, "/etc/passwd")),
    "device.tar": lambda: _tar(_entry("model.npy", tarfile.CHRTYPE)),
    "member above.tar": lambda: _tar(_entry("../../model.npy", size=9)),
    "twenty thousand strings.json": lambda: json.dumps(["[1, 2, 3]"] * 20_000).encode(),
    "chunks.h5": lambda: b"\x89HDF\r\n\x1a\n" + b"\x78\x9c" * 500_000,
}


def _tensors(tensors: dict[str, tuple[str, list[int], list[int]]]) -> bytes:
    header = {name: {"dtype": kind, "shape": shape, "data_offsets": at} for name, (kind, shape, at) in tensors.items()}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(8)


def _shared(depth: int) -> list:
    inner: list = []
    for _ in range(depth):
        inner = [inner, inner]
    return inner


def _twice(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, "{}")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(name, "{}")
    return buffer.getvalue()


HARMLESS = {
    "zip bomb.npz",
    "number of many digits.pkl",
    "long of a megabyte.pkl",
    "shared lists.pkl",
    "twenty thousand strings.json",
}
"""Read to the end although they try to cost much. Of all others something is refused or listed as not looked into."""


def test_there_are_sixty_of_them() -> None:
    assert len(FILES) >= 60


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_one_line_and_little_cost(name: str, tmp_path: Path) -> None:
    data = FILES[name]()  # type: ignore[operator]
    path = tmp_path / name
    path.write_bytes(data)
    before = resource.getrusage(resource.RUSAGE_SELF)
    people = table()
    for compared in (None, people):
        try:
            result = scan(path, compared)
        except Refusal as why:
            lines = [str(why)]
        else:
            lines = [f"{place}: {reason}" for place, reason in result.unread]
            assert not result.rows_inside
            assert lines or name in HARMLESS
        assert all(line.isprintable() and len(line) < 400 for line in lines)
    after = resource.getrusage(resource.RUSAGE_SELF)
    # Kilobytes on Linux; the peak of the process, so a test before this one may have set it.
    assert os.name == "nt" or after.ru_maxrss - before.ru_maxrss < 500_000
