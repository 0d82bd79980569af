"""Atomic writes: a file is written completely or not at all, and is readable by its owner only.

The bytes go to a temporary file in the same folder, are flushed to disk, and get the final name in one step. The old
file stays until then; a failure or Ctrl-C leaves neither a partial nor a temporary file.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import os_error_refusal

AnyPath = str | os.PathLike[str]


def write_text(path: AnyPath, text: str, *, inputs: Iterable[AnyPath] = ()) -> None:
    """Write UTF-8 with line ends as they are; see `atomic_file`."""
    write_bytes(path, text.encode("utf-8"), inputs=inputs)


def write_bytes(path: AnyPath, data: bytes, *, inputs: Iterable[AnyPath] = ()) -> None:
    """Write the bytes; see `atomic_file`."""
    with atomic_file(path, inputs=inputs) as file:
        file.write(data)


def write_pieces(path: AnyPath, pieces: Iterable[bytes], *, inputs: Iterable[AnyPath] = ()) -> str:
    """Write the pieces one after another, and return the SHA-256 of the file, hex; see `atomic_file`."""
    digest = sha256()
    with atomic_file(path, inputs=inputs) as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
    return digest.hexdigest()


@contextmanager
def atomic_file(path: AnyPath, *, inputs: Iterable[AnyPath] = ()) -> Iterator[BinaryIO]:
    """A file to write into, which becomes `path` if the block succeeds and is removed if it fails.

    inputs: the files that were read; none of them may be the output, even under another name.
    """
    target = Path(path)
    source = Location(os.fspath(path))
    check_output(target, inputs=inputs)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".dosimeter-", suffix=".part", dir=target.parent)
    except OSError as error:
        raise os_error_refusal(error, source, "write") from None
    try:
        # mkstemp creates the file with mode 0600 on POSIX; on Windows the folder's access list applies.
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise os_error_refusal(error, source, "write") from None
        raise
    _sync_folder(target.parent)


def check_output(path: AnyPath, *, inputs: Iterable[AnyPath] = ()) -> None:
    """Refuse an output that cannot be written or would overwrite an input. Call it before the work begins."""
    target = Path(path)
    source = Location(os.fspath(path))
    try:
        folder = target.parent.stat()
    except ValueError:
        raise source.refusal("not a file name", "remove the NUL character") from None
    except OSError as error:
        _refuse_inside_input(target, inputs)
        raise _no_folder(error, target, source) from None
    if not stat.S_ISDIR(folder.st_mode):
        _refuse_inside_input(target, inputs)
        raise source.refusal("a part of the path is a file, not a directory", "choose another path")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise source.refusal("permission to write to its folder is denied", "choose another folder")
    try:
        status = target.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise os_error_refusal(error, source, "write") from None
    if stat.S_ISDIR(status.st_mode):
        raise source.refusal("is a directory", "name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise source.refusal("is not a regular file (a pipe, socket or device)", "name a file; - writes to stdout")
    for path_read in inputs:
        with suppress(FileNotFoundError):
            if os.path.samefile(path_read, target):
                raise source.refusal("the output is the input", "write to another file")


def _refuse_inside_input(target: Path, inputs: Iterable[AnyPath]) -> None:
    for path_read in inputs:
        if Path(path_read).absolute() in target.absolute().parents:
            shown = safe_text(os.fspath(path_read), 120)
            raise Refusal(f"{safe_text(target, 120)}: the output lies inside the input {shown}: write to another place")


def _no_folder(error: OSError, target: Path, source: Location) -> Refusal:
    if isinstance(error, FileNotFoundError):
        return source.refusal(f"there is no folder {safe_text(target.parent, 120)}", "create it first")
    return os_error_refusal(error, source, "write")


def _sync_folder(folder: Path) -> None:
    """Flush the new name to disk. Windows and some network disks do not support it."""
    if os.name == "nt":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
