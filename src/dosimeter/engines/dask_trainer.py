"""Clients of a simulated federated training on the workers of a Dask cluster: the same batches, so the same bits.

The rows of all clients go to every worker once, from this process directly; each round sends the model and gets the
updates of the sampled clients back. An update is as large as the model: a round carries clients x parameters x 4 bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from dosimeter.core.arrays import Index
from dosimeter.core.errors import Refusal
from dosimeter.core.face import option
from dosimeter.core.text import safe_text
from dosimeter.engines.dask_client import check_software, open_client
from dosimeter.federated.client_messages import UpdateBatch
from dosimeter.federated.networks import Score
from dosimeter.federated.task import Task
from dosimeter.federated.worker_pool import Trainer, batches

ATTEMPTS = 3
"""How often a batch is sent before lost workers are an error."""
AHEAD = 2
"""Batches on their way for each worker."""


def dask_trainer(scheduler: str | None = None) -> Callable[[Task, int, int], AbstractContextManager[Trainer]]:
    """What `federated.simulate` takes as `trainer`: the workers of this scheduler, or of the client that is open.

    Parameters
    ----------
    scheduler : str, optional
        `tls://HOST:PORT`. Default: the `distributed.Client` of this process.

    Returns
    -------
    callable
        Opens a trainer for a task, a seed and a number of clients in a batch.

    Examples
    --------
    >>> callable(dask_trainer("tls://scheduler.example:8786"))
    True
    """

    @contextmanager
    def opened(task: Task, seed: int, clients_per_batch: int) -> Iterator[Trainer]:
        client = open_client(scheduler)
        if client is None:
            raise Refusal(f"no cluster: open a distributed.Client, or pass {option('scheduler')}")
        try:
            check_software(client)
            trainer = DaskTrainer(client, task, seed, clients_per_batch)
            try:
                yield trainer
            finally:
                trainer.close()
        finally:
            if scheduler is not None:
                client.close()

    return opened


class DaskTrainer:
    """Trains on the workers. Batches are returned in the order in which a process by itself would train them."""

    def __init__(self, client: Any, task: Task, seed: int, clients_per_batch: int) -> None:
        self._client, self.task, self._seed, self._clients_per_batch = client, task, seed, clients_per_batch
        self._rows = self._send((task, seed))

    def updates(self, model: Any, sampled: Index, t: int) -> Iterator[UpdateBatch]:
        """The updates of round t, batch by batch."""
        weights = np.array(model)
        waiting = deque(batches(self.task, sampled, self._clients_per_batch))
        running: deque[tuple[Index, Any]] = deque()
        sent = self._send(weights)
        ahead = AHEAD * max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))
        while waiting or running:
            while waiting and len(running) < ahead:
                clients = waiting.popleft()
                running.append((clients, self._submit(sent, clients, t)))
            clients, future = running.popleft()
            yield UpdateBatch(clients, self._result(future, weights, clients, t))

    def score(self, model: Any) -> Score:
        """Of the model on the test rows, in this process."""
        return self.task.score(model)

    def close(self) -> None:
        """Let the workers forget the rows."""
        self._rows.release()

    def _send(self, value: Any) -> Any:
        """A copy on every worker, from this process and not through the scheduler."""
        return self._client.scatter([value], broadcast=True, direct=True, hash=False)[0]

    def _submit(self, model: Any, clients: Index, t: int) -> Any:
        return self._client.submit(train_batch, self._rows, model, clients, t, pure=False)

    def _result(self, future: Any, weights: Any, clients: Index, t: int) -> Any:
        """The updates of a batch; rows and batch are sent again if all workers that had them are gone."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        for attempt in range(ATTEMPTS):
            try:
                return self._client.gather(future, direct=True)
            except KilledWorker:
                raise Refusal(
                    "workers died again and again at the same clients, most likely for want of memory: give them more, "
                    "and resume from the saved state"
                ) from None
            except (FutureCancelledError, CommClosedError, TimeoutError, OSError) as error:
                if attempt == ATTEMPTS - 1 or self._client.status != "running":
                    why = safe_text(error, 100)
                    raise Refusal(f"the cluster was lost ({why}): start it, and resume from the saved state") from None
                self._rows = self._send((self.task, self._seed))
                future = self._submit(self._send(weights), clients, t)
        raise Refusal("the cluster was lost")


def train_batch(rows: tuple[Task, int], model: Any, clients: Index, t: int) -> Any:
    """(clients, parameters) the updates of one batch, on a worker."""
    task, seed = rows
    return np.array(task.updates(model, clients, seed=seed, t=t))
