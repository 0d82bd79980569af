"""How many threads linear algebra uses: one if the files of a command are small.

The products of a small table take microseconds each. Threads that wait for one another cost more there than they save.
On a busy machine they wait for a free processor at every product.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

SMALL = 16 << 20
"""Bytes of all files that a command names. The widest dense table in so few bytes takes seconds on one thread."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "VECLIB_MAXIMUM_THREADS": "1"}
STATED = (*ONE_THREAD, "OMP_NUM_THREADS", "GOTO_NUM_THREADS", "BLIS_NUM_THREADS")
"""If one of these is set, the threads were chosen already."""


def blas_variables(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables to set before numpy is imported; none if the files are large, or if threads are set already.

    >>> blas_variables(["measure", "--target", "y"], {})  # names no file
    {}
    """
    if any(name in environment for name in STATED):
        return {}
    try:
        sizes = [os.path.getsize(name) for name in arguments if os.path.isfile(name)]
    except OSError:  # gone between the two looks: the command says so itself
        return {}
    folders = any(os.path.isdir(name) for name in arguments)
    return ONE_THREAD if sizes and not folders and sum(sizes) <= SMALL else {}
