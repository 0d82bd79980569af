"""What a model file holds, before anybody says what it means: named arrays, lists of text, and what was not opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBERS = "fiub"


@dataclass(frozen=True, eq=False)
class FileArray:
    """One array or list in a file.

    place: where it lies ("steps[1].support_vectors_"); holder: the place of the object that it belongs to
    ("steps[1]"), so that parts of one object find each other; owner: that object's class or operator ("SVC"), "" if
    the file does not say; name: the last piece of the place; values: numbers of any shape, or records (a tree's
    nodes); texts: a list of text instead.

    >>> FileArray("steps[1].support_vectors_", "steps[1]", "SVC", "support_vectors_", np.zeros((148, 30)))
    Part steps[1].support_vectors_ of SVC: 148 x 30 float64
    """

    place: str
    holder: str
    owner: str
    name: str
    values: NDArray[Any] = field(default_factory=lambda: np.empty(0))
    texts: tuple[str, ...] = ()

    @property
    def numeric(self) -> bool:
        """Whether it holds numbers."""
        return not self.texts and self.values.dtype.kind in NUMBERS and self.values.size > 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array, or the length of the list."""
        return (len(self.texts),) if self.texts else self.values.shape

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape)) or "one"
        what = "texts" if self.texts else str(self.values.dtype if self.values.dtype.names is None else "records")
        return f"Part {self.place} of {self.owner or 'nobody'}: {shape} {what}"


@dataclass(frozen=True)
class Contents:
    """Everything in a file that could be read without running anything. unread: (place, why) of what could not."""

    kind: str
    parts: tuple[FileArray, ...]
    unread: tuple[tuple[str, str], ...] = ()
