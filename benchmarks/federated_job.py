"""What the torch peers of benchmarks/federated.py have in common: the arguments, the data, the network, a client.

`sit_down` reads the data once a process. It is a module of its own so that workers of a peer import it: what stands in
a peer's `__main__` would be sent, and the data read, again with every call.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

CLIP, NOISE, EPOCHS, BATCH, RATE = 1.0, 1.0, 4, 60, 0.1
_PLACE = "DOSIMETER_BENCHMARK_JOB"
"""Where workers that are started by somebody else find the job."""
_here: dict[str, Any] = {}


def arguments(about: str, argv: Sequence[str] | None = None) -> Any:
    """The command line that every peer takes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("job")
    parser.add_argument("--widths", type=lambda s: [int(w) for w in s.split(",")], required=True)
    parser.add_argument("--bias", type=int, default=1)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--per-round", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", action="store_true", help="of the torch loop, instead of threads")
    parser.add_argument("--actors", type=int, default=0, help="of Flower, on these cores; one a core if not given")
    return parser.parse_args(argv)


def network(widths: Sequence[int], bias: bool) -> Any:
    """Linear layers with ReLU between them, begun as torch begins them."""
    layers: list[Any] = []
    for k, (i, o) in enumerate(pairwise(widths)):
        layers += [nn.ReLU(), nn.Linear(i, o, bias=bias)] if k else [nn.Linear(i, o, bias=bias)]
    return nn.Sequential(*layers)


def leave_word(given: Any) -> None:
    """For `desk` in processes that inherit this one's environment."""
    os.environ[_PLACE] = json.dumps([given.job, given.widths, given.bias])


def desk() -> dict[str, Any]:
    """This process's data and network, read by the word that was left, with one thread."""
    if not _here:
        job, widths, bias = json.loads(os.environ[_PLACE])
        sit_down(job, widths, bool(bias), 1)
    return _here


def sit_down(path: str, widths: Sequence[int], bias: bool, threads: int) -> dict[str, Any]:
    """The data as tensors and one network, kept for this process."""
    torch.set_num_threads(threads)
    with np.load(path) as z:
        _here.update({name: torch.from_numpy(z[name]) for name in z.files})
    _here["module"] = network(widths, bias)
    return _here


def shuffled(k: int, t: int) -> tuple[Any, Any]:
    """The rows of client k in the order of round t: X (600, 784), y (600,)."""
    generator = torch.Generator().manual_seed(1000 * t + k)
    own = _here["rows"][k][torch.randperm(_here["rows"].shape[1], generator=generator)]
    return _here["X"][own], _here["y"][own]


def descend(k: int, t: int) -> None:
    """Client k trains the network of this process in place."""
    module, loss = _here["module"], nn.CrossEntropyLoss()
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE)
    X, y = shuffled(k, t)
    for _ in range(EPOCHS):
        for at in range(0, len(X), BATCH):
            optimiser.zero_grad()
            loss(module(X[at : at + BATCH]), y[at : at + BATCH]).backward()
            optimiser.step()


def accuracy() -> float:
    """Of the network of this process on the test rows."""
    with torch.no_grad():
        return float((_here["module"](_here["X_test"]).argmax(1) == _here["y_test"]).float().mean())


def report(marks: Sequence[tuple[float, float]], given: Any, right: float, how: str, *, alone: bool) -> None:
    """The line that benchmarks/federated.py reads; `marks` are (clock, own seconds) at the end of every round."""
    found = {
        "updates": given.per_round * (len(marks) - 1),
        "seconds": marks[-1][0] - marks[0][0],
        "own": marks[-1][1] - marks[0][1] if alone else None,
        "accuracy": right,
        "how": how,
    }
    print(json.dumps(found), flush=True)
