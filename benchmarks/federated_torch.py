"""The sequential torch loop on the job of benchmarks/federated.py: one client after the other, as one would write it.

--cores N gives N threads to torch; with --processes the clients are dealt to N processes of one thread each.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import nn

from federated_job import CLIP, NOISE, accuracy, arguments, descend, desk, report, sit_down


def summed(start: Any, clients: list[int], t: int) -> Any:
    """Sum of the clipped updates of these clients, in double precision."""
    module = desk()["module"]
    total = torch.zeros(len(start), dtype=torch.float64)
    for k in clients:
        nn.utils.vector_to_parameters(start.clone(), module.parameters())  # or it would be trained in place
        descend(k, t)
        update = nn.utils.parameters_to_vector(module.parameters()).detach() - start
        total += update * min(1.0, CLIP / float(update.norm()))
    return total


def main() -> None:
    given = arguments(__doc__.splitlines()[0])
    shared = given.processes and given.cores > 1
    torch.manual_seed(given.seed)
    module = sit_down(given.job, given.widths, bool(given.bias), 1 if shared else given.cores)["module"]
    pool = None
    if shared:
        os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        settings = (given.job, given.widths, bool(given.bias), 1)
        pool = ProcessPoolExecutor(given.cores, get_context("spawn"), sit_down, settings)
    model = nn.utils.parameters_to_vector(module.parameters()).detach().clone()
    rng, marks, right = np.random.default_rng(given.seed), [], 0.0
    for t in range(given.rounds + 1):
        asked = rng.choice(len(desk()["rows"]), given.per_round, replace=False).tolist()
        if pool is None:
            total = summed(model, asked, t)
        else:
            parts = [asked[k :: given.cores] for k in range(given.cores)]
            total = sum(f.result() for f in [pool.submit(summed, model, part, t) for part in parts])
        noisy = total + NOISE * CLIP * torch.randn(len(total), dtype=torch.float64)
        model = model + (noisy / given.per_round).float()
        nn.utils.vector_to_parameters(model.clone(), module.parameters())
        right = accuracy()
        marks.append((time.perf_counter(), time.process_time()))
    how = f"torch {torch.__version__}, " + (f"{given.cores} processes" if shared else f"{given.cores} thread(s)")
    report(marks, given, right, how, alone=given.cores == 1)


if __name__ == "__main__":
    main()
