"""Networks trained for several clients at once: flat parameters, one (clients, in, out) stack per layer, numpy only.

One client's network is too small to keep a core busy: calls cost more than their arithmetic. Several clients therefore
take each step together, so that a step is a few array operations for all of them; few enough clients that they fit into
the cache. Arithmetic has the type of the data: float32 to train, float64 to check gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import sgemm

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import whole
from dosimeter.core.density import as_generator
from dosimeter.core.errors import Refusal
from dosimeter.federated.local_training import BatchedRows, LocalSGD

_CACHE = 1 << 20
"""Bytes of parameters of the clients in one batch: a core's second-level cache."""
_MOST_CLIENTS_PER_BATCH = 8
_FUSED = 1 << 17
"""From this many parameters on, the gradient is added inside the product that computes it (BLAS's beta = 1), because
each pass over the parameters leaves the cache. Below it, one call per client costs more than the pass it saves."""
_DENSE_SHARE = 0.9
"""If a larger share of the columns is used, all are kept: leaving some out costs a copy of the rows."""
_ROWS = 2048
"""Rows per block when scoring."""
ENDS = ("softmax", "identity")


class Score(NamedTuple):
    """Accuracy and loss of one model on labelled rows."""

    accuracy: float
    """Share of right classes; of a regression R², the explained share of the variance."""
    loss: float
    """Mean of -log p(label), nats; of a regression the mean squared error."""


class Learner(Protocol):
    """What clients train: `Network`, or a torch module in `TorchLearner`."""

    @property
    def size(self) -> int:
        """d, the number of parameters."""

    @property
    def clients_per_batch(self) -> int:
        """Clients to train at once."""

    def check(self, columns: int, classes: int) -> None:
        """Refuse a table with these numbers of columns and classes if it does not fit."""

    def start(self, rng: np.random.Generator) -> FloatArray:
        """(d,) random initial parameters."""

    def updates(self, model: Any, stack: BatchedRows, local: LocalSGD, rate: float) -> Any:
        """(c, d) what each client's training from `model`, (d,), adds to it, in the type of the data."""

    def score(self, model: Any, X: Any, y: Any) -> Score:
        """Accuracy and loss of `model`, (d,), on X (n, p) with labels y (n,)."""


class Layer(NamedTuple):
    """Views of one layer in a stack of flat parameters; without bias, b is empty."""

    W: Any
    """(c, in, out)."""
    b: Any
    """(c, 1, out) or (c, 0, out)."""


@dataclass(frozen=True)
class Network:
    """A fully connected network: ReLU between the layers, softmax at the end; two widths are softmax regression.

    Parameters
    ----------
    widths : tuple of int
        Inputs, hidden layers, outputs: at least 2 classes, or 1 number.
    bias : bool, default True
        Whether layers have biases.
    end : str, default "softmax"
        "softmax" for classes, "identity" for a number with squared loss; two widths are then linear regression.

    Raises
    ------
    Refusal
        If there are fewer than two widths or classes, or `end` is unknown.

    Examples
    --------
    >>> Network((784, 10)).size, Network((784, 600, 100, 10), bias=False).size     # the second is that of [Geyer19]
    (7850, 531400)
    """

    widths: tuple[int, ...]
    bias: bool = True
    end: str = "softmax"

    def __post_init__(self) -> None:
        widths = tuple(whole("a width", w, 1, 1 << 24) for w in self.widths)
        if self.end not in ENDS:
            raise Refusal(f"end={self.end!r}: use {' or '.join(ENDS)}")
        if self.is_regression and (len(widths) < 2 or widths[-1] != 1):
            raise Refusal(f"widths={self.widths!r}: a regression has the inputs, any hidden layers and one output")
        if len(widths) < 2 or (widths[-1] < 2 and not self.is_regression):
            raise Refusal(f"widths={self.widths!r}: give the inputs, any hidden layers and at least two classes")
        object.__setattr__(self, "widths", widths)

    @property
    def is_regression(self) -> bool:
        """True if the output is a number, not a class."""
        return self.end == "identity"

    @property
    def size(self) -> int:
        """d, the number of parameters."""
        return sum((i + self.bias) * o for i, o in pairwise(self.widths))

    @property
    def clients_per_batch(self) -> int:
        """As many clients as fit into the cache: 8 of 784-32-10, one of 784-600-100-10."""
        return max(1, min(_MOST_CLIENTS_PER_BATCH, _CACHE // (4 * self.size)))

    def check(self, columns: int, classes: int) -> None:
        """Refuse a table with these numbers of columns and classes (0: the labels are numbers) if it does not fit."""
        refuse_other_width(columns, self.widths[0])
        if self.is_regression != (classes == 0):
            kind = "numbers" if self.is_regression else "classes, whole numbers 0, 1, ..."
            raise Refusal(f"a network that ends in {self.end} needs labels that are {kind}")
        if classes > self.widths[-1]:
            raise Refusal(f"labels go up to {classes - 1}, but the network has {self.widths[-1]} classes")

    def layers(self, parameters: Any) -> list[Layer]:
        """Views of a (c, d) stack."""
        layers, offset = [], 0
        for i, o in pairwise(self.widths):
            W = parameters[:, offset : (offset := offset + i * o)].reshape(-1, i, o)
            b = parameters[:, offset : (offset := offset + self.bias * o)].reshape(len(parameters), -1, o)
            layers.append(Layer(W, b))
        return layers

    def start(self, rng: np.random.Generator) -> FloatArray:
        """(d,) weights N(0, 2/in), biases 0; all zero for softmax regression, which is convex."""
        model = np.zeros((1, self.size))
        if len(self.widths) > 2:
            source = as_generator(rng)
            for W, _ in self.layers(model):
                W[:] = source.normal(scale=np.sqrt(2 / W.shape[1]), size=W.shape)
        return np.asarray(model[0])

    def updates(self, model: Any, stack: BatchedRows, local: LocalSGD, rate: float) -> Any:
        """(c, d) change of `model`, (d,), by `local.epochs` passes of gradient descent of each client.

        The weights of a column that is 0 in all rows of these clients do not change, so such columns are left out.
        """
        refuse_other_width(stack.X.shape[-1], self.widths[0])
        start = np.asarray(model, dtype=stack.X.dtype)
        table = stack.X.reshape(-1, self.widths[0])
        used = np.flatnonzero(table.any(axis=0))
        if not 0 < len(used) <= _DENSE_SHARE * self.widths[0]:
            return self._descend(start, stack, local, rate)
        smaller = replace(self, widths=(len(used), *self.widths[1:]))
        rows = np.take(table, used, axis=1, mode="clip").reshape(*stack.X.shape[:3], len(used))
        first_layer_size, smaller_layer_size = self.widths[0] * self.widths[1], len(used) * self.widths[1]
        smaller_start = np.concatenate(
            [start[:first_layer_size].reshape(-1, self.widths[1])[used].ravel(), start[first_layer_size:]]
        )
        smaller_changes = smaller._descend(smaller_start, stack._replace(X=rows), local, rate)
        changes = np.zeros((len(smaller_changes), self.size), dtype=smaller_changes.dtype)
        self.layers(changes)[0].W[:, used] = smaller.layers(smaller_changes)[0].W
        changes[:, first_layer_size:] = smaller_changes[:, smaller_layer_size:]
        return changes

    def _descend(self, start: Any, stack: BatchedRows, local: LocalSGD, rate: float) -> Any:
        P = np.tile(start, (len(stack.X), 1))
        steps = _Steps(self, P, stack, rate)
        # A rate that is too high ends in inf or nan. The curator refuses such an update, so it is no error here.
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            for _ in range(local.epochs):
                for j in range(stack.X.shape[1]):
                    steps.take(j)
            P -= start
        return P

    def score(self, model: Any, X: Any, y: Any) -> Score:
        """Accuracy and mean loss, block by block."""
        refuse_other_width(X.shape[-1], self.widths[0])
        right, loss = 0, 0.0
        for first in range(0, len(X), _ROWS):
            Z, labels = self.outputs(model, X[first : first + _ROWS]), y[first : first + _ROWS]
            if self.is_regression:
                with np.errstate(over="ignore"):
                    loss += float(np.square(Z[:, 0] - labels).sum())
                continue
            Z -= Z.max(axis=1, keepdims=True)
            right += int((Z.argmax(axis=1) == labels).sum())
            loss += float((np.log(np.exp(Z).sum(axis=1)) - Z[np.arange(len(Z)), labels]).sum())
        if self.is_regression:
            spread = float(np.var(np.asarray(y, dtype=np.float64)))
            return Score(1 - loss / len(X) / spread if spread > 0 else 0.0, loss / len(X))
        return Score(right / len(X), loss / len(X))

    def outputs(self, model: Any, X: Any) -> FloatArray:
        """(n, outputs) logits, or numbers, of rows X (n, p) under `model`, (d,)."""
        Z = X
        for k, (W, b) in enumerate(self.layers(np.asarray(model, dtype=X.dtype)[None])):
            Z = (np.maximum(Z, 0) if k else Z) @ W[0] + b[0].sum(axis=0)
        return np.asarray(Z, dtype=np.float64)


class _Steps:
    """Gradient steps of a stack of clients, on buffers allocated once.

    The weight of a row in the loss is multiplied by -rate, so everything behind the softmax is the step itself and
    the learning rate costs nothing.
    """

    def __init__(self, network: Network, P: Any, stack: BatchedRows, rate: float):
        c, steps, b, _ = stack.X.shape
        kind = stack.X.dtype
        self.P, self.layers = P, network.layers(P)
        self.fused = network.size >= _FUSED and kind == np.float32
        self.G = P[:0] if self.fused else np.empty_like(P)
        self.grads = self.layers if self.fused else network.layers(self.G)
        self.X = [stack.X[:, j] for j in range(steps)]
        self.weight = stack.weight.transpose(1, 0, 2)[:, :, None].astype(kind) * kind.type(-rate)
        self.is_regression = network.is_regression
        truth: Any = stack.y.transpose(1, 0, 2)[:, :, None]
        if not self.is_regression:
            truth = truth == np.arange(network.widths[-1])[:, None]
        self.truth = np.multiply(truth, self.weight, dtype=kind)
        self.A = [np.empty((c, b, w), dtype=kind) for w in network.widths[1:-1]]
        # Logits are stored class by class: a maximum over ten neighbours is three times the work of one over ten rows.
        self.Z = np.empty((c, network.widths[-1], b), dtype=kind)
        self.D = [*(np.empty_like(A) for A in self.A), self.Z.transpose(0, 2, 1)]
        self.row_buffer = np.empty((c, 1, b), dtype=kind)

    def take(self, j: int) -> None:
        """Take one step on batch j of every client."""
        inputs = [self.X[j], *self.A]
        for k, (W, b) in enumerate(self.layers):
            np.matmul(inputs[k], W, out=self.D[k])
            if b.shape[1]:
                self.D[k] += b
            if k < len(self.A):
                np.maximum(self.D[k], 0, out=self.A[k])
        if self.is_regression:
            self._squared_residual(j)
        else:
            self._softmax_residual(j)
        for k in range(len(self.layers) - 1, -1, -1):
            # Before this layer moves: the layer below needs the weights of the forward pass.
            if k:
                np.matmul(self.D[k], self.layers[k].W.transpose(0, 2, 1), out=self.D[k - 1])
                self.D[k - 1] *= self.A[k - 1] > 0
            self._descend(k, inputs[k], self.D[k])
        if not self.fused:
            self.P += self.G

    def _squared_residual(self, j: int) -> None:
        """Overwrite the outputs Z (c, 1, b) with -rate · weight · (Z - truth)."""
        self.Z *= self.weight[j]
        self.Z -= self.truth[j]

    def _softmax_residual(self, j: int) -> None:
        """Overwrite the logits Z (c, classes, b) with -rate · weight · (p - truth)."""
        Z, row_buffer = self.Z, self.row_buffer
        np.maximum.reduce(Z, axis=1, keepdims=True, out=row_buffer)
        Z -= row_buffer
        np.exp(Z, out=Z)
        np.add.reduce(Z, axis=1, keepdims=True, out=row_buffer)
        np.divide(self.weight[j], row_buffer, out=row_buffer)
        Z *= row_buffer
        Z -= self.truth[j]

    def _descend(self, k: int, A: Any, D: Any) -> None:
        """Add the step of layer k, from its inputs A (c, b, in) and residuals D (c, b, out)."""
        W, b = self.grads[k]
        if not self.fused:
            np.matmul(A.transpose(0, 2, 1), D, out=W)
            if b.shape[1]:
                np.einsum("kbo->ko", D, out=b[:, 0])
            return
        for W_k, A_k, D_k in zip(W, A, D, strict=True):
            # In Fortran's order of all arrays: Wᵀ + DᵀA, written over Wᵀ.
            sgemm(1.0, D_k.T, A_k.T, 1.0, W_k.T, trans_b=1, overwrite_c=1)
        if b.shape[1]:
            b += D.sum(axis=1, keepdims=True)


def refuse_other_width(columns: int, wanted: int) -> None:
    """Refuse rows whose width is not the network's."""
    if columns != wanted:
        raise Refusal(
            f"rows have {columns} columns, but the network takes {wanted}: use widths that start with {columns}"
        )
