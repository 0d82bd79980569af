"""Files written whole or not at all, readable by their owner only.

The bytes go to a temporary file in the same folder, are forced to the disk, and take the name in one step.
What stood there before stays until then; a failure or Ctrl-C leaves no half file and no temporary one.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.file_checks import cannot

AnyPath = str | os.PathLike[str]


def write_text(path: AnyPath, text: str, *, inputs: Iterable[AnyPath] = ()) -> None:
    """UTF-8, line ends as they are; see `replacing`."""
    write_bytes(path, text.encode("utf-8"), inputs=inputs)


def write_bytes(path: AnyPath, data: bytes, *, inputs: Iterable[AnyPath] = ()) -> None:
    """See `replacing`."""
    with replacing(path, inputs=inputs) as file:
        file.write(data)


@contextmanager
def replacing(path: AnyPath, *, inputs: Iterable[AnyPath] = ()) -> Iterator[BinaryIO]:
    """A file to write into that becomes `path` when the block ends well, and vanishes when it does not.

    inputs: the files that were read; none of them may be the output, under whatever name.
    """
    target = Path(path)
    source = Location(os.fspath(path))
    check_output(target, inputs=inputs)
    try:
        handle, temporary = tempfile.mkstemp(prefix=".dosimeter-", suffix=".part", dir=target.parent)
    except OSError as error:
        raise cannot(error, source, "write") from None
    try:
        # mkstemp makes the file 0600 on POSIX; on Windows the folder's own access list applies.
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise cannot(error, source, "write") from None
        raise
    _settle_folder(target.parent)


def check_output(path: AnyPath, *, inputs: Iterable[AnyPath] = ()) -> None:
    """Refuse an output that cannot be written or would destroy what was read. Ask before the work begins."""
    target = Path(path)
    source = Location(os.fspath(path))
    try:
        folder = target.parent.stat()
    except ValueError:
        raise source.refusal("not the name of a file", "a name cannot hold NUL") from None
    except OSError as error:
        _refuse_inside_input(target, inputs)
        raise _no_folder(error, target, source) from None
    if not stat.S_ISDIR(folder.st_mode):
        _refuse_inside_input(target, inputs)
        raise source.refusal("a part of the path is a file and not a directory", "choose another path")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise source.refusal("permission to write into its folder is denied", "choose another folder")
    try:
        found = target.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot(error, source, "write") from None
    if stat.S_ISDIR(found.st_mode):
        raise source.refusal("is a directory", "name a file in it")
    if not stat.S_ISREG(found.st_mode):
        raise source.refusal("is not a regular file (a pipe, socket or device)", "name a file; - writes to stdout")
    for one in inputs:
        with suppress(FileNotFoundError):
            if os.path.samefile(one, target):
                raise source.refusal("the output is the input", "write to another file")


def _refuse_inside_input(target: Path, inputs: Iterable[AnyPath]) -> None:
    for one in inputs:
        if Path(one).absolute() in target.absolute().parents:
            where = safe_text(os.fspath(one), 120)
            raise Refusal(f"{safe_text(target, 120)}: the output lies inside the input {where}: write to another place")


def _no_folder(error: OSError, target: Path, source: Location) -> Refusal:
    if isinstance(error, FileNotFoundError):
        return source.refusal(f"there is no folder {safe_text(target.parent, 120)}", "make it first")
    return cannot(error, source, "write")


def _settle_folder(folder: Path) -> None:
    """Force the new name to the disk. Windows has no way to ask for it, nor have some network disks."""
    if os.name == "nt":
        return
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
