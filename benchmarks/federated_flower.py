"""Flower's simulation engine on the job of benchmarks/federated.py: FedAvg in its wrapper for a fixed clip and noise.

--cores N: N actors of one core and one thread each; --actors M shares the cores among M. Updates are clipped by the
clients, in the actors. The server and Ray's own processes work beside them, so that on one core there is no comparison.
"""

from __future__ import annotations

import logging
import os
import time
from importlib.metadata import version
from typing import Any

os.environ.update(FLWR_TELEMETRY_ENABLED="0", RAY_USAGE_STATS_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1")

import torch
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAvg
from flwr.simulation import run_simulation

from federated_flower_client import app as client
from federated_job import CLIP, NOISE, accuracy, arguments, leave_word, report, sit_down


def server(given: Any, here: dict[str, Any], marks: list[tuple[float, float]], right: list[float]) -> ServerApp:
    """Rounds of so many clients; after each the test rows, the clock and this process's own seconds."""
    app, clients = ServerApp(), len(here["rows"])

    def evaluate(_: int, arrays: ArrayRecord) -> MetricRecord:
        here["module"].load_state_dict(arrays.to_torch_state_dict())
        right.append(accuracy())
        marks.append((time.perf_counter(), time.process_time()))
        return MetricRecord({"accuracy": right[-1]})

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        averaging = FedAvg(
            fraction_train=given.per_round / clients,
            min_train_nodes=given.per_round,
            fraction_evaluate=0.0,
            min_available_nodes=clients,
        )
        strategy = DifferentialPrivacyClientSideFixedClipping(averaging, NOISE, CLIP, given.per_round)
        start = ArrayRecord(here["module"].state_dict())
        strategy.start(grid, start, num_rounds=given.rounds + 1, evaluate_fn=evaluate)

    return app


def main() -> None:
    given = arguments(__doc__.splitlines()[0])
    leave_word(given)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    torch.manual_seed(given.seed)
    here = sit_down(given.job, given.widths, bool(given.bias), given.cores)
    actors = given.actors or given.cores
    marks: list[tuple[float, float]] = []
    right: list[float] = []
    run_simulation(
        server(given, here, marks, right),
        client,
        num_supernodes=len(here["rows"]),
        backend_config={
            "init_args": {"num_cpus": given.cores, "logging_level": "ERROR", "log_to_driver": False},
            "client_resources": {"num_cpus": given.cores / actors, "num_gpus": 0.0},
        },
    )
    versions = ", ".join(f"{name} {version(name)}" for name in ("flwr", "ray", "torch"))
    # marks[0] was taken before the first round, which does not count.
    report(marks[1:], given, right[-1], f"{versions}, {actors} actors", alone=False)


if __name__ == "__main__":
    main()
