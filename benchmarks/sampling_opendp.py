"""OpenDP's exact discrete Gaussian, timed in its own environment for `benchmarks/rows/noise.py`: one line of JSON.

PY benchmarks/sampling_opendp.py VALUES [RUNS]
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version

import opendp.prelude as dp

SCALE, BITS = 0.1, -20


def main() -> None:
    """Print {"seconds": least of the processor, "how": version}."""
    n, runs = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=SCALE, k=BITS)
    values, fewest = [0.25] * n, float("inf")
    for _ in range(runs):
        start = time.process_time()
        measurement(values)
        fewest = min(fewest, time.process_time() - start)
    print(json.dumps({"seconds": fewest, "how": f"opendp {version('opendp')}"}))


if __name__ == "__main__":
    main()
