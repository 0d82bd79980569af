"""What a model file holds, before it is classified: named arrays, lists of text, and what was not read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS = "fiub"


@dataclass(frozen=True, eq=False)
class FileArray:
    """One array or list in a file.

    place: where it is ("steps[1].support_vectors_"); holder: the place of the object it belongs to ("steps[1]"), which
    links the arrays of one object; owner: that object's class or operator ("SVC"), "" if the file does not say; name:
    the last piece of the place; values: numbers of any shape, or records (a tree's nodes); texts: a list of text
    instead.

    >>> FileArray("steps[1].support_vectors_", "steps[1]", "SVC", "support_vectors_", np.zeros((148, 30)))
    FileArray steps[1].support_vectors_ of SVC: 148 x 30 float64
    """

    place: str
    holder: str
    owner: str
    name: str
    values: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    texts: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        """True if it holds numbers."""
        return not self.texts and self.values.dtype.kind in NUMBERS and self.values.size > 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array, or length of the list."""
        return (len(self.texts),) if self.texts else self.values.shape

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape)) or "one"
        kind = "texts" if self.texts else str(self.values.dtype if self.values.dtype.names is None else "records")
        return f"FileArray {self.place} of {self.owner or 'unknown'}: {shape} {kind}"


@dataclass(frozen=True)
class Contents:
    """Everything in a file that can be read without running its code. unread: (place, why) of the rest."""

    kind: str
    parts: tuple[FileArray, ...]
    unread: tuple[tuple[str, str], ...] = ()
