"""The sequential torch loop on the job of benchmarks/federated.py: one client after the other, as one would write it.

--cores N gives N threads to torch; with --processes the clients are dealt to N processes of one thread each.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import numpy as np

CLIP, NOISE, EPOCHS, BATCH, RATE = 1.0, 1.0, 4, 60, 0.1
_here: dict[str, Any] = {}


def sit_down(path: str, widths: list[int], bias: bool, threads: int) -> None:
    """The data and the module, once a process."""
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    with np.load(path) as z:
        _here.update({name: torch.from_numpy(z[name]) for name in z.files})
    layers: list[Any] = []
    for k, (i, o) in enumerate(pairwise(widths)):
        layers += [nn.ReLU(), nn.Linear(i, o, bias=bias)] if k else [nn.Linear(i, o, bias=bias)]
    _here["module"] = nn.Sequential(*layers)


def summed(start: Any, clients: list[int], t: int) -> Any:
    """Sum of the clipped updates of these clients, in double precision."""
    import torch
    from torch import nn

    module, loss = _here["module"], nn.CrossEntropyLoss()
    total = torch.zeros(len(start), dtype=torch.float64)
    for k in clients:
        nn.utils.vector_to_parameters(start.clone(), module.parameters())  # or it would be trained in place
        optimiser = torch.optim.SGD(module.parameters(), lr=RATE)
        generator = torch.Generator().manual_seed(1000 * t + k)
        own = _here["rows"][k][torch.randperm(_here["rows"].shape[1], generator=generator)]
        X, y = _here["X"][own], _here["y"][own]
        for _ in range(EPOCHS):
            for at in range(0, len(X), BATCH):
                optimiser.zero_grad()
                loss(module(X[at : at + BATCH]), y[at : at + BATCH]).backward()
                optimiser.step()
        update = nn.utils.parameters_to_vector(module.parameters()).detach() - start
        total += update * min(1.0, CLIP / float(update.norm()))
    return total


def accuracy(model: Any) -> float:
    """On the test rows."""
    import torch
    from torch import nn

    nn.utils.vector_to_parameters(model, _here["module"].parameters())
    with torch.no_grad():
        return float((_here["module"](_here["X_test"]).argmax(1) == _here["y_test"]).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job")
    parser.add_argument("--widths", type=lambda s: [int(w) for w in s.split(",")], required=True)
    parser.add_argument("--bias", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--per-round", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", action="store_true")
    given = parser.parse_args()
    import torch
    from torch import nn

    shared = given.processes and given.cores > 1
    sit_down(given.job, given.widths, bool(given.bias), 1 if shared else given.cores)
    torch.manual_seed(0)
    pool = None
    if shared:
        os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        settings = (given.job, given.widths, bool(given.bias), 1)
        pool = ProcessPoolExecutor(given.cores, get_context("spawn"), sit_down, settings)
    model = nn.utils.parameters_to_vector(_here["module"].parameters()).detach().clone()
    rng, updates, marks, right = np.random.default_rng(1), 0, [], 0.0
    for t in range(given.rounds + 1):
        asked = rng.choice(len(_here["rows"]), given.per_round, replace=False).tolist()
        if pool is None:
            total = summed(model, asked, t)
        else:
            parts = [asked[k :: given.cores] for k in range(given.cores)]
            total = sum(f.result() for f in [pool.submit(summed, model, part, t) for part in parts])
        noisy = total + NOISE * CLIP * torch.randn(len(total), dtype=torch.float64)
        model = model + (noisy / given.per_round).float()
        right = accuracy(model)
        marks.append((time.perf_counter(), time.process_time()))
        updates += given.per_round if t else 0
    own = None if given.cores > 1 else marks[-1][1] - marks[0][1]
    how = f"torch {torch.__version__}, " + (f"{given.cores} processes" if shared else f"{given.cores} thread(s)")
    found = {"updates": updates, "seconds": marks[-1][0] - marks[0][0], "own": own, "accuracy": right, "how": how}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
