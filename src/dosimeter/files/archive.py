"""A zip archive whose declared sizes are checked before anything is unpacked."""

from __future__ import annotations

import io
import zipfile

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location

MOST_MEMBERS = 200_000
SAVE_MODEL = "save the model again"


class Archive:
    """Members by name, each unpacked on request; every defect of the archive is a `Refusal`.

    zipfile never unpacks more of a member than its entry declares, so the declared sizes are bounds.
    """

    def __init__(self, data: bytes, limit: int, source: Location, remedy: str = SAVE_MODEL) -> None:
        self._source = source
        self._remedy = remedy
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            members = self._zip.infolist()
        except Exception as error:
            raise self._refusal_of(error) from None
        self.sizes = {member.filename: member.file_size for member in members}
        self.names = tuple(self.sizes)
        if len(self.sizes) != len(members):
            raise source.refusal("two members of the archive have the same name", remedy)
        if len(members) > MOST_MEMBERS:
            raise source.refusal(f"{len(members)} members", f"use an archive of at most {MOST_MEMBERS}")
        declared = sum(self.sizes.values())
        if declared > limit:
            problem = f"it declares {declared} bytes unpacked, above the limit of {limit}"
            raise source.refusal(problem, remedy)

    def read(self, name: str) -> bytes:
        """The bytes of a member, with its checksum verified."""
        try:
            return self._zip.read(name)
        except Exception as error:
            raise self._refusal_of(error) from None

    def _refusal_of(self, error: Exception) -> Refusal:
        # zlib, lzma, bz2, struct, a bad seek, an unknown method: zipfile has no common error class.
        return self._source.refusal(f"a damaged archive ({type(error).__name__})", self._remedy)
