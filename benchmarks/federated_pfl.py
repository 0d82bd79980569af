"""pfl's simulator on the job of benchmarks/federated.py: its federated averaging with its Gaussian mechanism.

--cores N starts N processes of one thread each through torch's own launcher, which is how pfl runs in parallel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib.metadata import version
from itertools import count
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, StringMetricName, Weighted, get_overall_value
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from torch import nn

from federated_job import BATCH, CLIP, EPOCHS, NOISE, RATE, arguments, network, report, shuffled, sit_down

RIGHT = "accuracy"


class Classifier(nn.Module):
    """The network with the two methods that pfl asks for."""

    def __init__(self, layers: Any):
        super().__init__()
        self.layers = layers

    def loss(self, X: Any, y: Any) -> Any:
        """Mean over a batch."""
        return nn.functional.cross_entropy(self.layers(X), y)

    @torch.no_grad()
    def metrics(self, X: Any, y: Any) -> dict[str, Any]:
        """Rows that are right."""
        return {RIGHT: Weighted(int((self.layers(X).argmax(1) == y).sum()), len(y))}


class Clock(TrainingProcessCallback):
    """When rounds ended, and the last accuracy; it stands behind the evaluation."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []
        self.right = 0.0

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Look at the clock."""
        self.marks.append((time.perf_counter(), time.process_time()))
        if central_iteration:  # pfl evaluates after every round but the first
            self.right = float(get_overall_value(aggregate_metrics[StringMetricName(f"Central val | {RIGHT}")]))
        return False, Metrics()


def trained(given: Any) -> Clock:
    """The whole training; everybody's processes do the same, each with its own clients."""
    here = sit_down(given.job, given.widths, bool(given.bias), 1)
    np.random.seed(given.seed)  # noqa: NPY002  pfl draws from it, and all processes must begin alike
    torch.manual_seed(given.seed)
    model = Classifier(network(given.widths, bool(given.bias)))
    calls = count()
    clients = FederatedDataset(
        lambda k: PyTorchTensorDataset(shuffled(k, next(calls)), user_id=str(k)),
        get_user_sampler("minimize_reuse", list(range(len(here["rows"])))),
    )
    mechanism = CentrallyAppliedPrivacyMechanism(GaussianMechanism(CLIP, NOISE))
    clock = Clock()
    FederatedAveraging().run(
        # Clients evaluate their own rows before and after training every `evaluation_frequency` rounds: only in the
        # first, which is not counted.
        NNAlgorithmParams(given.rounds + 1, given.rounds + 2, given.per_round, None),
        SimulatedBackend(clients, clients, [mechanism]),
        PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0)),
        NNTrainHyperParams(local_batch_size=BATCH, local_num_epochs=EPOCHS, local_learning_rate=RATE),
        callbacks=[CentralEvaluationCallback(PyTorchTensorDataset((here["X_test"], here["y_test"]))), clock],
        send_metrics_to_platform=False,
    )
    return clock


def main() -> int:
    given = arguments(__doc__.splitlines()[0])
    if given.cores > 1 and "TORCHELASTIC_RUN_ID" not in os.environ:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={given.cores}"]
        return subprocess.run(
            [*launcher, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False
        ).returncode
    clock = trained(given)
    if int(os.environ.get("RANK", "0")) == 0:
        how = f"pfl {version('pfl')}, torch {torch.__version__}, {given.cores} process(es)"
        report(clock.marks, given, clock.right, how, alone=given.cores == 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
