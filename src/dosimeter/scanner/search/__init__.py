"""A table's cells looked for in bytes: as machine words at every offset, as text, and as written numbers."""

from dosimeter.scanner.search.byte_search import FEWEST_TEXTS, ByteMatch, ByteSearch
from dosimeter.scanner.search.cells import Cells

__all__ = ["FEWEST_TEXTS", "ByteMatch", "ByteSearch", "Cells"]
