"""Checks before a file is opened: a regular file within the size limit whose first bytes match its name.

Dangerous files are refused here, before any parser reads them. These checks read at most the first 4 kB.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from dosimeter.core.errors import Refusal, StorageFault
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text

GIBIBYTE = 2**30

_PICKLES = (".pkl", ".pickle", ".p", ".pck", ".joblib", ".jbl", ".dill", ".cloudpickle", ".sav", ".model")
_MAY_HOLD_PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".npy", ".npz", ".h5", ".hdf5")
_DANGER = "may run its author's code when opened, so it is not opened"
_SAVE_MODEL = "save the model with skops.io.dump to a .skops file, or its coefficients as .json"
SAVE_TABLE = "save the table as .csv or .parquet"

# First bytes -> kind of file. The order does not matter: no entry is a prefix of another.
_MAGIC: dict[bytes, str] = {
    b"\x93NUMPY": "a numpy array",
    b"\x1f\x8b": "compressed with gzip",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard",
    b"7z\xbc\xaf": "a 7z archive",
    b"PK\x03\x04": "a zip archive (a spreadsheet, .npz, .pt or .skops)",
    b"PK\x05\x06": "an empty zip archive",
    b"\xd0\xcf\x11\xe0": "an old Excel spreadsheet",
    b"\x89HDF": "an HDF5 file",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
    b"\x7fELF": "a program",
}
_PACKED = ("compressed", "a 7z", "an empty zip")
# Protocol 0 has no magic number: it begins with a global "c<module>\n<name>\n", then an argument or the end.
_OLD_PICKLE = re.compile(rb"\(?c[A-Za-z_][\w.]*\n[A-Za-z_][\w.]*\n[(p\]}.0-9)tR]")


def regular_file(path: str | os.PathLike[str], limit: int) -> tuple[Path, Location]:
    """The path of a regular file of at most `limit` bytes; a pipe, which could block, and anything else is refused."""
    shown = safe_text(os.fspath(path), 120)
    source = Location(str(os.fspath(path)), first=1)
    file = Path(path)
    try:
        status = file.stat()
    except ValueError:
        raise source.refusal("not a file name", "remove the NUL character") from None
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None
    if stat.S_ISDIR(status.st_mode):
        raise source.refusal("is a directory", "name one file in it")
    if not stat.S_ISREG(status.st_mode):
        raise source.refusal("is a pipe, socket or device", "write the data to a file first")
    if status.st_size == 0:
        raise source.refusal("the file is empty", "use a file with a header line and rows")
    if status.st_size > limit:
        problem = f"{status.st_size} bytes, above the limit of {limit}"
        raise Refusal(f"{shown}: {problem}: take fewer rows or columns, or raise the limit")
    return file, source


def refuse_pickle(path: Path, source: Location, *, model: bool) -> None:
    """Refuse a pickle, by its name and its first bytes, before anything is parsed."""
    remedy = _SAVE_MODEL if model else SAVE_TABLE
    kinds = [suffix.lower() for suffix in path.suffixes]  # model.pkl.gz as well
    if any(kind in _PICKLES for kind in kinds[-2:]) or any(kind in _MAY_HOLD_PICKLES for kind in kinds[-1:]):
        raise source.refusal(f"a {safe_text(path.suffix, 20)} file {_DANGER}", remedy)
    start = first_bytes(path, source)
    if (start[:1] == b"\x80" and start[1:2] <= b"\x08") or _OLD_PICKLE.match(start):
        raise source.refusal(f"this is a pickle; it {_DANGER}", remedy)
    if start.startswith(b"\x93NUMPY"):
        raise source.refusal(f"this is a numpy array file, which may hold a pickle; it {_DANGER}", remedy)


def detect_kind(path: Path, source: Location) -> str:
    """The kind of file by its first bytes, "" if unknown."""
    start = first_bytes(path, source)
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "")


def binary_remedy(kind: str) -> str:
    """What to do with a binary file that was passed as text."""
    if kind.startswith(_PACKED):
        return "unpack it first, so that its real size is known"
    if kind == "a Parquet file":
        return "name it .parquet"
    return SAVE_TABLE


def first_bytes(path: Path, source: Location) -> bytes:
    """The first 4096 bytes, or all if there are fewer."""
    try:
        with path.open("rb") as file:
            return file.read(4096)
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None


def read_bytes(path: Path, source: Location) -> bytes:
    """The whole file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise os_error_refusal(error, source, "read") from None


def refuse_folder(error: OSError) -> NoReturn:
    """For os.walk, which passes over a folder that cannot be listed: what is in it would be unseen."""
    raise os_error_refusal(error, Location(str(error.filename), first=1), "read") from None


def os_error_refusal(error: OSError, source: Location, verb: str) -> StorageFault:
    """An error of the operating system as a refusal of one line."""
    reasons = {
        errno.ENOENT: ("there is no such file", "check the name"),
        errno.EACCES: (f"permission to {verb} it is denied", "change its permissions or run as its owner"),
        errno.EPERM: (f"permission to {verb} it is denied", "change its permissions or run as its owner"),
        errno.ENOTDIR: ("a part of the path is a file, not a directory", "choose another path"),
        errno.ELOOP: ("its symbolic links form a loop", "name the file itself"),
        errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
        errno.ENOSPC: ("the disk is full", "free some space"),
        errno.EROFS: ("the disk is read-only", "choose another path"),
    }
    unknown = (f"cannot {verb} it", safe_text(error.strerror or error))
    return StorageFault(str(source.refusal(*reasons.get(error.errno or 0, unknown))))
