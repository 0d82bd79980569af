"""What runs on the workers of a cluster: sums and maps of one leaf, and the additions of the tree. No mathematics.

A leaf is a few consecutive parts of a table, pickled here and opened on a worker. Partitions of a Dask collection are
not pickled: they stand in the bytes as numbers, and the worker that holds them puts them in.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from dosimeter.core.engine import Terms, add_terms, blocks_of

FAN_IN = 16
"""Terms that one addition of the tree takes."""
MOST_LEAVES = 4096
"""A scheduler takes up to a millisecond a task: with more parts than this, a leaf has several."""


class Sealed:
    """Bytes that only a worker opens: neither Dask nor its scheduler looks into them or prints them.

    >>> Sealed(b"some rows")
    <9 bytes>
    """

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + len(self.content)  # so that Dask counts what travels

    def __repr__(self) -> str:
        return f"<{len(self.content)} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Sealed, (self.content,)


def seal(
    value: Any, shared: Sequence[Any] = (), is_partition: Callable[[Any], bool] | None = None
) -> tuple[Sealed, Any]:
    """The pickled value, and the partitions that it refers to, in the order of their numbers.

    shared: objects that are sent once for all leaves, and stand in the bytes as their numbers.
    """
    import cloudpickle  # a dependency of Dask: it also takes functions of a script

    partitions: list[Any] = []
    places = {id(each): k for k, each in enumerate(shared)}

    class Packer(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, obj: Any) -> tuple[str, int] | None:
            if id(obj) in places:
                return "shared", places[id(obj)]
            if is_partition is not None and is_partition(obj):
                partitions.append(obj)
                return "partition", len(partitions) - 1
            return None

    stream = io.BytesIO()
    Packer(stream).dump(value)
    return Sealed(stream.getvalue()), partitions


def unseal(sealed: Sealed, shared: Sequence[Any] = (), partitions: Sequence[Any] = ()) -> Any:
    """The value, with the shared objects and the partitions in their places.

    >>> names = ["age", "bmi"]
    >>> sealed, _ = seal((1, names), shared=[names])
    >>> unseal(sealed, shared=[names])[1] is names
    True
    """

    class Opener(pickle.Unpickler):
        def persistent_load(self, pid: Any) -> Any:
            kind, k = pid
            return shared[k] if kind == "shared" else partitions[k]

    return Opener(io.BytesIO(sealed.content)).load()


def open_constants(sealed: Sealed) -> list[Any]:
    """The function and the objects that all leaves of a pass share: sent once, then from worker to worker."""
    return list(unseal(sealed))


def sum_leaf(leaf: Sealed, constants: list[Any], *partitions: Any) -> Sealed:
    """The sealed sum of the function over the blocks of a leaf; of None if it has no block."""
    f, *shared = constants
    total: Terms | None = None
    for block in blocks_of(unseal(leaf, shared, partitions)):
        total = add_terms(total, f(block))
    return seal_terms(total)


def map_leaf(leaf: Sealed, constants: list[Any], *partitions: Any) -> list[Any]:
    """The function of each block of a leaf."""
    f, *shared = constants
    return [f(block) for block in blocks_of(unseal(leaf, shared, partitions))]


def seal_terms(terms: Terms | None) -> Sealed:
    """A sum on its way: as bytes it has the size that Dask counts, and takes the room that it needs."""
    return Sealed(pickle.dumps(terms, protocol=pickle.HIGHEST_PROTOCOL))


def add_all(*sums: Sealed) -> Sealed:
    """The sum of neighbours, from the left; None is the empty one.

    >>> unseal(add_all(seal_terms((1, 2.0)), seal_terms(None), seal_terms((3, 4.0))))
    (4, 6.0)
    """
    total: Terms | None = None
    for each in sums:
        terms = unseal(each)
        if terms is not None:
            total = add_terms(total, terms)
    return seal_terms(total)


def leaves_of(items: Sequence[Any], most: int = MOST_LEAVES) -> list[Sequence[Any]]:
    """Consecutive items, as evenly as possible. The table alone decides, so a sum has one order on every cluster.

    >>> leaves_of("abcdefg", most=3)
    ['ab', 'cd', 'efg']
    """
    count = min(len(items), most)
    ends = [len(items) * (k + 1) // count for k in range(count)] if count else []
    return [items[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def groups_of(nodes: Sequence[Any], size: int = FAN_IN) -> list[Sequence[Any]]:
    """Neighbours that one addition takes.

    >>> groups_of("abcde", size=2)
    ['ab', 'cd', 'e']
    """
    return [nodes[k : k + size] for k in range(0, len(nodes), size)]
