"""What lies outside the members of an archive, or in members that nothing names, is found or listed."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import skops.io
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from dosimeter.scanner import scan
from dosimeter.scanner.surplus import surplus_of
from dosimeter.tables.table import Table
from tests.scanner.people import NAMES, X, table

ROWS = X[20:60]
PEOPLE = {**dict(zip(NAMES, X.T, strict=True)), "id": [f"NHS-{k:06d}" for k in range(len(X))]}


def written(numbers: np.ndarray) -> bytes:
    return "\n".join(",".join(map(repr, row)) for row in numbers.tolist()).encode()


def appended(data: bytes) -> bytes:
    return data + ROWS.tobytes()


def prepended(data: bytes) -> bytes:
    return ROWS.tobytes() + data


def commented(data: bytes) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = written(ROWS)[:60_000]
    return buffer.getvalue()


def commented_inside(data: bytes) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        entry = zipfile.ZipInfo("last.npy")
        entry.comment = written(ROWS)[:60_000]
        archive.writestr(entry, npy(np.zeros(2)))
    return buffer.getvalue()


def in_an_extra_field(data: bytes) -> bytes:
    buffer = io.BytesIO(data)
    with zipfile.ZipFile(buffer, "a") as archive:
        entry = zipfile.ZipInfo("last.npy")
        body = ROWS.tobytes()
        entry.extra = b"\x34\x12" + len(body).to_bytes(2, "little") + body
        archive.writestr(entry, npy(np.zeros(2)))
    return buffer.getvalue()


def between(data: bytes) -> bytes:
    """Before the directory, which is told of it."""
    end = data.rfind(b"PK\x05\x06")
    at = int.from_bytes(data[end + 16 : end + 20], "little")
    moved = (at + ROWS.nbytes).to_bytes(4, "little")
    return data[:at] + ROWS.tobytes() + data[at : end + 16] + moved + data[end + 20 :]


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def archive_of(kind: str, folder: Path) -> bytes:
    path = folder / f"clean{kind}"
    if kind == ".skops":
        skops.io.dump(Ridge().fit(X[:, :3], X[:, 3]), path)
    else:
        np.savez(path, coef=np.arange(5.0))
        path = path if path.exists() else path.with_name(path.name + ".npz")
    return path.read_bytes()


@pytest.mark.parametrize("kind", [".skops", ".npz", ".zip"])
@pytest.mark.parametrize(
    "hide", [appended, commented, commented_inside, in_an_extra_field, between], ids=lambda hide: hide.__name__
)
def test_rows_outside_the_members_of_an_archive_are_found(kind: str, hide, tmp_path: Path) -> None:
    path = tmp_path / f"m{kind}"
    path.write_bytes(hide(archive_of(kind, tmp_path)))
    assert scan(path).unread, "without a table it says that it did not look"
    found = set(scan(path, table()).matched_rows)
    assert found <= set(range(21, 61))
    assert len(found) >= 35


def test_rows_before_a_zip_are_found(tmp_path: Path) -> None:
    (tmp_path / "m.zip").write_bytes(prepended(archive_of(".zip", tmp_path)))
    assert scan(tmp_path / "m.zip", table()).matched_rows == tuple(range(21, 61))


@pytest.mark.parametrize("name", ["rows.npy", "rows.bin"])
def test_a_member_of_a_skops_file_that_its_schema_does_not_name_is_read(name: str, tmp_path: Path) -> None:
    buffer = io.BytesIO(archive_of(".skops", tmp_path))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(name, npy(ROWS) if name.endswith(".npy") else ROWS.tobytes())
    (tmp_path / "m.skops").write_bytes(buffer.getvalue())
    assert [why for _, why in scan(tmp_path / "m.skops").unread] == ["a member that no attribute of the model names"]
    assert scan(tmp_path / "m.skops", table()).matched_rows == tuple(range(21, 61))


@pytest.mark.parametrize("kind", [".skops", ".npz", ".zip"])
def test_an_archive_as_its_library_writes_it_has_nothing_outside(kind: str, tmp_path: Path) -> None:
    data = archive_of(kind, tmp_path)
    assert surplus_of(data) == b""
    (tmp_path / f"m{kind}").write_bytes(data)
    assert scan(tmp_path / f"m{kind}").unread == ()


class Pipe(io.RawIOBase):
    """A file that cannot be moved in: sizes are then written behind each member."""

    def __init__(self) -> None:
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, piece) -> int:
        self.written += bytes(piece)
        return len(piece)


@given(st.lists(st.binary(max_size=300), max_size=6), st.booleans(), st.booleans(), st.booleans())
def test_archives_of_any_members_have_nothing_outside_and_what_is_added_is_found(bodies, packed, large, piped) -> None:
    method = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    target = Pipe() if piped else io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for k, body in enumerate(bodies):
            with archive.open(f"ä{k}", "w", force_zip64=large) as member:
                member.write(body)
    data = target.written if isinstance(target, Pipe) else target.getvalue()
    assert surplus_of(data) == b""
    secret = os.urandom(16) + b"PEOPLE"
    assert secret in surplus_of(data + secret)
    assert secret in surplus_of(secret + data)


def test_ids_that_are_names_of_files_are_found(tmp_path: Path) -> None:
    people = Table.of(PEOPLE)
    for k in range(5):
        (tmp_path / f"{PEOPLE['id'][k]}.txt").write_text("predicted")
    assert scan(tmp_path, people).values_inside
    other = Table.of({**PEOPLE, "id": [f"XYZ-{k:06d}" for k in range(len(X))]})
    assert not scan(tmp_path, other).values_inside


def test_rows_that_were_rounded_to_bfloat16_are_found(tmp_path: Path) -> None:
    """Three digits of each of thirty columns."""
    upper = (ROWS.astype("<f4").view("<u4") + 0x8000) & 0xFFFF0000
    np.save(tmp_path / "m.npy", upper.view("<f4"))
    assert set(range(21, 61)) <= set(scan(tmp_path / "m.npy", table()).matched_rows)
    np.save(tmp_path / "m.npy", np.random.default_rng(0).permuted(upper.view("<f4"), axis=0))
    assert not scan(tmp_path / "m.npy", table()).rows_inside
