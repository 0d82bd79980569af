"""One's own torch module as what clients train (extra `torch`). Clients take turns: a module is anybody's code, and
nothing is known about it that would let several be trained in one stack."""

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
    """A module that `make()` builds, from rows (b, p) to logits (b, classes), trained by plain gradient descent.

    make: a function without arguments in an importable module, so that other processes can find it. Parameters that
    are not trained do not travel. Modules with buffers, as batch normalisation has, are refused: what they keep of the
    data would be outside of the clip and of the accounting. A module that draws (dropout) takes torch's own generator,
    so that equal seeds do not give equal results.
    """

    make: Callable[[], Any]
    classes: int

    @cached_property
    def module(self) -> Any:
        """The module, built once in each process."""
        _torch()
        module = self.make()
        kept = [name for name, _ in module.named_buffers()]
        if kept:
            raise Refusal(f"the module keeps {', '.join(kept)} beside its parameters: use layers without running means")
        if not self._parameters(module):
            raise Refusal("the module has no parameters to train")
        return module

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process builds its own module."""
        return TorchLearner, (self.make, self.classes)

    @property
    def size(self) -> int:
        """d, the number of parameters that are trained."""
        return sum(p.numel() for p in self._parameters(self.module))

    @property
    def together(self) -> int:
        """Clients take turns; so many make one message."""
        return 4

    def check(self, columns: int, classes: int) -> None:
        """Refuse a table that the module does not take."""
        torch = _torch()
        if classes > self.classes:
            raise Refusal(f"labels go up to {classes - 1}, the module is said to tell {self.classes} classes apart")
        try:
            with torch.no_grad():
                shape = tuple(self.module(torch.zeros(2, columns)).shape)
        except RuntimeError as why:
            raise Refusal(f"the module does not take rows of {columns} columns: {why}") from why
        if shape != (2, self.classes):
            raise Refusal(f"the module answers two rows with shape {shape}, not (2, {self.classes})")

    def start(self, rng: np.random.Generator) -> FloatArray:
        """(d,) the parameters of a module built anew, with torch's generator seeded from `rng` and put back after."""
        torch = _torch()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(_SEEDS)))
            return np.asarray(self._flat(self.make()), dtype=np.float64)

    def updates(self, model: Any, stack: BatchedRows, local: LocalSGD, rate: float) -> Any:
        """(c, d) float32: what each client's training from `model`, (d,), adds to it."""
        found = np.empty((len(stack.X), self.size), dtype=np.float32)
        start = np.asarray(model, dtype=np.float32)
        self.module.train()
        for k in range(len(stack.X)):
            self._load(start)
            self._descend(BatchedRows(*(part[k] for part in stack)), local.epochs, rate)
            np.subtract(self._flat(self.module), start, out=found[k])
        return found

    def score(self, model: Any, X: Any, y: Any) -> Score:
        """Of `model`, (d,), on X (n, p) with labels y (n,)."""
        torch = _torch()
        self._load(np.asarray(model, dtype=np.float32))
        self.module.eval()
        right, loss = 0, 0.0
        with torch.no_grad():
            for at in range(0, len(X), _ROWS):
                logits = self.module(torch.tensor(X[at : at + _ROWS])).double()
                labels = torch.tensor(y[at : at + _ROWS])
                right += int((logits.argmax(1) == labels).sum())
                loss += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
        return Score(right / len(X), loss / len(X))

    def _descend(self, own: BatchedRows, epochs: int, rate: float) -> None:
        """E passes over one client's batches: X (steps, b, p), y and weight (steps, b)."""
        torch = _torch()
        X, y, weight = torch.from_numpy(own.X), torch.from_numpy(own.y), torch.from_numpy(own.weight)
        optimiser = torch.optim.SGD(self._parameters(self.module), lr=rate)
        for _ in range(epochs):
            for j in range(len(X)):
                optimiser.zero_grad()
                losses = torch.nn.functional.cross_entropy(self.module(X[j]), y[j], reduction="none")
                (losses * weight[j]).sum().backward()
                optimiser.step()

    def _load(self, flat: Any) -> None:
        torch, at = _torch(), 0
        with torch.no_grad():
            for p in self._parameters(self.module):
                p.copy_(torch.tensor(flat[at : (at := at + p.numel())]).view_as(p))

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
