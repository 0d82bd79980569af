"""Who teaches whom: every person's rows go to one teacher, by a keyed hash of the person and never by the data.

The guarantee of PATE is about one teacher's vote. It is about one person only where that person's rows are in one part,
so the parts are disjoint by person, and that is checked wherever a part array comes from. It is about whether a person
is there at all only where nobody else's part depends on it, so each person's own id decides alone.
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
"""Public: the figures hold for somebody who knows the partition."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The teacher of each row; no person is with two teachers.

    >>> Partition.of(["ann", "bob", "ann", "eve"], 2).teacher_of
    {'ann': 0, 'bob': 0, 'eve': 1}
    >>> Partition.given([0, 0, 1, 1], persons=["ann", "ann", "bob", "eve"])
    <Partition of 4 rows, 3 persons into 2 parts of 2 to 2 rows>
    """

    parts: Index
    """(n,) from 0 to n_parts - 1."""
    persons: tuple[Hashable, ...]
    """(n,) whose row it is. Private: never part of a digest that leaves, a repr or a message."""
    n_parts: int = 0
    """How many teachers; 0 to count them, and then none may be without rows."""

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
        """Persons (n,) dealt to n_parts teachers by a keyed hash of each person's own id.

        Adding or removing a person changes one part, and putting another person in the place of one changes two, at
        the price of uneven parts, of which one may even be empty. even=True makes parts that differ by at most one
        person; then who else is in the table decides the part of a person, one id can move a third of the rows, and
        no figure covers who is in the table.
        """
        ids = as_persons(persons)
        everyone = list(dict.fromkeys(ids))
        n_parts = _checked_parts(n_parts, len(everyone))
        mark = {person: _mark(person, salt) for person in everyone}
        if even:
            order = sorted(everyone, key=lambda person: mark[person])
            place = {person: k % n_parts for k, person in enumerate(order)}
        else:
            place = {person: int.from_bytes(mark[person], "big") % n_parts for person in everyone}
        return cls(np.array([place[person] for person in ids], dtype=np.intp), ids, n_parts)

    @classmethod
    def given(
        cls, parts: ArrayLike, persons: ArrayLike | Sequence[Hashable] | None = None, n_parts: int = 0
    ) -> Partition:
        """Parts (n,) from elsewhere, 0 to n_parts - 1, checked; without persons every row is a person.

        n_parts: how many there are, where some may be without rows; without it none may be.
        """
        array = np.asarray(parts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise Refusal(f"parts of dtype {array.dtype} and shape {array.shape}: give one whole number a row")
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
        said = f"{self.parts.size} rows, {people} persons into {self.n_parts} parts"
        return f"<Partition of {said} of {sizes.min()} to {sizes.max()} rows>"


def as_persons(persons: ArrayLike | Sequence[Hashable]) -> tuple[Hashable, ...]:
    """(n,) ids that are there and can be told apart."""
    given: Any = persons
    # numpy's own scalars print otherwise than Python's, and the hash is of what is printed.
    ids = tuple(p.item() if isinstance(p, np.generic) else p for p in given)
    for row, person in enumerate(ids):
        if person is None or person != person:
            raise Refusal(f"row {row} (from 0) has no person: give every row one")
        if not isinstance(person, Hashable):
            raise Refusal(f"row {row} (from 0): a {type(person).__name__} names no person: give numbers or text")
    return ids


def digest_of(*arrays: Any) -> str:
    """32 hexadecimal digits that change with a value, a shape or a dtype. Unkeyed: a digest of data is internal."""
    told = hashlib.blake2b(digest_size=16)
    for one in arrays:
        array: NDArray[Any] = np.asarray(one)
        told.update(f"{array.dtype.str}{array.shape};".encode())
        told.update(repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes())
    return told.hexdigest()


def _mark(person: Hashable, salt: str) -> bytes:
    key = hashlib.blake2b(salt.encode()).digest()  # a key is 64 bytes at most, a salt any text
    return hashlib.blake2b(repr(person).encode(), key=key, digest_size=16).digest()


def _checked_parts(n_parts: Any, people: int) -> int:
    if isinstance(n_parts, bool) or not isinstance(n_parts, int | np.integer) or n_parts < 2:
        raise Refusal(f"{n_parts!r} teachers: give a whole number, 2 or more")
    if n_parts > people:
        raise Refusal(f"{n_parts} teachers for {people} persons: a person has one teacher, so take at most {people}")
    return int(n_parts)


def _check(parts: Index, persons: tuple[Hashable, ...], n_parts: int) -> None:
    if parts.shape != (len(persons),) or not len(persons):
        raise Refusal(f"parts of shape {parts.shape} for {len(persons)} rows: give one part a row")
    if parts.min() < 0:
        raise Refusal(f"part {parts.min()}: number the parts from 0")
    if n_parts and parts.max() >= n_parts:
        raise Refusal(f"part {parts.max()} of {n_parts}: number the parts from 0 to {n_parts - 1}")
    sizes = np.bincount(parts, minlength=n_parts)
    if not n_parts and not sizes.all():
        raise Refusal(f"part {int(np.argmin(sizes))} has no rows: number the parts from 0 without gaps, or take fewer")
    if len(sizes) < 2:
        raise Refusal("one part only: a vote needs two teachers or more")
    first: dict[Hashable, int] = {}
    for row, (person, part) in enumerate(zip(persons, parts.tolist(), strict=True)):
        if first.setdefault(person, part) != part:
            # The row is named and the person is not: an error message is not a place for an id.
            raise Refusal(
                f"the person of row {row} (from 0) is in parts {first[person]} and {part}: a person in two parts has "
                "two votes, and no figure here covers that; keep all rows of a person in one part"
            )
