"""Adult cut among hospitals, patients as the unit, with the commands over HTTPS on the loopback: accuracy and seconds.

    python benchmarks/network_adult.py --data DIR [--hospitals 3] [--releases 1] [--epsilon 1] [--delta 1e-6]

DIR holds adult/adult.data and adult/adult.test. The settings are those of benchmarks/patients.py. Noise and draws come
from the operating system, so every release is another one.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from dosimeter.ledger import Ledger
from dosimeter.workflows.consortium_init import create_consortium
from patients import BOUNDS, CATEGORIES, MOMENTUM, RATE, ROUNDS, rows_of

HERE = "127.0.0.1"


def schema(levels: dict[int, list[str]], sizes: list[int], epsilon: float, delta: float) -> str:
    columns = [f"[columns.c{c}]\nlower = {low}\nupper = {high}\n" for c, (low, high) in BOUNDS.items()]
    columns += [f"[columns.c{c}]\nlevels = {levels[c]!r}\n".replace("'", '"') for c in CATEGORIES]
    sites = [f'[[sites]]\nname = "hospital {k}"\npatients = {size}\n' for k, size in enumerate(sizes, start=1)]
    return "\n".join([
        'study = "adult"\nperson = "id"\ntarget = "income"\n',
        f'[release]\nname = "adult"\nepsilon = {epsilon}\ndelta = {delta}\n',
        f"[training]\nrounds = {ROUNDS}\nlearning-rate = {RATE}\nmomentum = {MOMENTUM}\nclip-quantile = 0.7\n",
        *columns, '[columns.income]\nlevels = ["no", "yes"]\n', *sites,
    ])  # fmt: skip


def site(place: Path) -> None:
    from dosimeter.workflows.consortium_site import run_site

    run_site(place / "site.toml")


def release(folder: Path, parts: list[list[list[str]]], text: str) -> tuple[bytes, float]:
    """The released file, and seconds from the first question to the release."""
    from dosimeter.workflows.coordinator import run_coordinator

    (folder / "schema.toml").write_text(text)
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]
    create_consortium(folder / "schema.toml", host=HERE, port=port, out=folder / "c", days=2)
    context = multiprocessing.get_context("spawn")
    names = [f"c{c}" for c in (*BOUNDS, *CATEGORIES)]
    for k, rows in enumerate(parts, start=1):
        (place,) = (folder / "c").glob(f"site-{k}-*")
        Ledger.create(place / "ledger.db", ["eps=10@1e-6"]).close()
        with (place / "patients.csv").open("w", newline="") as file:
            sheet = csv.writer(file)
            sheet.writerow(["id", *names, "income"])
            for j, row in enumerate(rows):
                cells = [row[c] for c in (*BOUNDS, *CATEGORIES)]
                sheet.writerow([f"{k}-{j}", *cells, "yes" if row[14] == ">50K" else "no"])
        with (place / "site.toml").open("a") as file:
            file.write("largest-share = 1.0\n")  # Adult has countries with one person
        context.Process(target=site, args=(place,), daemon=True).start()
    started: list[float] = []

    def say(line: str) -> None:
        if "patient sum" in line:
            started.append(time.perf_counter())

    released = run_coordinator(folder / "c" / "coordinator" / "consortium.toml", say=say)
    return released.artefact, time.perf_counter() - started[0]


def main() -> None:
    import pandas as pd
    import skops.io as sio

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--hospitals", type=int, default=3)
    parser.add_argument("--releases", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()
    train, test = (rows_of(options.data / "adult" / f"adult.{part}") for part in ("data", "test"))
    levels = {c: sorted({row[c] for row in train}) for c in CATEGORIES}
    parts = [train[k :: options.hospitals] for k in range(options.hospitals)]
    text = schema(levels, [len(part) for part in parts], options.epsilon, options.delta)
    frame: dict[str, Any] = {f"c{c}": [float(row[c]) for row in test] for c in BOUNDS}
    frame |= {f"c{c}": [row[c] for row in test] for c in CATEGORIES}
    income = np.array(["yes" if row[14] == ">50K" else "no" for row in test])
    scores = []
    for _ in range(options.releases):
        with tempfile.TemporaryDirectory() as name:
            artefact, seconds = release(Path(name), parts, text)
        model = sio.loads(artefact, trusted=[])
        scores.append(float(np.mean(model.predict(pd.DataFrame(frame)) == income)))
        print(f"accuracy {scores[-1]:.4f}, {ROUNDS} rounds in {seconds:.1f} s", flush=True)
    if len(scores) > 1:
        print(f"{np.mean(scores):.4f} ± {np.std(scores, ddof=1):.4f} over {len(scores)} releases")


if __name__ == "__main__":
    main()
