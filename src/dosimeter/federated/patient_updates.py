"""Updates of patients: one gradient step on each patient's own rows, for thousands of patients at once.

A patient's update must depend on nobody else's rows, to the last bit: otherwise a patient more or fewer would move the
others' updates, and the sum by more than one clip. So everything here is either elementwise, or a product of whole
numbers below 2^53, which is exact in any order and in any blocking of a BLAS (docs/explanation/federated.md, Patients).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray, Index
from dosimeter.core.errors import Refusal
from dosimeter.federated.networks import Network, refuse_other_width
from dosimeter.federated.task import classes_in, labels_of

_STACK = 1 << 17
"""Numbers in a stack of updates: with its copies a core's second-level cache."""
_DIGITS = 52
"""Bits of a sum of products of whole numbers that float64 adds without rounding."""


@dataclass(frozen=True, eq=False)
class PatientRows:
    """The patients of one site: rows as numbers, each patient's rows one after another. Private.

    Parameters
    ----------
    X : (n, p) array
        Rows, stored as float64; patient k has the rows starts[k] to starts[k + 1] - 1.
    y : (n,) array
        Classes 0, 1, ..., or numbers.
    starts : (patients + 1,) array of int
        Ascending, from 0 to n. Every patient has at least one row.

    Raises
    ------
    Refusal
        If shapes do not fit together, or a number is not finite.

    Examples
    --------
    >>> rows = PatientRows.of(np.eye(3), [0, 1, 1], [np.array([0, 2]), np.array([1])])
    >>> rows, rows.starts.tolist(), rows.y.tolist()
    (<PatientRows of 2 patients with 1 to 2 rows>, [0, 2, 3], [0, 1, 1])
    """

    X: FloatArray
    y: Any
    starts: Index

    @classmethod
    def of(cls, X: Any, y: Any, patients: Any) -> PatientRows:
        """The rows of a table, given the row numbers of each patient."""
        parts = [np.asarray(rows, dtype=np.intp) for rows in patients]
        order = np.concatenate([np.zeros(0, dtype=np.intp), *parts])
        starts = np.concatenate([[0], np.cumsum([len(rows) for rows in parts])])
        return cls(np.asarray(X)[order], np.asarray(y)[order], starts)

    def __post_init__(self) -> None:
        X = np.ascontiguousarray(self.X, dtype=np.float64)
        if X.ndim != 2 or not X.shape[1] or not np.isfinite(X).all():
            raise Refusal(f"X must be (n, p) and finite, not of shape {X.shape}")
        y = labels_of("y", self.y, len(X)) if len(X) else np.asarray(self.y)
        starts = np.asarray(self.starts, dtype=np.intp)
        if starts.ndim != 1 or len(starts) < 1 or starts[0] != 0 or starts[-1] != len(X) or (np.diff(starts) < 1).any():
            raise Refusal("starts must rise from 0 to the number of rows: every patient has at least one row")
        for name, value in (("X", X), ("y", y), ("starts", starts)):
            object.__setattr__(self, name, value)

    @property
    def patients(self) -> int:
        """Their number."""
        return len(self.starts) - 1

    def __repr__(self) -> str:
        sizes = np.diff(self.starts)
        between = f"{sizes.min()} to {sizes.max()}" if len(sizes) else "no"
        return f"<PatientRows of {self.patients} patients with {between} rows>"


def patient_updates(
    network: Network, model: Any, rows: PatientRows, drawn: Any, rate: float
) -> Iterator[tuple[Index, FloatArray]]:
    """The updates of the drawn patients, in stacks: -rate · gradient of the mean loss over the patient's own rows.

    Parameters
    ----------
    network : Network
        Softmax regression, linear regression, or an MLP.
    model : (d,) array
        Its parameters, public.
    rows : PatientRows
        The patients of one site.
    drawn : (c,) array of int
        Numbers of the drawn patients.
    rate : float
        Learning rate.

    Yields
    ------
    patients : (b,) array of int
        Some of `drawn`.
    updates : (b, d) array
        Their updates, float64; inf or nan if the model has overflowed. Valid until the next stack.

    Notes
    -----
    The bits of an update depend on the model, the rate and the patient's own rows only, not on the stack.

    Examples
    --------
    >>> rows = PatientRows.of(np.eye(2), [0, 1], [np.array([0]), np.array([1])])
    >>> [(p.tolist(), u.tolist()) for p, u in patient_updates(Network((2, 2), bias=False), np.zeros(4), rows, [1], 1.0)]
    [([1], [[-0.0, 0.0, -0.5, 0.5]])]
    """
    chosen = np.asarray(drawn, dtype=np.intp)
    parameters = np.asarray(model, dtype=np.float64)
    if not len(chosen):
        return
    refuse_other_width(rows.X.shape[1], network.widths[0])
    network.check(rows.X.shape[1], classes_in(rows.y))
    # Patients with similar numbers of rows together: the j-th rows of a stack are one step.
    counts = rows.starts[chosen + 1] - rows.starts[chosen]
    chosen = chosen[np.argsort(-counts, kind="stable")]
    size = max(1, _STACK // network.size)
    steps = _Gradients(network, parameters, min(size, len(chosen)))
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for first in range(0, len(chosen), size):
            patients = chosen[first : first + size]
            yield patients, steps.of(rows, patients, rate)


class _Gradients:
    """Stacks of gradients, on buffers allocated once."""

    def __init__(self, network: Network, model: FloatArray, most: int):
        self.network = network
        self.layers = [(W[0], b[0].sum(axis=0)) for W, b in network.layers(model[None])]
        self.total = np.empty((most, network.size))
        self.part = np.empty((most, network.size))

    def of(self, rows: PatientRows, patients: Index, rate: float) -> FloatArray:
        """(b, d) -rate · mean gradient over the rows of each patient; patients are in falling order of rows."""
        first = rows.starts[patients]
        counts = rows.starts[patients + 1] - first
        total = self.total[: len(patients)]
        weight = -rate / counts
        for j in range(int(counts[0])):
            b = int(np.searchsorted(-counts, -j, side="left"))  # patients with more than j rows
            part = (total if j == 0 else self.part)[:b]
            self._row_gradients(rows.X[first[:b] + j], rows.y[first[:b] + j], weight[:b], part)
            if j:
                total[:b] += part
        return total

    def _row_gradients(self, X: FloatArray, y: Any, weight: FloatArray, out: FloatArray) -> None:
        """(b, d) weight · gradient of each row's loss, into `out`."""
        inputs = [X]
        for k, (W, bias) in enumerate(self.layers):
            Z = exact_product(inputs[-1], W) + bias
            if k < len(self.layers) - 1:
                inputs.append(np.maximum(Z, 0))
        D = self._residual(Z, y) * weight[:, None]
        layers = self.network.layers(out)
        for k in range(len(self.layers) - 1, -1, -1):
            A, (W, b) = inputs[k], layers[k]
            np.multiply(A[:, :, None], D[:, None, :], out=W)
            if b.shape[1]:
                b[:, 0] = D
            if k:
                D = exact_product(D, self.layers[k][0].T) * (inputs[k] > 0)

    def _residual(self, Z: FloatArray, y: Any) -> FloatArray:
        """(b, outputs) derivative of the loss by the outputs: p - truth, or Z - y."""
        if self.network.is_regression:
            return np.asarray(Z - y[:, None])
        Z -= Z.max(axis=1, keepdims=True)
        # Class by class: the sum of a row has one order, however many rows there are.
        P = np.exp(Z)
        total = P[:, 0].copy()
        for k in range(1, P.shape[1]):
            total += P[:, k]
        P /= total[:, None]
        P[np.arange(len(P)), y] -= 1.0
        return P


def exact_product(A: FloatArray, B: FloatArray) -> FloatArray:
    """A B with the rows of A and the whole of B rounded to whole numbers of few enough bits that no sum is rounded.

    Row i of the result depends on row i of A and on B only, bit for bit, whatever the BLAS does. Entries keep about
    (52 - log2 p)/2 bits of the largest of their row: 22 for 91 columns.

    >>> exact_product(np.array([[0.5, -3.0]]), np.array([[2.0], [1.0]]))
    array([[-2.]])
    """
    free = _DIGITS - int(A.shape[1] - 1).bit_length()
    of_rows = free // 2
    whole_rows, scale = _whole(A, np.abs(A).max(axis=1, initial=0.0), of_rows)
    whole_matrix, unit = _whole(B, np.abs(B).max(initial=0.0), free - of_rows)
    return np.asarray(np.ldexp(whole_rows @ whole_matrix, (scale + unit)[:, None]))


def _whole(values: FloatArray, largest: Any, digits: int) -> tuple[FloatArray, Any]:
    """values · 2^-e rounded to whole numbers of at most 2^digits, and e."""
    exponent = np.frexp(largest)[1] - digits
    return np.rint(np.ldexp(values, -exponent[:, None] if np.ndim(exponent) else -exponent)), exponent
