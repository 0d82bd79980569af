"""The released labels: a .csv with the name of each public row and its label, nothing else."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dosimeter.core.errors import Refusal
from dosimeter.core.release import Release
from dosimeter.files.csv_export import csv_text

if TYPE_CHECKING:
    from dosimeter.models.vote_set import VoteSet
    from dosimeter.pate.label import Labels


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Public rows with their labels, and a student that learnt from them."""

    key_name: str
    """What a key is: "row" counts from 1, "query" from 0, "key" is a name."""
    keys: tuple[Any, ...]
    labels: tuple[str, ...]
    """The class of each row; "" if the noisy threshold refused it."""
    student: Any = None
    """A scikit-learn Pipeline over the public columns; None if none was requested or none could be fitted."""
    no_student: str = ""
    """Why a requested student could not be fitted."""

    @classmethod
    def of(cls, votes: VoteSet, labels: Labels, student: Any = None, no_student: str = "") -> LabelledRows:
        """The classes by name."""
        names = tuple("" if value < 0 else votes.classes[value] for value in labels.values.tolist())
        return cls(votes.key_name, votes.keys, names, student, no_student)

    def to_csv(self) -> bytes:
        """The file."""
        return csv_text({self.key_name: self.keys, "label": self.labels}).encode("utf-8")


def read_labels(votes: VoteSet, labels: Labels, data: bytes) -> Labels:
    """The labels that a file of these public rows holds, under the recipe of `labels`."""
    # The file guards names that begin like formulas: read back, a class is known by its guarded name.
    position = {name: k for k, (name,) in enumerate(_cells(csv_text({"label": votes.classes})))}
    values = [position.get(row[1], -1) for row in _cells(data.decode("utf-8"))]
    if len(values) != len(votes.keys):
        raise Refusal(
            f"the labels booked under this name are {len(values)} and not {len(votes.keys)}: take another name"
        )
    return replace(labels, release=Release({"labels": np.array(values, dtype=np.float64)}, labels.release.recipe))


def _cells(text: str) -> list[list[str]]:
    """The rows of a file below its header."""
    return list(csv.reader(io.StringIO(text, newline="")))[1:]
