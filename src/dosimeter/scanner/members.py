"""The files that are scanned together: one file, the files of a folder (MLflow's, say), or the members of an archive.

Nothing outside is read: links in a folder or an archive are listed, never followed. Nothing is written to the disk.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text
from dosimeter.files.archive import Archive
from dosimeter.files.file_checks import os_error_refusal, read_bytes, refuse_folder, regular_file
from dosimeter.scanner.surplus import SURPLUS, as_parts, surplus_of
from dosimeter.scanner.tar import LINK, MOST_MEMBERS, NO_FILE, is_tar, tar_members
from dosimeter.scanner.unpack import (
    DEEPEST,
    HEADER,
    Unread,
    closed_compression,
    is_zip,
    long_gzip_header,
    unpacked_limit,
    without_compression,
)

ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz", ".whl")
ALONE = "all"
"""Place of what is alone in a compressed file."""
_REMEDY = "scan its parts one by one"


@dataclass(frozen=True)
class Member:
    """name: its path inside; "" for a file that is scanned alone."""

    name: str
    data: bytes


def members_of(
    path: str | os.PathLike[str], limit: int, *, opened: bool = True
) -> tuple[list[Member], list[Unread], Location]:
    """The files to scan, what was not read, and where they are. opened: with archives among them unpacked."""
    root = Path(path)
    try:
        is_folder = root.is_dir()
    except (OSError, ValueError):
        is_folder = False
    if is_folder:
        members, unread, source = _of_folder(root, limit)
        return (*_with_inner(members, unread, limit, source), source) if opened else (members, unread, source)
    file, source = regular_file(path, limit)
    data = read_bytes(file, source)
    if file.suffix.lower() not in ARCHIVES:
        return [Member("", data)], [], source
    members, unread = _with_inner(*_of_archive(data, limit, source), limit, source)
    if not members and not unread:
        raise source.refusal("there is no file in it", "check the name")
    return members, unread, source


def _of_folder(root: Path, limit: int) -> tuple[list[Member], list[Unread], Location]:
    source = Location(str(root), first=1)
    members: list[Member] = []
    unread: list[Unread] = []
    left = limit
    for folder, folders, files in os.walk(root, onerror=refuse_folder, followlinks=False):
        folders.sort()
        for name in sorted(files + [link for link in folders if Path(folder, link).is_symlink()]):
            file = Path(folder, name)
            place = file.relative_to(root).as_posix()
            try:
                status = file.lstat()
                if not stat.S_ISREG(status.st_mode):
                    unread.append((safe_text(place, 120), LINK if stat.S_ISLNK(status.st_mode) else NO_FILE))
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


def _with_inner(
    members: list[Member], unread: list[Unread], limit: int, source: Location
) -> tuple[list[Member], list[Unread]]:
    """The members, with archives among them replaced by what is in them; one that cannot be opened stays as it is."""
    result: list[Member] = []
    unread = list(unread)
    left = limit - sum(len(member.data) for member in members)
    stack = [(member, 0) for member in reversed(members)]
    while stack:
        member, depth = stack.pop()
        inner: list[Member] = []
        if Path(member.name).suffix.lower() in ARCHIVES and depth < DEEPEST:
            try:
                inner, links = _of_archive(member.data, left, source)
            except Refusal:
                inner, links = [], []
            unread += [(f"{safe_text(member.name, 120)}/{place}", why) for place, why in links]
        left -= sum(len(part.data) for part in inner if part.data is not member.data)
        if len(result) + len(stack) + len(inner) > MOST_MEMBERS:
            raise source.refusal(f"more than {MOST_MEMBERS} members", _REMEDY)
        if inner and inner[0].data is not member.data:
            stack.extend((replace(part, name=_name_inside(member, part)), depth + 1) for part in reversed(inner))
        else:
            result.append(member)
    return result, unread


def _name_inside(archive: Member, part: Member) -> str:
    """The place of a part; what is alone in a compressed file has its name without the ending."""
    if part.name == ALONE:
        return Path(archive.name).with_suffix("").as_posix()
    return f"{archive.name}/{part.name}"


def _of_archive(data: bytes, limit: int, source: Location) -> tuple[list[Member], list[Unread]]:
    """The members of a zip or of a tar in any compression; one compressed file is a member of its own."""
    packed = len(data)
    headers: list[Member] = []
    for _ in range(DEEPEST):
        if data.startswith(b"PK") or is_zip(data):
            archive = Archive(data, unpacked_limit(limit, packed), source)
            names = [name for name in archive.names if not name.endswith("/")]
            surplus = surplus_of(data)
            outside = [Member(f"({SURPLUS})", surplus)] if surplus else []
            unread = [*as_parts(surplus)[1]]
            return [*(Member(name, archive.read(name)) for name in names), *outside, *headers], unread
        if is_tar(data):
            members, links = tar_members(data, source)
            return [*(Member(name, content) for name, content in members), *headers], links
        header = long_gzip_header(data)
        headers += [Member(f"({HEADER})", header)] if header else []
        inner = without_compression(data, limit, packed, source)
        if inner is None:
            return [Member(ALONE, data), *headers], closed_compression(ALONE, data)
        data = inner
    raise source.refusal(f"nested more than {DEEPEST} deep", _REMEDY)
