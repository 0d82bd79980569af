"""Who trains the clients of a simulated round: this process, or several that share one copy of the data.

Processes are spawned, which works on every system; the tables lie in shared memory, and a call carries numbers of
clients alone. Each process has one BLAS thread: two of them train twice as many clients, where two threads on one small
product mostly wait for each other.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait as wait_for
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple, Protocol

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal
from dosimeter.federated.client_messages import UpdateBatch
from dosimeter.federated.local_training import LocalSGD
from dosimeter.federated.networks import Learner, Score
from dosimeter.federated.task import Task

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Trainer(Protocol):
    """Trains the sampled clients and scores the model."""

    def updates(self, model: Any, asked: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t, chunk by chunk; a block is valid until the next is asked for."""

    def score(self, model: Any) -> Score:
        """Of the model on the test rows."""


@contextmanager
def crew(task: Task, seed: int, processes: int, together: int | None = None) -> Iterator[Trainer]:
    """This process alone, or so many others beside it."""
    c = together or task.learner.together
    if processes == 1:
        yield InProcessTrainer(task, seed, c)
        return
    with _closed_pipes_are_errors():
        several = ProcessPoolTrainer(task, seed, c, processes)
        try:
            several.sit_down()
            yield several
        except BrokenProcessPool as why:
            raise Refusal(
                "a process that trained clients ended (killed, or out of memory): the round it was in is not over; go "
                "on from what was kept, with fewer processes if memory was short"
            ) from why
        finally:
            several.close()


@dataclass(frozen=True)
class InProcessTrainer:
    """This process."""

    task: Task
    seed: int
    together: int

    def updates(self, model: Any, asked: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t, chunk by chunk."""
        for clients in chunks(self.task, asked, self.together):
            yield UpdateBatch(clients, self.task.updates(model, clients, seed=self.seed, t=t))

    def score(self, model: Any) -> Score:
        """Of the model on the test rows."""
        return self.task.score(model)


def chunks(task: Task, asked: Index, together: int) -> list[Index]:
    """The clients asked who have rows, in chunks; those with equally many stand together, so that little is padded.

    Chunks are even in number and nearly equal, as two processes would wait for the last of seven. How many processes
    there are plays no part: rounding depends on who stands together. What is left is the rounding of the BLAS
    itself, which differs between processors and with the place of an array in memory.
    """
    asked = asked[asked < len(task.clients)]
    rows = np.array([len(task.clients[k]) for k in asked], dtype=np.intp)
    order = asked[np.argsort(rows, kind="stable")]
    parts = -(-len(order) // together)
    parts = parts if parts < 2 else min(parts + parts % 2, len(order))
    return np.array_split(order, parts) if parts else []


class SharedArray(NamedTuple):
    """An array in shared memory."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass
class SharedMemoryArena:
    """Shared memory of one crew, and the arrays on it."""

    blocks: list[SharedMemory] = field(default_factory=list)
    hidden: bool = False

    def share(self, array: Any) -> tuple[SharedArray, Any]:
        """A copy of the array that other processes can read."""
        block = SharedMemory(create=True, size=max(1, array.nbytes))
        self.blocks.append(block)
        plot = SharedArray(block.name, array.shape, array.dtype.str)
        view: Any = np.ndarray(plot.shape, plot.dtype, block.buf)
        view[...] = array
        return plot, view

    def see(self, plot: SharedArray) -> Any:
        """The array that another process shares."""
        block = SharedMemory(plot.name)
        self.blocks.append(block)
        return np.ndarray(plot.shape, plot.dtype, block.buf)

    def hide(self) -> None:
        """Take its names away: nobody else finds it, and whatever is killed now, nothing stays behind."""
        if not self.hidden:
            for block in self.blocks:
                block.unlink()
        self.hidden = True

    def leave(self) -> None:
        """Give the memory back."""
        self.hide()
        for block in self.blocks:
            block.close()


class _RoundInFlight(NamedTuple):
    """A round under way."""

    t: int
    waiting: deque[Index]
    """Chunks that nobody has yet."""
    free: deque[int]
    """Places on the desk."""
    running: deque[tuple[int, Index, Future[None]]]
    """Place, clients and the training of them, in the order in which blocks are given."""


class ProcessPoolTrainer:
    """Processes of one thread each. Chunks come back in the order in which they were given."""

    def __init__(self, task: Task, seed: int, together: int, processes: int):
        self.task, self.together, self.processes = task, together, processes
        self._ground = SharedMemoryArena()
        d, places = task.learner.size, 2 * processes
        ends = np.cumsum([len(rows) for rows in task.clients])
        tables = [task.X, task.y, task.X_test, task.y_test, np.concatenate(task.clients), ends]
        plots = [self._ground.share(table)[0] for table in tables]
        model, self._model = self._ground.share(np.zeros(d))
        desk, self._desk = self._ground.share(np.zeros((places, together, d), dtype=np.float32))
        context = get_context("spawn")
        self._seated = context.Semaphore(0)
        start = (task.learner, task.local, seed, (*plots, model, desk), self._seated)
        self._pool = ProcessPoolExecutor(processes, context, _sit_down, start)

    def sit_down(self) -> None:
        """Start the processes: the first calls do, while the variables that hold them to one thread are set."""
        with _one_thread():
            try:
                for future in [self._pool.submit(_ready) for _ in range(self.processes)]:
                    future.result()
                for _ in range(self.processes):
                    while not self._seated.acquire(timeout=1.0):
                        self._pool.submit(_ready).result()  # tells where one did not start
            except BrokenProcessPool as why:
                raise Refusal(
                    "a process did not start (its own words are above): a script with processes= must keep its code "
                    "under if __name__ == '__main__', and what it trains must be importable"
                ) from why
        self._ground.hide()

    def updates(self, model: Any, asked: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t. The processes begin with this call, whenever the first block is asked for."""
        self._model[...] = model
        turn = _RoundInFlight(t, deque(chunks(self.task, asked, self.together)), deque(range(len(self._desk))), deque())
        self._deal(turn)
        return self._collected(turn)

    def _deal(self, turn: _RoundInFlight) -> None:
        while turn.waiting and turn.free:
            place, clients = turn.free.popleft(), turn.waiting.popleft()
            turn.running.append((place, clients, self._pool.submit(_train, place, clients, turn.t)))

    def _collected(self, turn: _RoundInFlight) -> Iterator[UpdateBatch]:
        """A place on the desk is written again only after its block was read."""
        try:
            while turn.running:
                place, clients, future = turn.running.popleft()
                future.result()
                yield UpdateBatch(clients, self._desk[place, : len(clients)])
                turn.free.append(place)
                self._deal(turn)
        finally:
            wait([future for _, _, future in turn.running])

    def score(self, model: Any) -> Score:
        """The test rows in as many parts as there are processes."""
        self._model[...] = model
        ends = np.linspace(0, len(self.task.X_test), self.processes + 1).astype(int)
        parts = [(int(a), int(b)) for a, b in pairwise(ends) if a < b]
        scores = [future.result() for future in [self._pool.submit(_score, *part) for part in parts]]
        share = np.array([b - a for a, b in parts]) / len(self.task.X_test)
        return Score(float(share @ [s.accuracy for s in scores]), float(share @ [s.loss for s in scores]))

    def close(self) -> None:
        """End the processes and give the memory back."""
        self._pool.shutdown()
        del self._model, self._desk
        self._ground.leave()


@contextmanager
def _closed_pipes_are_errors() -> Iterator[None]:
    """A process that died leaves a closed pipe behind: a program that ends at such a pipe would end without a word."""
    if not hasattr(signal, "SIGPIPE") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGPIPE, before)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started within have one BLAS thread each."""
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
    """What a process of the crew has before it."""

    task: Task
    seed: int
    model: Any
    desk: Any
    ground: SharedMemoryArena


_seats: list[_WorkerState] = []
"""In a process of the crew, its one seat."""


def _sit_down(learner: Learner, local: LocalSGD, seed: int, plots: tuple[SharedArray, ...], seated: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever stops the training tells the processes to end
    threading.Thread(target=_end_with_parent, daemon=True).start()
    ground = SharedMemoryArena()
    X, y, X_test, y_test, rows, ends, model, desk = (ground.see(plot) for plot in plots)
    clients = tuple(np.split(rows, ends[:-1]))
    _seats.append(_WorkerState(Task(learner, local, X, y, clients, X_test, y_test), seed, model, desk, ground))
    seated.release()


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for its next call for ever, with everybody's rows in its memory."""
    parent = parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def _ready() -> None:
    """Nothing: whoever answers has started."""


def _train(place: int, clients: Index, t: int) -> None:
    seat = _seats[0]
    seat.desk[place, : len(clients)] = seat.task.updates(seat.model, clients, seed=seat.seed, t=t)


def _score(begin: int, end: int) -> Score:
    task = _seats[0].task
    return task.learner.score(_seats[0].model, task.X_test[begin:end], task.y_test[begin:end])
