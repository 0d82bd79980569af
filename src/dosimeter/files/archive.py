"""A zip archive whose declared sizes are checked before anything is unpacked."""

from __future__ import annotations

import io
import zipfile

from dosimeter.core.errors import Refusal
from dosimeter.core.location import Location

MOST_MEMBERS = 200_000
SAVE_MODEL = "save the model again"


class Archive:
    """Members by name, each unpacked when asked for; whatever is wrong with the archive is one `Refusal`.

    zipfile never unpacks more of a member than its entry declares, so the declaration is a bound.
    """

    def __init__(self, data: bytes, limit: int, source: Location, remedy: str = SAVE_MODEL) -> None:
        self._source = source
        self._remedy = remedy
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            members = self._zip.infolist()
        except Exception as error:
            raise self._damaged(error) from None
        self.sizes = {member.filename: member.file_size for member in members}
        self.names = tuple(self.sizes)
        if len(self.sizes) != len(members):
            raise source.refusal("two members of the archive have one name", remedy)
        if len(members) > MOST_MEMBERS:
            raise source.refusal(f"{len(members)} members", f"give an archive of at most {MOST_MEMBERS}")
        declared = sum(self.sizes.values())
        if declared > limit:
            what = f"it declares {declared} bytes unpacked, above the limit of {limit}"
            raise source.refusal(what, remedy)

    def read(self, name: str) -> bytes:
        """A member's bytes; its checksum is compared on the way."""
        try:
            return self._zip.read(name)
        except Exception as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> Refusal:
        # Of zlib, lzma, bz2, struct, a seek before the beginning, a method that is not known: zipfile has no one error.
        return self._source.refusal(f"a damaged archive ({type(error).__name__})", self._remedy)
