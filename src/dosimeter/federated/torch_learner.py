"""A torch module as what clients train (extra `torch`). Clients are trained one after another: nothing is known about a
module's code that would allow training several at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.errors import Refusal
from dosimeter.federated.local_training import BatchedRows, LocalSGD
from dosimeter.federated.networks import Score

_ROWS = 2048
_SEEDS = 1 << 63


@dataclass(frozen=True)
class TorchLearner:
    """A torch module, trained by plain gradient descent.

    Parameters
    ----------
    make : callable
        Builds the module, which maps rows (b, p) to logits (b, classes). A function without arguments in an importable
        module, so that other processes can find it.
    classes : int
        Number of classes.

    Raises
    ------
    Refusal
        If torch is not installed, the module has buffers (as batch normalisation has) or no parameters.

    Notes
    -----
    Parameters that are not trained are not sent. Buffers are refused because what they keep of the data would escape
    the clip and the accounting. A module that draws (dropout) uses torch's own generator, so equal seeds do not give
    equal results.

    Examples
    --------
    >>> TorchLearner(make=lambda: None, classes=3).clients_per_batch
    4
    """

    make: Callable[[], Any]
    classes: int

    @cached_property
    def module(self) -> Any:
        """The module, built once in each process."""
        _torch()
        module = self.make()
        buffers = [name for name, _ in module.named_buffers()]
        if buffers:
            raise Refusal(f"the module has buffers ({', '.join(buffers)}): use layers without running statistics")
        if not self._parameters(module):
            raise Refusal("the module has no parameters to train")
        return module

    def __reduce__(self) -> tuple[Any, ...]:
        """Each process builds its own module."""
        return TorchLearner, (self.make, self.classes)

    @property
    def size(self) -> int:
        """d, the number of parameters that are trained."""
        return sum(p.numel() for p in self._parameters(self.module))

    @property
    def clients_per_batch(self) -> int:
        """Clients whose updates make one message."""
        return 4

    def check(self, columns: int, classes: int) -> None:
        """Refuse a table that the module does not accept."""
        torch = _torch()
        if classes == 0:
            raise Refusal("a torch module is trained on classes here, and these labels are numbers: use a Network")
        if classes > self.classes:
            raise Refusal(f"labels go up to {classes - 1}, but the module has classes={self.classes}")
        try:
            with torch.no_grad():
                shape = tuple(self.module(torch.zeros(2, columns)).shape)
        except RuntimeError as why:
            raise Refusal(f"the module does not accept rows of {columns} columns: {why}") from why
        if shape != (2, self.classes):
            raise Refusal(f"the module returns shape {shape} for two rows, not (2, {self.classes})")

    def start(self, rng: np.random.Generator) -> FloatArray:
        """(d,) parameters of a new module, with torch's generator seeded from `rng` and restored afterwards."""
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(_SEEDS)))
            return np.asarray(self._flat(self.make()), dtype=np.float64)

    def updates(self, model: Any, stack: BatchedRows, local: LocalSGD, rate: float) -> Any:
        """(c, d) float32: change of `model`, (d,), by each client's training."""
        changes = np.empty((len(stack.X), self.size), dtype=np.float32)
        start = np.asarray(model, dtype=np.float32)
        self.module.train()
        for k in range(len(stack.X)):
            self._load(start)
            self._descend(BatchedRows(*(part[k] for part in stack)), local.epochs, rate)
            np.subtract(self._flat(self.module), start, out=changes[k])
        return changes

    def score(self, model: Any, X: Any, y: Any) -> Score:
        """Accuracy and loss of `model`, (d,), on X (n, p) with labels y (n,)."""
        torch = _torch()
        self._load(np.asarray(model, dtype=np.float32))
        self.module.eval()
        right, loss = 0, 0.0
        with torch.no_grad():
            for first in range(0, len(X), _ROWS):
                logits = self.module(torch.tensor(X[first : first + _ROWS])).double()
                labels = torch.tensor(y[first : first + _ROWS])
                right += int((logits.argmax(1) == labels).sum())
                loss += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
        return Score(right / len(X), loss / len(X))

    def _descend(self, batches: BatchedRows, epochs: int, rate: float) -> None:
        """Train for E epochs on one client's batches: X (steps, b, p), y and weight (steps, b)."""
        torch = _torch()
        X, y, weight = torch.from_numpy(batches.X), torch.from_numpy(batches.y), torch.from_numpy(batches.weight)
        optimiser = torch.optim.SGD(self._parameters(self.module), lr=rate)
        for _ in range(epochs):
            for j in range(len(X)):
                optimiser.zero_grad()
                losses = torch.nn.functional.cross_entropy(self.module(X[j]), y[j], reduction="none")
                (losses * weight[j]).sum().backward()
                optimiser.step()

    def _load(self, flat: Any) -> None:
        torch, offset = _torch(), 0
        with torch.no_grad():
            for p in self._parameters(self.module):
                p.copy_(torch.tensor(flat[offset : (offset := offset + p.numel())]).view_as(p))

    def _flat(self, module: Any) -> Any:
        return np.concatenate([p.detach().numpy().ravel() for p in self._parameters(module)])

    @staticmethod
    def _parameters(module: Any) -> list[Any]:
        return [p for p in module.parameters() if p.requires_grad]


def _torch() -> Any:
    try:
        import torch
    except ImportError as why:
        raise Refusal("torch is not installed: pip install 'dosimeter[torch]', or use Network") from why
    return torch
