"""What one client computes in a round, from its own rows and the public model: for a client of its own process."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from dosimeter.core.arrays import FloatArray
from dosimeter.core.checks import whole
from dosimeter.core.errors import Refusal
from dosimeter.federated.local_training import LocalSGD, gather_rows, slots
from dosimeter.federated.networks import Learner
from dosimeter.federated.task import classes_in, labels_of


def client_update(
    learner: Learner, local: LocalSGD, model: Any, X: Any, y: Any, *, t: int = 0, seed: int | None = None
) -> FloatArray:
    """The update that a client with these rows sends in round t. Private until the curator has added noise.

    Parameters
    ----------
    learner : Network or TorchLearner
        What is trained.
    local : LocalSGD
        How the client trains it.
    model : (d,) array
        The public model of the round.
    X : (n, p) array
        The client's rows, taken as float32.
    y : (n,) array
        Classes 0, 1, ..., or numbers for a regression.
    t : int, default 0
        The round, for a learning rate that decays.
    seed : int, optional
        Of the order of the rows; from the operating system's bits without it.

    Returns
    -------
    (d,) array
        float32, not clipped: the curator clips. inf or nan if the learning rate is too high; the curator refuses that.

    Raises
    ------
    Refusal
        If the rows do not fit the learner or the model.

    Notes
    -----
    It depends on the model, the order and the client's own rows only, as in `simulate(for_release=True)`.

    Examples
    --------
    >>> from dosimeter.federated import Network
    >>> update = client_update(Network((2, 2), bias=False), LocalSGD(1, 1.0, batches=1), np.zeros(4), np.eye(2), [0, 1])
    >>> update.tolist()
    [0.25, -0.25, -0.25, 0.25]
    """
    rows = np.ascontiguousarray(X, dtype=np.float32)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise Refusal(f"X must be (n, p), finite and not empty, not of shape {rows.shape}")
    labels = labels_of("y", y, len(rows))
    learner.check(rows.shape[1], classes_in(labels))
    if np.shape(model) != (learner.size,):
        raise Refusal(f"the model has shape {np.shape(model)}, but the learner has {learner.size} parameters")
    order = secrets.randbits(128) if seed is None else whole("seed", seed, 0, 1 << 128)
    positions = slots([np.arange(len(rows))], local, order, whole("t", t, 0, 1 << 30), [0])
    update = learner.updates(model, gather_rows(rows, labels, positions), local, local.rate_at(t))[0]
    return np.ascontiguousarray(update, dtype=np.float32)
