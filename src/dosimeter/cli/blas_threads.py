"""How many threads linear algebra uses: one if the files of a command are small, or their rows are short.

The products of a small table, or of a block of short rows, take microseconds each. Threads that wait for one another
cost more there than they save. On a busy machine they wait for a free processor at every product.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

SMALL = 16 << 20
"""Bytes of all files with long rows. The widest dense table in so few bytes takes seconds on one thread."""
SHORT = 64
"""Columns of a design with short rows: a block of them is multiplied in less time than threads need to start."""
LEVELS = 50
"""Columns that a text may become."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}
STATED = (*ONE_THREAD, "OMP_NUM_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS")
"""If one of these is set, the threads were chosen already."""
_TEXT = (".csv", ".tsv", ".txt")
_NUMBER = re.compile(rb'\s*"?[-+]?[\d.]+([eE][-+]?\d+)?"?\s*')
_HEAD = 1 << 16


def blas_variables(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to set before numpy is imported; none if the files are large, or if threads are set already.

    >>> blas_variables(["measure", "--target", "y"], {})  # names no file
    {}
    """
    if any(name in environment for name in STATED):
        return {}
    try:
        files = [name for name in arguments if os.path.isfile(name)]
        size = sum(os.path.getsize(name) for name in files if not _has_short_rows(name))
    except OSError:  # gone or unreadable: the command says so itself
        return {}
    folders = any(os.path.isdir(name) for name in arguments)
    return ONE_THREAD if files and not folders and size <= SMALL else {}


def _has_short_rows(name: str) -> bool:
    """Of a text table, by its first row; a wrong guess costs time alone."""
    if not name.lower().endswith(_TEXT):
        return False
    with open(name, "rb") as stream:
        lines = stream.read(_HEAD).split(b"\n", 2)
    if len(lines) < 3:
        return False
    cells = re.split(rb"[,;\t]", lines[1])
    return sum(1 if _NUMBER.fullmatch(cell) else LEVELS for cell in cells) <= SHORT
