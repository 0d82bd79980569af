"""Draws the pictures of the documentation from what the program really says and shows. Run it by `make picture`.

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
    words = recorder()
    said(words, folder, "demo")
    save(words, "dosimeter demo", "demo.svg")


def draw_refusal(folder: Path) -> None:
    """A monthly retrain: January is booked, February would take 65 people over the budget."""
    table = diabetes().drop(DERIVED)
    with (folder / "patients.csv").open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(["patient", *table.names])
        sheet.writerows([f"{k:04d}", *(table[name][k] for name in table.names)] for k in range(table.n))
    fix = ("fix", "patients.csv", "--target", TARGET, "--person", "patient", "--max-dose", LIMIT)
    words = recorder()
    said(words, folder, "ledger", "init", "--ledger", "book.db", "--budget", BUDGET, "-q")
    said(words, folder, *fix, "--out", "january.skops", "--ledger", "book.db", "--name", "january", "-q")
    said(words, folder, *fix, "--out", "february.skops", "--dose", "february.json", "-q")
    booked = ("--ledger", "book.db", "--name", "february")
    said(words, folder, "release", "february.skops", "--dose", "february.json", *booked, code=1)
    said(words, folder, "ledger", "list", "--ledger", "book.db")
    save(words, "the ledger refuses", "refusal.svg")


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


def said(words: Console, folder: Path, *arguments: str, code: int = 0) -> None:
    """A command and what it said, colours and all."""
    shown = " ".join(f'"{a}"' if " " in a else a for a in ("dosimeter", *arguments))
    words.print(f"$ {shown}", style="bold")
    how = {**os.environ, "COLUMNS": str(WIDTH), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(
        [sys.executable, "-m", "dosimeter", *arguments], cwd=folder, env=how, capture_output=True, text=True
    )
    if done.returncode != code:
        raise SystemExit(f"dosimeter {arguments[0]}: exit {done.returncode} and not {code}: {done.stderr}")
    text = (done.stdout + done.stderr).rstrip("\n")
    if text:
        words.print(Text.from_ansi(text), soft_wrap=True)
    if code:
        words.print(f"exit {code}", style="dim")


def save(words: Console, title: str, name: str) -> None:
    """What was printed, as a picture."""
    drawn = words.export_svg(title=title)
    # No font is fetched from anywhere: the picture must look alike on a machine without a network.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL).replace("Fira Code, monospace", "monospace")
    drawn = "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"
    (HERE / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
