"""The files that are scanned together: one file, the files of a folder (MLflow's, say), or the members of an archive.

Nothing outside is read: links in a folder or an archive are listed, never followed. Nothing is written to the disk.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path

from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.archive import Archive
from dosimeter.files.file_checks import os_error_refusal, read_bytes, regular_file
from dosimeter.scanner.unpack import Unread, streams

ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz", ".whl")
MOST_MEMBERS = 20_000
_LINK = "a link, which is not followed"
_REMEDY = "scan its parts one by one"


@dataclass(frozen=True)
class Member:
    """name: its path inside; "" for a file that is scanned alone."""

    name: str
    data: bytes


def members_of(path: str | os.PathLike[str], limit: int) -> tuple[list[Member], list[Unread], Location]:
    """The files to scan, what was not read, and where they are."""
    root = Path(path)
    try:
        is_folder = root.is_dir()
    except (OSError, ValueError):
        is_folder = False
    if is_folder:
        return _of_folder(root, limit)
    file, source = regular_file(path, limit)
    data = read_bytes(file, source)
    if file.suffix.lower() not in ARCHIVES:
        return [Member("", data)], [], source
    members, unread = _of_archive(data, limit, source)
    if not members and not unread:
        raise source.refusal("there is no file in it", "check the name")
    return members, unread, source


def _of_folder(root: Path, limit: int) -> tuple[list[Member], list[Unread], Location]:
    source = Location(str(root), first=1)
    members: list[Member] = []
    unread: list[Unread] = []
    left = limit
    for folder, folders, files in os.walk(root, followlinks=False):
        folders.sort()
        for name in sorted(files + [link for link in folders if Path(folder, link).is_symlink()]):
            file = Path(folder, name)
            place = file.relative_to(root).as_posix()
            try:
                status = file.lstat()
                if not stat.S_ISREG(status.st_mode):
                    unread.append((safe_text(place, 120), _LINK if stat.S_ISLNK(status.st_mode) else "no regular file"))
                    continue
                left -= status.st_size
                if left < 0 or len(members) >= MOST_MEMBERS:
                    problem = f"more than {limit} bytes or {MOST_MEMBERS} files"
                    raise source.refusal(problem, _REMEDY)
                members.append(Member(place, file.read_bytes()))
            except OSError as error:
                raise os_error_refusal(error, Location(str(file), first=1), "read") from None
    if not members and not unread:
        raise source.refusal("there is no file in it", "check the name")
    return members, unread, source


def _of_archive(data: bytes, limit: int, source: Location) -> tuple[list[Member], list[Unread]]:
    """The members of a zip or of a tar in any compression; one compressed file is a member of its own."""
    if data.startswith(b"PK"):
        archive = Archive(data, limit, source)
        names = [name for name in archive.names if not name.endswith("/")]
        return [Member(name, archive.read(name)) for name in names], []
    if not _is_tar(data):
        pieces, unread = streams(data, limit, source)
        if len(pieces) == 1 and _is_tar(pieces[0][1]):
            data = pieces[0][1]
        else:
            return [Member(place, content) for place, content in pieces], unread
    return _of_tar(data, source)


def _is_tar(data: bytes) -> bool:
    return data[257:262] == b"ustar"


def _of_tar(data: bytes, source: Location) -> tuple[list[Member], list[Unread]]:
    members: list[Member] = []
    unread: list[Unread] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for entry in tar:
                if len(members) + len(unread) >= MOST_MEMBERS:
                    raise source.refusal(f"more than {MOST_MEMBERS} members", _REMEDY)
                if entry.isfile() and not entry.issparse():
                    opened = tar.extractfile(entry)
                    members.append(Member(entry.name, opened.read() if opened else b""))
                elif not entry.isdir():
                    why = _LINK if entry.issym() or entry.islnk() else "no regular file"
                    unread.append((safe_text(entry.name, 120), why))
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError) as error:
        if type(error).__name__ == "Refusal":
            raise
        raise source.refusal(f"a damaged archive ({type(error).__name__})", "pack it again") from None
    return members, unread
