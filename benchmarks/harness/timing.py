"""The clock of the benchmarks: least seconds of the processor over several runs, calls taking turns."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

Clock = Callable[[], float]


def least(runs: int, *calls: Callable[[], object], clock: Clock = time.process_time) -> list[float]:
    """Least seconds of each call. The calls take turns, so that a slow moment of the machine disturbs all alike."""
    fewest = [float("inf")] * len(calls)
    for _ in range(runs):
        for k, call in enumerate(calls):
            start = clock()
            call()
            fewest[k] = min(fewest[k], clock() - start)
    return fewest


def processor_seconds(
    command: Sequence[str], *, environment: Mapping[str, str] | None = None, codes: Sequence[int] = (0,)
) -> float:
    """Seconds of the processor, user and system, of a process and its children; one thread. codes: exits that count."""
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **(environment or {})}
    settings.pop("PYTHONDONTWRITEBYTECODE", None)  # a second start finds its bytecode, as an installed package does
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(command, capture_output=True, text=True, env=settings, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in codes:
        raise RuntimeError(f"{' '.join(command)}: exit {ended.returncode}\n{ended.stderr[-2000:]}")
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)
