"""Files damaged on purpose: bits, lengths and splices of any bytes, and fields of the formats that are read.

A mutation that ends in a wrong checksum tests the checksum alone, so archives are packed again around what was changed.
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

Mutation = Callable[[bytes, random.Random], bytes]

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, 1e-320, "", "x", "0", "nan",
    "1e400", "\x00", "\x1b[2J", "η" * 300, "'; DROP TABLE entry", [], {}, [None], [[]], {"": 0}, [1, "a", None],
    [[1.0, 2.0], [3.0]], {"schema": {}}, [0] * 50,
)  # fmt: skip


def bits(data: bytes, rng: random.Random) -> bytes:
    """Some bits flipped."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 32))):
        if made:
            made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def cut(data: bytes, rng: random.Random) -> bytes:
    """Cut off at either end."""
    at = rng.randrange(len(data) + 1)
    return data[:at] if rng.random() < 0.8 else data[at:]


def splice(data: bytes, rng: random.Random) -> bytes:
    """A piece copied to another place, inserted or over what was there."""
    if len(data) < 4:
        return data
    size = rng.choice((1, 2, 8, 64, len(data) // 3 + 1))
    start, to = rng.randrange(len(data)), rng.randrange(len(data))
    piece = data[start : start + size]
    return data[:to] + piece + data[to + (len(piece) if rng.random() < 0.6 else 0) :]


def blot(data: bytes, rng: random.Random) -> bytes:
    """A piece of one byte over and over, or of random ones."""
    size, to = rng.choice((1, 2, 4, 8, 100)), rng.randrange(len(data) + 1)
    piece = rng.choice((b"\x00", b"\xff", b"\x7f", b"\x80")) * size if rng.random() < 0.7 else rng.randbytes(size)
    return data[:to] + piece + data[to + size :]


ANY: tuple[Mutation, ...] = (bits, bits, cut, splice, blot)


def any_bytes(data: bytes, rng: random.Random) -> bytes:
    """One of the mutations that know nothing of the format."""
    return rng.choice(ANY)(data, rng)


def lines(data: bytes, rng: random.Random) -> bytes:
    """Lines doubled, dropped, swapped, or a word in one of them replaced; for CSV, TOML and the like."""
    rows = data.split(b"\n")
    k = rng.randrange(len(rows))
    way = rng.randrange(5)
    if way == 0:
        rows.insert(rng.randrange(len(rows) + 1), rows[k])
    elif way == 1:
        del rows[k]
    elif way == 2:
        j = rng.randrange(len(rows))
        rows[k], rows[j] = rows[j], rows[k]
    else:
        words = re.split(rb"([,;\t= \[\]\"])", rows[k])
        words[rng.randrange(len(words))] = rng.choice(
            (b"", b"nan", b"inf", b"-1e999", b"abc", b"1" * 400, b'"', b"=1+1", b"\xff", "η".encode(), b"[", b"{}",
             b"1_000", b"0x10", b"true", b"1979-05-27", b"99999999999999999999", b"-0", b"\x00", b"a" * 5000)
        )  # fmt: skip
        rows[k] = b"".join(words)
    return b"\n".join(rows)


def as_json(data: bytes, rng: random.Random) -> bytes:
    """One value of a JSON text replaced, dropped, doubled or moved."""
    try:
        whole = json.loads(data)
    except ValueError:
        return any_bytes(data, rng)
    places = list(_places(whole))
    if not places:
        return json.dumps(rng.choice(HOSTILE)).encode()
    for _ in range(rng.choice((1, 1, 1, 3))):
        holder, key = rng.choice(places)
        _change(holder, key, places, rng)
    try:
        return json.dumps(whole).encode()
    except (ValueError, RecursionError):  # a value was moved into itself
        return any_bytes(data, rng)


def _places(value: Any) -> Any:
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            yield from ((one, key) for key in one)
            stack.extend(one.values())
        elif isinstance(one, list):
            yield from ((one, k) for k in range(len(one)))
            stack.extend(one)


def _change(holder: Any, key: Any, places: list[Any], rng: random.Random) -> None:
    try:
        value = holder[key]
    except (KeyError, IndexError):  # an earlier change took it away
        return
    way = rng.randrange(8)
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(holder, list):
        holder.insert(key, value)
    elif way == 1:
        holder[f"{key}{rng.choice(('2', '_', ' '))}"] = value
    elif way == 2:
        other, there = rng.choice(places)
        if isinstance(other, dict) or there < len(other):
            holder[key] = json.loads(json.dumps(other.get(there) if isinstance(other, dict) else other[there]))
    elif way == 3 and isinstance(value, int | float) and not isinstance(value, bool):
        huge = abs(value) > 1e290  # by an earlier change
        more = (value, value) if huge else (value * 1e9, float(value))
        holder[key] = rng.choice((-value, value + 1, *more, str(value)[:500], -1, 2**40))
    elif way == 4 and isinstance(value, str):
        holder[key] = rng.choice((value[: len(value) // 2], value * 2, value + "x", value.upper(), ""))
    else:
        holder[key] = rng.choice(HOSTILE)


def doubled_key(data: bytes, rng: random.Random) -> bytes:
    """A key given twice, or NaN for a number: more than JSON allows."""
    found = [at.start() for at in re.finditer(rb"[{,]\s*\"[^\"]*\":", data)]
    if not found:
        return any_bytes(data, rng)
    at = rng.choice(found) + 1
    key = data[at : data.index(b":", at) + 1]
    return data[:at] + key + rng.choice((b"null", b"NaN", b"[]", b"1e999")) + b"," + data[at:]


def npy(data: bytes, rng: random.Random) -> bytes:
    """The header of a numpy file rewritten, its length right or wrong."""
    if not data.startswith(b"\x93NUMPY") or len(data) < 12:
        return any_bytes(data, rng)
    wide = data[6] > 1
    size = struct.unpack("<I", data[8:12])[0] if wide else struct.unpack("<H", data[8:10])[0]
    start = 12 if wide else 10
    header, body = data[start : start + size].decode("latin1"), data[start + size :]
    way = rng.randrange(7)
    if way == 0:
        kinds = ("|O", "<f8", ">f8", "<U9", "|S0", "|V8", "<M8[s]", "<c16", "|b1", "<u1", "f8, O", "<f99", "zzz", "")
        header = re.sub(r"'descr': *'[^']*'", f"'descr': '{rng.choice(kinds)}'", header)
    elif way == 1:
        shapes = ("()", "(0,)", "(-1,)", "(99999999999,)", "(2, 3)", "(3, 0, 9999999999999)", "(1L,)", "(True,)",
                  "('a',)", "((1,),)", "(1e3,)", "(1,) * 2", "[3]", "(" + "1," * 70 + ")")  # fmt: skip
        header = re.sub(r"'shape': *\([^)]*\)", f"'shape': {rng.choice(shapes)}", header)
    elif way == 2:
        header = header.replace("False", rng.choice(("True", "0", "None", "'x'")))
    elif way == 3:
        header = rng.choice(("{", "(" * 200, "{'descr': [('a', '<f8'), ('b', '|O')], 'fortran_order': False, 'shape': "
                             "(1,)}", "", "{}", "''' ", "\\", "{'descr':'<f8',\n  'x", "\x00"))  # fmt: skip
    elif way == 4:
        header = any_bytes(header.encode("latin1"), rng).decode("latin1")
    elif way == 5:
        body = any_bytes(body, rng)
    else:
        return data[:6] + bytes([rng.choice((0, 1, 2, 3, 9)), rng.choice((0, 1))]) + data[8:]
    text = header.encode("latin1")
    told = len(text) if rng.random() < 0.8 else rng.choice((0, 1, len(text) + 9, 65535))
    return data[:8] + struct.pack("<I" if wide else "<H", min(told, 65535)) + text + body


def zipped(inner: Mutation) -> Mutation:
    """A member changed by `inner` and packed again; members doubled, dropped, renamed; sizes that lie."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = [(one.filename, archive.read(one)) for one in archive.infolist()]
        except Exception:
            return any_bytes(data, rng)
        k = rng.randrange(len(members))
        name, content = members[k]
        way = rng.randrange(12)
        if way < 7:
            members[k] = (name, inner(content, rng))
        elif way == 7:
            members.insert(rng.randrange(len(members)), (name, rng.choice((content, b"", inner(content, rng)))))
        elif way == 8:
            del members[k]
        elif way == 9:
            members[k] = (rng.choice(("", "../x", name + "\x00", name.upper(), "a" * 300, "é.npy")), content)
        elif way == 10:
            members.append((rng.choice(("more.npy", "__MACOSX/x", "dir/")), content))
        made = packed(members, rng)
        return lying_sizes(made, rng) if way == 11 else made

    return mutate


def packed(members: list[tuple[str, bytes]], rng: random.Random) -> bytes:
    """A zip archive of these members, doubled names and all."""
    out = io.BytesIO()
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(name or "empty", content, compress_type=rng.choice(kinds))
    return out.getvalue()


def lying_sizes(data: bytes, rng: random.Random) -> bytes:
    """A field of the central directory overwritten: sizes, offsets, checksums, methods, flags."""
    starts = [at.start() for at in re.finditer(rb"PK\x01\x02|PK\x05\x06", data)]
    at = rng.choice(starts)
    field = rng.choice((8, 10, 16, 20, 24, 28, 30, 42) if data[at : at + 4] == b"PK\x01\x02" else (8, 10, 12, 16, 20))
    value = rng.choice((0, 1, 8, 12, 14, 99, 2**16 - 1, 2**31, 2**32 - 1))
    return data[: at + field] + value.to_bytes(4, "little")[: rng.choice((2, 4))] + data[at + field + 4 :]


def safetensors(data: bytes, rng: random.Random) -> bytes:
    """The JSON header changed, or its length."""
    size = int.from_bytes(data[:8], "little")
    if rng.random() < 0.15:
        return rng.choice((0, 1, size + 1, 2**63, 2**40)).to_bytes(8, "little") + data[8:]
    header = as_json(data[8 : 8 + size], rng) if rng.random() < 0.85 else doubled_key(data[8 : 8 + size], rng)
    return len(header).to_bytes(8, "little") + header + data[8 + size :]


def either(*ways: Mutation) -> Mutation:
    """One of several, any bytes among them."""

    def mutate(data: bytes, rng: random.Random) -> bytes:
        return rng.choice((*ways, *ways, any_bytes))(data, rng)

    return mutate


def member(data: bytes, rng: random.Random) -> bytes:
    """Whatever a member of an archive is: a schema, an array, another archive."""
    if data.startswith(b"\x93NUMPY"):
        return npy(data, rng)
    if data[:1] in (b"{", b"["):
        return rng.choice((as_json, as_json, as_json, doubled_key, any_bytes))(data, rng)
    if data.startswith(b"PK"):
        return zipped(npy)(data, rng)
    return any_bytes(data, rng)


NPZ = either(zipped(npy))
SKOPS = either(zipped(member))
NPY = either(npy)
JSON = either(as_json, as_json, doubled_key)
TEXT = either(lines)
SAFETENSORS = either(safetensors)
