"""The partition of people among teachers: by a keyed hash of the person, never by the data.

The guarantee of PATE is about one teacher's vote. It protects one person only if all their rows are in one part, so
parts are disjoint by person, and every part array is checked. It protects a person's presence only if nobody else's
part depends on it, so each person's id alone decides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal

SALT = "dosimeter"
"""Public: the figures hold against an adversary who knows the partition."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The teacher of each row; no person has two teachers.

    Examples
    --------
    >>> Partition.of(["ann", "bob", "ann", "eve"], 2).teacher_of
    {'ann': 0, 'bob': 0, 'eve': 1}
    >>> Partition.from_parts([0, 0, 1, 1], persons=["ann", "ann", "bob", "eve"])
    <Partition of 4 rows, 3 persons into 2 parts of 2 to 2 rows>
    """

    parts: Index
    """(n,) from 0 to n_parts - 1."""
    persons: tuple[Hashable, ...]
    """(n,) whose row it is. Private: never part of a published digest, a repr or a message."""
    n_parts: int = 0
    """Number of teachers; 0 to count them, and then none may be without rows."""

    def __post_init__(self) -> None:
        parts = np.array(self.parts, dtype=np.intp)
        _check(parts, self.persons, self.n_parts)
        parts.setflags(write=False)
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "n_parts", self.n_parts or int(parts.max()) + 1)

    @classmethod
    def of(
        cls, persons: ArrayLike | Sequence[Hashable], n_parts: int, *, salt: str = SALT, even: bool = False
    ) -> Partition:
        """Assign people to teachers by a keyed hash of each person's id.

        Parameters
        ----------
        persons : sequence of hashable of length n
            The person of each row.
        n_parts : int
            Number of teachers, 2 or more.
        salt : str
            Public key of the hash.
        even : bool, default False
            Parts that differ by at most one person. Then the other people in the table decide a person's part, one id
            can move a third of the rows, and no figure covers who is in the table. By default adding or removing a
            person changes one part, and replacing a person changes two; parts are then uneven, and one may be empty.

        Returns
        -------
        Partition

        Raises
        ------
        Refusal
            If a row has no person, or there are fewer people than parts.
        """
        ids = as_persons(persons)
        people = list(dict.fromkeys(ids))
        n_parts = _check_n_parts(n_parts, len(people))
        hash_of = {person: _keyed_hash(person, salt) for person in people}
        if even:
            order = sorted(people, key=lambda person: hash_of[person])
            part_of = {person: k % n_parts for k, person in enumerate(order)}
        else:
            part_of = {person: int.from_bytes(hash_of[person], "big") % n_parts for person in people}
        return cls(np.array([part_of[person] for person in ids], dtype=np.intp), ids, n_parts)

    @classmethod
    def from_parts(
        cls, parts: ArrayLike, persons: ArrayLike | Sequence[Hashable] | None = None, n_parts: int = 0
    ) -> Partition:
        """A partition from given parts, checked.

        Parameters
        ----------
        parts : array_like of int, shape (n,)
            The part of each row, 0 to n_parts - 1.
        persons : sequence of hashable of length n, optional
            The person of each row; default: every row is a person.
        n_parts : int, default 0
            Number of parts, if some may be without rows; 0 counts them, and none may be.

        Returns
        -------
        Partition

        Raises
        ------
        Refusal
            If a person is in two parts, or a part number is out of range.
        """
        array = np.asarray(parts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise Refusal(f"parts of dtype {array.dtype} and shape {array.shape}: give one whole number per row")
        return cls(array, as_persons(np.arange(array.size) if persons is None else persons), n_parts)

    @property
    def digest(self) -> str:
        """Of the parts, row by row, and their number; persons are not in it."""
        return digest_of(self.parts, self.n_parts)

    def rows(self, part: int) -> Index:
        """The rows of one teacher."""
        return np.flatnonzero(self.parts == part)

    @property
    def teacher_of(self) -> dict[Hashable, int]:
        """Person -> teacher, in the order of the table. Internal."""
        return dict(zip(self.persons, self.parts.tolist(), strict=True))

    def __repr__(self) -> str:
        sizes, people = np.bincount(self.parts, minlength=self.n_parts), len(set(self.persons))
        rows = f"{self.parts.size} rows, {people} persons into {self.n_parts} parts"
        return f"<Partition of {rows} of {sizes.min()} to {sizes.max()} rows>"


def as_persons(persons: ArrayLike | Sequence[Hashable]) -> tuple[Hashable, ...]:
    """(n,) ids, none missing, all hashable."""
    values: Any = persons
    # numpy scalars print differently from Python's, and the hash uses the printed text.
    ids = tuple(p.item() if isinstance(p, np.generic) else p for p in values)
    for row, person in enumerate(ids):
        if person is None or person != person:
            raise Refusal(f"row {row} (from 0) has no person: give every row a person")
        if not isinstance(person, Hashable):
            raise Refusal(f"row {row} (from 0): a {type(person).__name__} cannot name a person: use numbers or text")
    return ids


def digest_of(*arrays: Any) -> str:
    """32 hexadecimal digits that change with a value, a shape or a dtype. Unkeyed: a digest of data is internal."""
    digest = hashlib.blake2b(digest_size=16)
    for value in arrays:
        array: NDArray[Any] = np.asarray(value)
        digest.update(f"{array.dtype.str}{array.shape};".encode())
        digest.update(repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _keyed_hash(person: Hashable, salt: str) -> bytes:
    key = hashlib.blake2b(salt.encode()).digest()  # a key has at most 64 bytes, a salt is any text
    return hashlib.blake2b(repr(person).encode(), key=key, digest_size=16).digest()


def _check_n_parts(n_parts: Any, people: int) -> int:
    if isinstance(n_parts, bool) or not isinstance(n_parts, int | np.integer) or n_parts < 2:
        raise Refusal(f"{n_parts!r} teachers: use a whole number, 2 or more")
    if n_parts > people:
        raise Refusal(f"{n_parts} teachers for {people} persons: each person has one teacher, so use at most {people}")
    return int(n_parts)


def _check(parts: Index, persons: tuple[Hashable, ...], n_parts: int) -> None:
    if parts.shape != (len(persons),) or not len(persons):
        raise Refusal(f"parts of shape {parts.shape} for {len(persons)} rows: give one part per row")
    if parts.min() < 0:
        raise Refusal(f"part {parts.min()}: number the parts from 0")
    if n_parts and parts.max() >= n_parts:
        raise Refusal(f"part {parts.max()} of {n_parts}: number the parts from 0 to {n_parts - 1}")
    sizes = np.bincount(parts, minlength=n_parts)
    if not n_parts and not sizes.all():
        raise Refusal(f"part {int(np.argmin(sizes))} has no rows: number the parts from 0 without gaps, or use fewer")
    if len(sizes) < 2:
        raise Refusal("only one part: a vote needs two teachers or more")
    first: dict[Hashable, int] = {}
    for row, (person, part) in enumerate(zip(persons, parts.tolist(), strict=True)):
        if first.setdefault(person, part) != part:
            # Name the row and not the person: a message must not contain an id.
            raise Refusal(
                f"the person of row {row} (from 0) is in parts {first[person]} and {part}: a person in two parts has "
                "two votes, which no figure here covers; keep all rows of a person in one part"
            )
