"""Trainers of the clients of a simulated round: this process, or several that share one copy of the data.

Processes are spawned, which works on every system; the tables are in shared memory, so a call carries only client
numbers. Each process has one BLAS thread: two processes train twice as many clients, whereas two threads on one small
product mostly wait for each other.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple, Protocol

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.closed_pipes import closed_pipes_are_errors
from dosimeter.core.errors import Refusal
from dosimeter.federated.client_messages import UpdateBatch
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Learner, Score
from dosimeter.federated.task import Task

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Trainer(Protocol):
    """Trains the sampled clients and scores the model."""

    def updates(self, model: Any, sampled: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t, batch by batch; a batch is valid until the next is requested."""

    def score(self, model: Any) -> Score:
        """Of the model on the test rows."""


TrainerFactory = Callable[[Task, int, int], AbstractContextManager[Trainer]]
"""Opens a trainer for a task, the seed of the shuffles, and a number of clients in a batch."""


@contextmanager
def open_trainer(task: Task, seed: int, clients_per_batch: int, processes: int) -> Iterator[Trainer]:
    """A trainer in this process, or in this many others."""
    if processes == 1:
        yield InProcessTrainer(task, seed, clients_per_batch)
        return
    with closed_pipes_are_errors():
        pool_trainer = ProcessPoolTrainer(task, seed, clients_per_batch, processes)
        try:
            pool_trainer.start()
            yield pool_trainer
        except BrokenProcessPool as why:
            raise Refusal(
                "a process that trained clients ended (killed, or out of memory), so its round is not finished: resume "
                "from the saved state, with fewer processes if memory was short"
            ) from why
        finally:
            pool_trainer.close()


@dataclass(frozen=True)
class InProcessTrainer:
    """Trains in this process."""

    task: Task
    seed: int
    clients_per_batch: int

    def updates(self, model: Any, sampled: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t, batch by batch."""
        for clients in batches(self.task, sampled, self.clients_per_batch):
            yield UpdateBatch(clients, self.task.updates(model, clients, seed=self.seed, t=t))

    def score(self, model: Any) -> Score:
        """Of the model on the test rows."""
        return self.task.score(model)


def batches(task: Task, sampled: Index, clients_per_batch: int) -> list[Index]:
    """The sampled clients that have rows, in batches; clients with similar numbers of rows together, to pad little.

    There is an even number of batches of nearly equal size: two processes would wait for the last of seven. The number
    of processes has no influence, because rounding depends on which clients are together. What remains is the rounding
    of the BLAS, which differs between processors and with the place of an array in memory.
    """
    sampled = sampled[sampled < len(task.clients)]
    rows = np.array([len(task.clients[k]) for k in sampled], dtype=np.intp)
    order = sampled[np.argsort(rows, kind="stable")]
    parts = -(-len(order) // clients_per_batch)
    parts = parts if parts < 2 else min(parts + parts % 2, len(order))
    return np.array_split(order, parts) if parts else []


class SharedArray(NamedTuple):
    """An array in shared memory."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass
class SharedMemoryArena:
    """Blocks of shared memory, and the arrays in them."""

    blocks: list[SharedMemory] = field(default_factory=list)
    unlinked: bool = False

    def share(self, array: Any) -> tuple[SharedArray, Any]:
        """A copy of the array that other processes can read."""
        block = SharedMemory(create=True, size=max(1, array.nbytes))
        self.blocks.append(block)
        shared = SharedArray(block.name, array.shape, array.dtype.str)
        view: Any = np.ndarray(shared.shape, shared.dtype, block.buf)
        view[...] = array
        return shared, view

    def attach(self, shared: SharedArray) -> Any:
        """The array that another process shared."""
        block = SharedMemory(shared.name)
        self.blocks.append(block)
        return np.ndarray(shared.shape, shared.dtype, block.buf)

    def unlink(self) -> None:
        """Remove the names: no other process can attach, and nothing stays behind if a process is killed."""
        if not self.unlinked:
            for block in self.blocks:
                block.unlink()
        self.unlinked = True

    def close(self) -> None:
        """Release the memory."""
        self.unlink()
        for block in self.blocks:
            block.close()


class _RoundInFlight(NamedTuple):
    """A round that is being trained."""

    t: int
    waiting: deque[Index]
    """Batches not yet submitted."""
    free: deque[int]
    """Free slots of the buffer."""
    running: deque[tuple[int, Index, Future[None]]]
    """Slot, clients and future of each submitted batch, in the order in which batches are returned."""


class ProcessPoolTrainer:
    """Trains in processes of one thread each. Batches are returned in the order in which they were submitted."""

    def __init__(self, task: Task, seed: int, clients_per_batch: int, processes: int):
        self.task, self.clients_per_batch, self.processes = task, clients_per_batch, processes
        self._arena = SharedMemoryArena()
        d, slots = task.learner.size, 2 * processes
        ends = np.cumsum([len(rows) for rows in task.clients])
        tables = [task.X, task.y, task.X_test, task.y_test, np.concatenate(task.clients), ends]
        shared_tables = [self._arena.share(table)[0] for table in tables]
        shared_model, self._model = self._arena.share(np.zeros(d))
        shared_buffer, self._buffer = self._arena.share(np.zeros((slots, clients_per_batch, d), dtype=np.float32))
        context = get_context("spawn")
        self._started = context.Semaphore(0)
        worker_arguments = (
            task.learner,
            task.local,
            seed,
            (*shared_tables, shared_model, shared_buffer),
            self._started,
        )
        self._pool = ProcessPoolExecutor(processes, context, _start_worker, worker_arguments)

    def start(self) -> None:
        """Start the processes: the first calls start them, while the environment limits them to one thread."""
        with _one_thread():
            try:
                for future in [self._pool.submit(_ready) for _ in range(self.processes)]:
                    future.result()
                for _ in range(self.processes):
                    while not self._started.acquire(timeout=1.0):
                        self._pool.submit(_ready).result()  # raises if a process did not start
            except BrokenProcessPool as why:
                raise Refusal(
                    "a process did not start (its error is above): a script with processes= must keep its code under "
                    "if __name__ == '__main__', and what it trains must be importable"
                ) from why
        self._arena.unlink()

    def updates(self, model: Any, sampled: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t. Training starts with this call, before the first batch is requested."""
        self._model[...] = model
        job = _RoundInFlight(
            t, deque(batches(self.task, sampled, self.clients_per_batch)), deque(range(len(self._buffer))), deque()
        )
        self._submit(job)
        return self._collect(job)

    def _submit(self, job: _RoundInFlight) -> None:
        while job.waiting and job.free:
            slot, clients = job.free.popleft(), job.waiting.popleft()
            job.running.append((slot, clients, self._pool.submit(_train, slot, clients, job.t)))

    def _collect(self, job: _RoundInFlight) -> Iterator[UpdateBatch]:
        """A slot of the buffer is reused only after its batch was read."""
        try:
            while job.running:
                slot, clients, future = job.running.popleft()
                future.result()
                yield UpdateBatch(clients, self._buffer[slot, : len(clients)])
                job.free.append(slot)
                self._submit(job)
        finally:
            wait([future for _, _, future in job.running])

    def score(self, model: Any) -> Score:
        """Accuracy and loss on the test rows, split among the processes."""
        if self.task.y.dtype.kind == "f":  # R² of parts is not R² of the whole
            return self.task.score(model)
        self._model[...] = model
        ends = np.linspace(0, len(self.task.X_test), self.processes + 1).astype(int)
        parts = [(int(a), int(b)) for a, b in pairwise(ends) if a < b]
        scores = [future.result() for future in [self._pool.submit(_score, *part) for part in parts]]
        share = np.array([b - a for a, b in parts]) / len(self.task.X_test)
        return Score(float(share @ [s.accuracy for s in scores]), float(share @ [s.loss for s in scores]))

    def close(self) -> None:
        """End the processes and release the memory."""
        self._pool.shutdown()
        del self._model, self._buffer
        self._arena.close()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started within this context have one BLAS thread each."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _WorkerState(NamedTuple):
    """What a worker process holds."""

    task: Task
    seed: int
    model: Any
    buffer: Any
    arena: SharedMemoryArena


_worker_states: list[_WorkerState] = []
"""In a worker process, its only state."""


def _start_worker(
    learner: Learner, local: LocalSGD, seed: int, shared_arrays: tuple[SharedArray, ...], started: Any
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles it and ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    arena = SharedMemoryArena()
    X, y, X_test, y_test, rows, ends, model, buffer = (arena.attach(shared) for shared in shared_arrays)
    clients = tuple(np.split(rows, ends[:-1]))
    _worker_states.append(_WorkerState(Task(learner, local, X, y, clients, X_test, y_test), seed, model, buffer, arena))
    started.release()


def _end_with_parent() -> None:
    """Exit with the parent: otherwise this process would wait for ever, with the rows of all clients in its memory."""
    parent = parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _ready() -> None:
    """Does nothing: a process that answers has started."""


def _train(slot: int, clients: Index, t: int) -> None:
    worker = _worker_states[0]
    worker.buffer[slot, : len(clients)] = worker.task.updates(worker.model, clients, seed=worker.seed, t=t)


def _score(begin: int, end: int) -> Score:
    task = _worker_states[0].task
    return task.learner.score(_worker_states[0].model, task.X_test[begin:end], task.y_test[begin:end])
