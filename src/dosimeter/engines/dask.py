"""The engine of a Dask cluster: one task for each leaf of a table, a fixed tree of sums, no shuffle.

Rows are read by the workers and stay there; sums travel. The order of additions is that of the table's parts whatever
the workers are, so the same workers' software gives the same bits, and a task that is computed again after a worker's
death changes nothing.
"""

from __future__ import annotations

import uuid
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, TypeVar

from dosimeter.core.engine import NoBlocks, Terms
from dosimeter.core.progress import advance
from dosimeter.engines.checkpoint import Checkpoint, PassState
from dosimeter.engines.dask_client import ClusterLost, check_folder, check_software, collect, open_client
from dosimeter.engines.dask_tasks import add_all, groups_of, leaves_of, map_leaf, open_constants, seal, sum_leaf, unseal
from dosimeter.engines.fingerprint import fingerprint
from dosimeter.engines.registry import EngineOptions, engine

T = TypeVar("T")
ATTEMPTS = 3
"""How often a pass is begun before a lost scheduler is an error."""
WATCHED = 64
"""Nodes of the tree whose ends are counted for the progress line."""


class DaskEngine:
    """Sums and maps on the workers of a client, or in the threads of this process without one.

    A checkpoint keeps the results of finished passes: the same computation goes on after them.
    """

    rows_stay: ClassVar[bool] = True
    """Rows are not moved between workers: no shuffle."""

    def __init__(self, client: Any = None, checkpoint: Checkpoint | None = None) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self.passes = 0
        """Passes so far."""
        if client is not None:
            check_software(client)

    def sum_over(self, blocks: Iterable[Any], f: Callable[[Any], Terms]) -> Terms:
        """Entrywise sum of f(block), by a fixed tree."""
        items = list(blocks)
        total: Terms | None = self._kept("sum", f, lambda: self._sum(items, f))
        if total is None:
            raise NoBlocks
        return total

    def map_over(self, blocks: Iterable[Any], f: Callable[[Any], T]) -> list[T]:
        """f(block) for each block, in order. What f writes, it writes on the worker, perhaps more than once."""
        items = list(blocks)
        return list(self._kept("map", f, lambda: self._map(items, f)))

    def _kept(self, kind: str, f: Any, run: Callable[[], Any]) -> Any:
        """The result of a pass: of an earlier call, if the checkpoint has it."""
        self.passes += 1
        if self._checkpoint is None:
            return self._attempt(run)
        key = f"{kind}-{fingerprint(f)}"
        kept = self._checkpoint.load(key)
        if kept.complete:
            return kept.value
        value = self._attempt(run)
        self._checkpoint.save(key, PassState(0, True, value))
        return value

    def _attempt(self, run: Callable[[], Any]) -> Any:
        """Begin the pass again if the scheduler was lost and came back: nothing of it was kept anywhere else."""
        for _ in range(ATTEMPTS - 1):
            try:
                return run()
            except ClusterLost:
                continue
        return run()

    def _sum(self, items: Sequence[Any], f: Callable[[Any], Terms]) -> Terms | None:
        nodes, token = self._leaves(items, f, sum_leaf)
        watched, level = nodes, 0
        while len(nodes) > 1:
            level += 1
            nodes = [
                _task(add_all, f"dosimeter-add-{token}-{level}-{k}", *group) for k, group in enumerate(groups_of(nodes))
            ]
            watched = watched if len(watched) <= WATCHED else nodes
        return unseal(self._collect(nodes, watched)[0]) if nodes else None

    def _map(self, items: Sequence[Any], f: Callable[[Any], T]) -> list[T]:
        nodes, _ = self._leaves(items, f, map_leaf)
        return [value for leaf in self._collect(nodes, nodes) for value in leaf] if nodes else []

    def _leaves(self, items: Sequence[Any], f: Any, work: Any) -> tuple[list[Any], str]:
        """A node for each leaf, and what distinguishes the keys of this pass from those of every other."""
        from dask.delayed import Delayed

        token = uuid.uuid4().hex
        shared = _shared_by(items)
        constants = _task(open_constants, f"dosimeter-constants-{token}", seal([f, *shared])[0])
        nodes = []
        for k, leaf in enumerate(leaves_of(items)):
            sealed, partitions = seal(leaf, shared, lambda each: isinstance(each, Delayed))
            nodes.append(_task(work, f"dosimeter-leaf-{token}-{k}", sealed, constants, *partitions))
        return nodes, token

    def _collect(self, nodes: list[Any], watched: Sequence[Any]) -> Sequence[Any]:
        if self._client is None:
            import dask

            values: Sequence[Any] = dask.compute(*nodes)
            advance(1.0)
            return values
        return collect(self._client, nodes, watched)


def _task(function: Any, key: str, *args: Any) -> Any:
    from dask.delayed import delayed

    return delayed(function, pure=False, traverse=False)(*args, dask_key_name=key)


def _shared_by(items: Sequence[Any]) -> list[Any]:
    """What the wrappers around parts hold besides the part, such as how rows become numbers: sent once a pass."""
    constants: dict[int, Any] = {}
    for item in items:
        part = item
        while is_dataclass(part) and hasattr(part, "part"):
            held = (getattr(part, field.name) for field in fields(part) if field.name != "part")
            constants.update({id(each): each for each in held if not isinstance(each, str | int | float | None)})
            part = part.part
    return list(constants.values())


@engine("dask")
def dask_engine(options: EngineOptions) -> DaskEngine:
    """The workers of `scheduler`, or of the client that this process has opened."""
    client = open_client(options.scheduler)
    checkpoint = None if options.checkpoint is None else Checkpoint(options.checkpoint, options.task)
    created = DaskEngine(client, checkpoint)
    if client is not None and options.scheduler is not None:
        weakref.finalize(created, client.close)
    if client is not None and options.folder is not None:
        check_folder(client, options.folder)
    return created
