"""Draws the pictures of the documentation from what the program prints and shows. Run it by `make picture`.

demo.svg: `dosimeter demo`. refusal.svg: the ledger stops a second release. report.png: the demo's internal report, for
which Debian's chromium is needed.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from dosimeter.cli import demo
from dosimeter.datasets.demo import DERIVED, TARGET, diabetes

HERE = Path(__file__).parent
WIDTH = 104
BUDGET, LIMIT = "fil=1", "1"
"""Two releases at η = 1 make 1.41 in quadrature: the first is within 1, the second is not."""
PAGE = {"width": 1000, "height": 1840}


def main() -> None:
    """All three."""
    with tempfile.TemporaryDirectory() as folder:
        draw_demo(Path(folder))
        draw_refusal(Path(folder))
        draw_report(Path(folder))


def draw_demo(folder: Path) -> None:
    """What the demo prints, and its pages for `draw_report`."""
    console = recorder()
    record(console, folder, "demo")
    save(console, "dosimeter demo", "demo.svg")


def draw_refusal(folder: Path) -> None:
    """A monthly retrain: January is booked, February would take 65 people over the budget."""
    table = diabetes().drop(DERIVED)
    with (folder / "patients.csv").open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["patient", *table.names])
        sheet.writerows([f"{k:04d}", *(table[name][k] for name in table.names)] for k in range(table.n))
    fix = ("fix", "patients.csv", "--target", TARGET, "--person", "patient", "--max-dose", LIMIT)
    console = recorder()
    record(console, folder, "ledger", "init", "--ledger", "ledger.db", "--budget", BUDGET, "-q")
    record(console, folder, *fix, "--out", "january.skops", "--ledger", "ledger.db", "--name", "january", "-q")
    record(console, folder, *fix, "--out", "february.skops", "--dose-file", "february.json", "-q")
    booked = ("--ledger", "ledger.db", "--name", "february")
    record(console, folder, "release", "february.skops", "--dose-file", "february.json", *booked, code=1)
    record(console, folder, "ledger", "list", "--ledger", "ledger.db")
    save(console, "the ledger refuses", "refusal.svg")


def draw_report(folder: Path) -> None:
    """The top of the demo's internal report."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("report.png was not drawn: there is no chromium on this machine", file=sys.stderr)
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        tab = opened.new_page(viewport=PAGE)  # type: ignore[arg-type]
        tab.goto((folder / demo.PAGES["internal"]).as_uri())
        tab.wait_for_function("() => !document.querySelector('.chart:not([data-drawn])')")
        tab.screenshot(path=HERE / "report.png")
        opened.close()


def recorder() -> Console:
    """A console that keeps what is printed."""
    return Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, markup=False, force_terminal=True)


def record(console: Console, folder: Path, *arguments: str, code: int = 0) -> None:
    """A command and what it printed, with its colours."""
    shown = " ".join(f'"{a}"' if " " in a else a for a in ("dosimeter", *arguments))
    console.print(f"$ {shown}", style="bold")
    environment = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    run = subprocess.run(
        [sys.executable, "-m", "dosimeter", *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    if run.returncode != code:
        raise SystemExit(f"dosimeter {arguments[0]}: exit {run.returncode} and not {code}: {run.stderr}")
    text = (run.stdout + run.stderr).rstrip("\n")
    if text:
        console.print(Text.from_ansi(text), soft_wrap=True)
    if code:
        console.print(f"exit {code}", style="dim")


def save(console: Console, title: str, name: str) -> None:
    """What was printed, as a picture."""
    drawn = console.export_svg(title=title)
    # No font is fetched from anywhere: the picture must look alike on a machine without a network.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    drawn = "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"
    (HERE / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
