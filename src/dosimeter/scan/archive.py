"""A zip archive whose declared sizes are checked before anything is unpacked."""

from __future__ import annotations

import io
import zipfile
import zlib

from dosimeter.frames.source import Source

MOST_MEMBERS = 200_000
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError, KeyError)


class Archive:
    """Members by name, each unpacked when asked for.

    zipfile never unpacks more of a member than its entry declares, so the declaration is a bound.
    """

    def __init__(self, data: bytes, limit: int, source: Source) -> None:
        self._source = source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            members = self._zip.infolist()
        except _DAMAGED as error:
            raise self._damaged(error) from None
        self.sizes = {member.filename: member.file_size for member in members}
        self.names = tuple(self.sizes)
        if len(self.sizes) != len(members):
            raise source.refusal("two members of the archive have one name", "save the model again")
        if len(members) > MOST_MEMBERS:
            raise source.refusal(f"{len(members)} members", f"give an archive of at most {MOST_MEMBERS}")
        declared = sum(self.sizes.values())
        if declared > limit:
            what = f"it declares {declared} bytes unpacked, above the limit of {limit}"
            raise source.refusal(what, "save a smaller model")

    def read(self, name: str) -> bytes:
        """A member's bytes; its checksum is compared on the way."""
        try:
            return self._zip.read(name)
        except _DAMAGED as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> Exception:
        return self._source.refusal(f"a damaged archive ({type(error).__name__})", "save the model again")
