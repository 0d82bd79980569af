"""Three hospitals and a coordinator on one computer: each a process of its own, in a network of its own if that works.

python examples/three-hospitals/run.py                  # every study
python examples/three-hospitals/run.py --study fit      # one of fit, site-noise, components, training, clients
python examples/three-hospitals/run.py --plain          # loopback only, no network namespaces

The 442 patients of the demo are dealt to three hospitals. Each study makes a consortium with `federate init`, a ledger
for each hospital, starts three `federate site` and one `federate coordinator`, and reads the three ledgers at the end.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from network import Network, loopback, namespaces

HERE = Path(__file__).resolve().parent
STUDIES = ("fit", "site-noise", "components", "training", "clients")
BUDGETS = {"fit": "fil=2"}
MOST = 900
"""Seconds that a study may take."""
DOSIMETER = [sys.executable, "-m", "dosimeter"]


def patients() -> tuple[list[str], list[list[str]]]:
    """The demo's patients as text, with a made-up id each."""
    from dosimeter.datasets.demo import DERIVED, diabetes

    table = diabetes()
    names = [name for name in table.names if name not in DERIVED]
    columns = [table[name].tolist() for name in names]
    rows = [[f"patient {k + 1}", *map(str, row)] for k, row in enumerate(zip(*columns, strict=True))]
    return ["id", *names], rows


def deal(folder: Path, sites: list[Path], study: str) -> None:
    """Patients dealt to the sites in turn, and a ledger for each; of a training of clients, for the coordinator."""
    heading, rows = patients()
    for k, place in enumerate(sites):
        with (place / "patients.csv").open("w", newline="") as file:
            sheet = csv.writer(file)
            sheet.writerow(heading)
            sheet.writerows(rows[k :: len(sites)])
        if study != "clients":
            ledger(place, BUDGETS.get(study, "eps=10@1e-5"))
    if study == "clients":
        ledger(sites[0].parent / "coordinator", "eps=10@1e-3")
        with (sites[0].parent / "coordinator" / "consortium.toml").open("a") as file:
            file.write('ledger = "ledger.db"\n')


def ledger(place: Path, budget: str) -> None:
    run([*DOSIMETER, "ledger", "init", "--ledger", str(place / "ledger.db"), "--budget", budget, "-q"])


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=MOST)


def study(name: str, network: Network, folder: Path) -> int:
    """One study from `federate init` to the ledgers; the exit code of the coordinator."""
    consortium = folder / name
    run([
        *DOSIMETER, "federate", "init", "--schema", str(HERE / f"{name}.toml"), "--host", network.coordinator,
        "--port", str(network.port), "--out", str(consortium), "--days", "2", "-q",
    ])  # fmt: skip
    sites = sorted(consortium.glob("site-*"))
    deal(folder, sites, name)
    running = []
    for k, place in enumerate(sites, start=1):
        with (place / "log").open("w") as log:
            command = [*DOSIMETER, "federate", "site", "--config", str(place / "site.toml")]
            party = 1 + (k - 1) % 3
            running.append(subprocess.Popen(network.inside(party, command), stdout=log, stderr=log))
    try:
        command = [*DOSIMETER, "federate", "coordinator", "--config", str(consortium / "coordinator/consortium.toml")]
        code = subprocess.run(network.inside(0, command), timeout=MOST, check=False).returncode
        for process in running:
            process.wait(timeout=MOST)
    finally:
        for process in running:
            process.kill()
    for place in sites[:3]:
        print(f"\n{place.name} said:")
        print("  " + "  ".join((place / "log").read_text().splitlines(keepends=True)[:8]))
    for place in [consortium / "coordinator"] if name == "clients" else sites:
        run([*DOSIMETER, "ledger", "list", "--ledger", str(place / "ledger.db")])
    return code


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--study", choices=[*STUDIES, "all"], default="all")
    parser.add_argument("--plain", action="store_true", help="loopback only")
    parser.add_argument("--folder", type=Path, help="keep everything here; a temporary folder without it")
    options = parser.parse_args()
    chosen = STUDIES if options.study == "all" else (options.study,)
    codes = []
    with tempfile.TemporaryDirectory() as temporary, loopback() if options.plain else namespaces() as network:
        print(network.describe)
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in chosen:
            start = time.perf_counter()
            print(f"\n=== {name} ===")
            codes.append(study(name, network, folder))
            print(f"{name}: exit code {codes[-1]} after {time.perf_counter() - start:.0f} s")
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
