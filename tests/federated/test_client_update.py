"""One client's update by itself: that of the simulator, whatever the rows of the others."""

from __future__ import annotations

import numpy as np
import pytest

from dosimeter.core.errors import Refusal
from dosimeter.federated import LocalSGD, Network, Task, client_update

rng = np.random.default_rng(0)
X, y = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
NETWORK, LOCAL = Network((4, 5, 3)), LocalSGD(2, 0.1, batches=1, decay=0.9)


def test_it_is_the_update_of_the_simulator() -> None:
    """One batch of all rows: the order of the rows changes rounding only."""
    task = Task(NETWORK, LOCAL, X, y, (np.arange(10), np.arange(10, 30)), X, y)
    model = task.start(1)
    own = client_update(NETWORK, LOCAL, model, X[10:], y[10:], t=3)
    np.testing.assert_allclose(own, task.updates(model, [1], seed=5, t=3)[0], rtol=0, atol=1e-6)


def test_a_seed_fixes_the_order_of_the_rows() -> None:
    local, model = LocalSGD(1, 0.5, batch=3), NETWORK.start(np.random.default_rng(2))
    first, again, other = (client_update(NETWORK, local, model, X, y, seed=s) for s in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_one_step_is_the_gradient_by_differences() -> None:
    """Central differences of the mean loss, in float64."""
    model = NETWORK.start(np.random.default_rng(3))

    def loss(w: np.ndarray) -> float:
        return NETWORK.score(w, X, y).loss

    step = 1e-6
    gradient = [(loss(model + step * e) - loss(model - step * e)) / (2 * step) for e in np.eye(len(model))]
    update = client_update(NETWORK, LocalSGD(1, 0.25, batches=1), model, X, y)
    np.testing.assert_allclose(update, -0.25 * np.array(gradient), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("rows", "labels", "width"),
    [(X[:, :3], y, 0), (X * np.nan, y, 0), (X, y + 1, 0), (X, y - 5, 0), (X[:0], y[:0], 0), (X, y / 2, 0), (X, y, 1)],
)
def test_rows_that_do_not_fit_are_refused(rows: np.ndarray, labels: np.ndarray, width: int) -> None:
    with pytest.raises(Refusal):
        client_update(NETWORK, LOCAL, np.zeros(NETWORK.size + width), rows, labels)
