"""Exact noise against numpy's, and against OpenDP in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dosimeter import noise_addition
from dosimeter.core.noise import Gaussian, Laplace
from harness.registry import Ratio, Settings, Skipped, row
from harness.timing import least
from sampling import LIMIT, PEERS, SCALE

VALUES = 10_000
"""Values that OpenDP noises."""


@row("noise", "Exact noise against numpy and OpenDP")
def against_numpy(settings: Settings) -> Iterator[Ratio | Skipped]:
    """Every law at many values; OpenDP's discrete Gaussian on the same grid."""
    n = 100_000 if settings.quick else 1_000_000
    for law, method in PEERS.items():
        values, noise, draw = np.full(n, 0.25), law(SCALE), getattr(np.random.default_rng(), method)
        ours, peer = least(
            2 * settings.runs,
            lambda values=values, noise=noise: noise_addition.add_noise(values, noise),
            lambda values=values, draw=draw: values + draw(scale=SCALE, size=n),
        )
        limit = LIMIT if law in (Gaussian, Laplace) and not settings.quick else None
        yield Ratio(f"{law.__name__}, {n:,} values", ours, peer, f"values + rng.{method}", limit)
    name = f"Gaussian, {VALUES:,} values, OpenDP"
    if "opendp" not in settings.pythons:
        yield Skipped(name, "needs --peers")
        return
    command = [settings.pythons["opendp"], str(Path(__file__).parents[1] / "sampling_opendp.py"), str(VALUES)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    theirs = json.loads(answer.stdout.strip().splitlines()[-1])
    few = np.full(VALUES, 0.25)
    (ours,) = least(settings.runs, lambda: [noise_addition.add_noise(few, Gaussian(SCALE)) for _ in range(20)])
    yield Ratio(name, ours / 20, theirs["seconds"], f"make_gaussian of {theirs['how']}, k = -20")
