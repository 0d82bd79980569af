"""V_c and U_s of [Geyer19]: how much clients' updates vary, and how large their mean is. Internal, without noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from dosimeter.core.errors import CannotMeasure
from dosimeter.federated.client_messages import AcceptedUpdates

_MOST = 1e150
"""Rows with a larger entry are left out: their squares overflow float64."""


class UpdateStatistics:
    """V_c and U_s of one round, from running sums; pass `observe` to `Curator.close_round`. Internal.

    Raises
    ------
    CannotMeasure
        From `variance` and `scale`, if no update arrived.

    Notes
    -----
    With Δ_kj the update of client k in parameter j, [Geyer19] section 3 defines V_c, the mean over j of the variance of
    Δ_kj over k, and U_s, the mean over j of the squared mean of Δ_kj over k.

    Examples
    --------
    >>> statistics = UpdateStatistics()
    >>> statistics.add(np.array([[1.0, 0.0], [3.0, 0.0]]))
    >>> statistics.variance, statistics.scale              # ((1 + 1)/2 + 0)/2 and (2² + 0)/2
    (0.5, 2.0)
    """

    def __init__(self) -> None:
        self.clients = 0
        self.left_out = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0

    def observe(self, accepted: AcceptedUpdates) -> None:
        """Add the updates that `close_round` accepted."""
        self.add(accepted.updates)

    def add(self, block: Any) -> None:
        """Add a block of finite updates as sent, (c, d)."""
        X = np.asarray(block, dtype=np.float64)
        usable = np.abs(X).max(axis=1, initial=0.0) < _MOST
        self.left_out += int((~usable).sum())
        X = X if usable.all() else X[usable]
        if not len(X):
            return
        # Means and squared deviations are merged: sums of squares lose all digits if V_c is small beside U_s.
        mean, n = X.mean(axis=0), len(X)
        squares = np.square(X - mean).sum(axis=0)
        total = self.clients + n
        difference = mean - self._mean
        self._squares = self._squares + squares + np.square(difference) * (self.clients * n / total)
        self._mean = self._mean + difference * (n / total)
        self.clients = total

    @property
    def variance(self) -> float:
        """V_c: mean over parameters of the variance over clients (divided by their number)."""
        self._refuse_no_clients()
        return float(np.mean(self._squares) / self.clients)

    @property
    def scale(self) -> float:
        """U_s: mean over parameters of the squared mean update."""
        self._refuse_no_clients()
        return float(np.mean(np.square(self._mean)))

    def _refuse_no_clients(self) -> None:
        if not self.clients:
            raise CannotMeasure("no update arrived in this round: V_c and U_s are undefined")
