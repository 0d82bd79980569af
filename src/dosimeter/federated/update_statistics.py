"""V_c and U_s of [Geyer19]: how much clients differ, and how large their mean update is. Internal, without noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.errors import CannotMeasure
from dosimeter.federated.client_messages import AcceptedUpdates

_MOST = 1e150
"""Rows with a larger entry are left out: their squares have no float64."""


class UpdateStatistics:
    """Running sums over the clients of one round, block by block; pass `observe` to `close_round`.

    >>> spread = UpdateStatistics()
    >>> spread.add(np.array([[1.0, 0.0], [3.0, 0.0]]))
    >>> spread.variance, spread.scale                      # ((1 + 1)/2 + 0)/2 and (2² + 0)/2
    (0.5, 2.0)
    """

    def __init__(self) -> None:
        self.clients = 0
        self.left_out = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0

    def observe(self, seen: AcceptedUpdates) -> None:
        """What `close_round` accepted."""
        self.add(seen.updates)

    def add(self, block: Any) -> None:
        """A block of finite updates as sent, (c, d)."""
        X = np.asarray(block, dtype=np.float64)
        fine = np.abs(X).max(axis=1, initial=0.0) < _MOST
        self.left_out += int((~fine).sum())
        X = X if fine.all() else X[fine]
        if not len(X):
            return
        # Means and squared deviations are joined: plain sums of squares lose all digits where V_c is small beside U_s.
        mean, n = X.mean(axis=0), len(X)
        squares = np.square(X - mean).sum(axis=0)
        both = self.clients + n
        apart = mean - self._mean
        self._squares = self._squares + squares + np.square(apart) * (self.clients * n / both)
        self._mean = self._mean + apart * (n / both)
        self.clients = both

    @property
    def variance(self) -> float:
        """V_c: the mean over parameters of the variance over the clients (divided by their number)."""
        self._refuse_nobody()
        return float(np.mean(self._squares) / self.clients)

    @property
    def scale(self) -> float:
        """U_s: the mean over parameters of the squared mean update."""
        self._refuse_nobody()
        return float(np.mean(np.square(self._mean)))

    def _refuse_nobody(self) -> None:
        if not self.clients:
            raise CannotMeasure("no update arrived in this round: V_c and U_s do not exist")
