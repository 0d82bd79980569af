"""The released labels: a .csv with the name of each public row and its label, nothing else."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.core.errors import Refusal
from dosimeter.core.progress import stage, track
from dosimeter.core.release import Release
from dosimeter.files.csv_export import cell, csv_text

if TYPE_CHECKING:
    from dosimeter.models.vote_set import VoteSet
    from dosimeter.pate.label import Labels


_PIECE = 1 << 16
"""Rows that are written at once."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Public rows with their labels, and a student that learnt from them."""

    key_name: str
    """What a key is: "row" counts from 1, "query" from 0, "key" is a name."""
    keys: Sequence[Any]
    classes: tuple[str, ...]
    values: NDArray[Any]
    """(k,) the place of each row's class; -1 if the noisy threshold refused it."""
    student: Any = None
    """A scikit-learn Pipeline over the public columns; None if none was requested or none could be fitted."""
    no_student: str = ""
    """Why a requested student could not be fitted."""

    @classmethod
    def of(cls, votes: VoteSet, labels: Labels, student: Any = None, no_student: str = "") -> LabelledRows:
        """The rows of these votes."""
        return cls(votes.key_name, votes.keys, votes.classes, labels.stored, student, no_student)

    @property
    def labels(self) -> tuple[str, ...]:
        """The class of each row; "" if the noisy threshold refused it."""
        return tuple(map((*self.classes, "").__getitem__, self.values.tolist()))

    def pieces(self) -> Iterator[bytes]:
        """The .csv in pieces of some thousand rows: no list of all rows is made."""
        yield csv_text({self.key_name: (), "label": ()}).encode("utf-8")
        # The last ending is that of -1.
        endings = [f",{cell(name)}\n" for name in (*self.classes, "")]
        write_key = str if isinstance(self.keys, range) else cell
        if len(self.values) > _PIECE:
            stage("writing labels")
        for start in track(range(0, len(self.values), _PIECE)):
            keys, values = self.keys[start : start + _PIECE], self.values[start : start + _PIECE]
            lines = map(add, map(write_key, keys), map(endings.__getitem__, values.tolist()))
            yield "".join(lines).encode("utf-8")

    def to_csv(self) -> bytes:
        """The file."""
        return b"".join(self.pieces())


def read_labels(votes: VoteSet, labels: Labels, data: bytes) -> Labels:
    """The labels that a file of these public rows holds, under the recipe of `labels`."""
    # The file guards names that begin like formulas: read back, a class is known by its guarded name.
    position = {name: k for k, (name,) in enumerate(_cells(csv_text({"label": votes.classes})))}
    values = [position.get(row[1], -1) for row in _cells(data.decode("utf-8"))]
    if len(values) != len(votes.keys):
        raise Refusal(
            f"the labels booked under this name are {len(values)} and not {len(votes.keys)}: take another name"
        )
    return replace(
        labels, release=Release({"labels": np.array(values, dtype=labels.stored.dtype)}, labels.release.recipe)
    )


def _cells(text: str) -> list[list[str]]:
    """The rows of a file below its header."""
    return list(csv.reader(io.StringIO(text, newline="")))[1:]
