"""Accuracy when clients over the network lie: ten clients in processes of their own, 100 rounds; mean ± deviation.

    python benchmarks/hostile_network.py [--trainings 10] [--rounds 100] [--transport https]

A hostile client sends the opposite of its update, a thousandfold. Rows are the same in every training; draws, noise and
shuffles differ. The processes are those of `tests/engines`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.engines.test_client_faults import hostile_training


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trainings", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--transport", default="https")
    options = parser.parse_args()
    for hostile in (0, 3):
        values, spent = [], set()
        for _ in range(options.trainings):
            with tempfile.TemporaryDirectory() as folder:
                accuracy, history = hostile_training(Path(folder), options.transport, hostile, options.rounds)
            values.append(accuracy)
            spent.add(round(history.figure.epsilon, 6))
        shown = ", ".join(f"{value:.3f}" for value in values)
        print(f"{hostile} of 10 hostile: {np.mean(values):.3f} ± {np.std(values, ddof=1):.3f} ({shown}); ε {spent}")


if __name__ == "__main__":
    main()
