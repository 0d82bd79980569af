"""The members of a tar archive in memory. Links and devices are listed, never followed."""

from __future__ import annotations

import io
import tarfile

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location
from dosimeter.core.text import safe_text

MOST_MEMBERS = 20_000
LINK = "a link, which is not followed"
NO_FILE = "no regular file"
_REMEDY = "scan its parts one by one"


def is_tar(data: bytes) -> bool:
    """True if the bytes begin as a tar archive does."""
    return data[257:262] == b"ustar"


def tar_members(data: bytes, source: Location) -> tuple[list[tuple[str, bytes]], list[tuple[str, str]]]:
    """(name, bytes) of its files, and (name, why) of what is no file."""
    members: list[tuple[str, bytes]] = []
    unread: list[tuple[str, str]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for entry in tar:
                if len(members) + len(unread) >= MOST_MEMBERS:
                    raise source.refusal(f"more than {MOST_MEMBERS} members", _REMEDY)
                if entry.isfile() and not entry.issparse():
                    opened = tar.extractfile(entry)
                    members.append((entry.name, opened.read() if opened else b""))
                elif not entry.isdir():
                    unread.append((safe_text(entry.name, 120), LINK if entry.issym() or entry.islnk() else NO_FILE))
    except Refusal:
        raise
    except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, RecursionError) as error:
        raise source.refusal(f"a damaged archive ({type(error).__name__})", "pack it again") from None
    return members, unread
